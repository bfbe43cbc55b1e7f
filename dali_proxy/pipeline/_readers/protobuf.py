"""A parser for messages in the wire format of Protocol Buffers. It checks all bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: Wire types.
VARINT, DOUBLE, BYTES, FLOAT = 0, 1, 2, 5
_WIDTHS = {DOUBLE: 8, FLOAT: 4}
_LONGEST_VARINT = 10


def fields(message: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    r"""Yield the fields of a message: number, wire type, and encoded value.

    Raises:
        ValueError: the message is damaged.

    Example:
        >>> [(number, kind, bytes(value)) for number, kind, value in fields(memoryview(b"\x0a\x02hi"))]
        [(1, 2, b'hi')]
    """
    at, end = 0, len(message)
    while at < end:
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            start = at
            _, at = _varint(message, at)
            yield number, kind, message[start:at]
            continue
        if kind == BYTES:
            length, at = _varint(message, at)
        elif kind in _WIDTHS:
            length = _WIDTHS[kind]
        else:
            raise ValueError(f"a field has the unknown wire type {kind}")
        if length > end - at:
            raise ValueError(f"a field of {length} bytes exceeds its message")
        yield number, kind, message[at : at + length]
        at += length


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Return an integer and the position after it."""
    value = 0
    for shift, byte in enumerate(message[at : at + _LONGEST_VARINT]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            return value, at + shift + 1
    raise ValueError("an integer exceeds its message")


def integers(kind: int, value: memoryview) -> Array:
    """Return the integers of a field, packed or single, as int64.

    Raises:
        ValueError: the field doesn't contain integers.
    """
    if kind not in (VARINT, BYTES):
        raise ValueError(f"a field of integers has the wire type {kind}")
    data = np.frombuffer(value, np.uint8)
    if not data.size:
        return np.empty(0, np.int64)
    ends = np.flatnonzero(data < 128)
    if not ends.size or ends[-1] != data.size - 1:
        raise ValueError("an integer exceeds its message")
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    if lengths.max() > _LONGEST_VARINT:
        raise ValueError("an integer is too long")
    shifts = 7 * (np.arange(data.size) - np.repeat(starts, lengths))
    parts = (data & 127).astype(np.uint64) << shifts.astype(np.uint64)
    return np.bitwise_or.reduceat(parts, starts).view(np.int64)


def integer(kind: int, value: memoryview) -> int:
    """Return the integer of a field; the last one if they are packed.

    Raises:
        ValueError: the field doesn't contain an integer.
    """
    found = integers(kind, value)
    if not found.size:
        raise ValueError("a field of integers is empty")
    return int(found[-1])


def floats(kind: int, value: memoryview) -> Array:
    """Return the float32 numbers of a field, packed or single.

    Raises:
        ValueError: the field doesn't contain float32 numbers.
    """
    if kind not in (FLOAT, BYTES) or len(value) % 4:
        raise ValueError(f"a field of {len(value)} bytes and wire type {kind} isn't an array of float32")
    return np.frombuffer(value, "<f4").astype(np.float32, copy=False)
