"""Files of the formats of other frameworks: protocol buffers, TFRecord, RecordIO."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def varint(number: int) -> bytes:
    """Encode an integer; negative ones take ten bytes."""
    number &= (1 << 64) - 1
    encoded = b""
    while number > 127:
        encoded += bytes([number & 127 | 128])
        number >>= 7
    return encoded + bytes([number])


def field(number: int, content: bytes | int) -> bytes:
    """Encode a field: an integer, or bytes after their length."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def feature(values: Sequence[Any], *, packed: bool = True) -> bytes:
    """Encode a `Feature` of TensorFlow: bytes, real numbers or integers."""
    if not values:
        return b""
    if isinstance(values[0], bytes):
        return field(1, b"".join(field(1, each) for each in values))
    if isinstance(values[0], float):
        numbers = [struct.pack("<f", each) for each in values]
        return field(2, field(1, b"".join(numbers)) if packed else b"".join(b"\x0d" + each for each in numbers))
    return field(3, field(1, b"".join(map(varint, values))) if packed else b"".join(field(1, each) for each in values))


def example(features: dict[str, Sequence[Any]], *, packed: bool = True) -> bytes:
    """Encode an `Example` of TensorFlow."""
    entries = (field(1, name.encode()) + field(2, feature(values, packed=packed)) for name, values in features.items())
    return field(1, b"".join(field(1, entry) for entry in entries))


def write_tfrecord(path: Path, examples: Sequence[bytes]) -> Path:
    """Write a TFRecord file with zeros as checksums; return the path of its index."""
    index, content = "", b""
    for each in examples:
        record = struct.pack("<QI", len(each), 0) + each + bytes(4)
        index += f"{len(content)} {len(record)}\n"
        content += record
    path.write_bytes(content)
    path.with_suffix(".idx").write_text(index)
    return path.with_suffix(".idx")


def datum(data: bytes, label: int | None = None, shape: tuple[int, int, int] | None = None) -> bytes:
    """Encode a `Datum` of Caffe: an encoded image, or pixels with their channels, height and width."""
    extents = b"".join(field(number, extent) for number, extent in enumerate(shape or (), 1))
    return extents + field(4, data) + (b"" if label is None else field(5, label)) + field(7, int(shape is None))


def tensor(values: Any, shape: Sequence[int] = ()) -> bytes:
    """Encode a `TensorProto` of Caffe2: a string, a bytearray with a shape, or real numbers or integers."""
    extents = b"".join(field(1, extent) for extent in shape or [1 if isinstance(values, bytes) else len(values)])
    if isinstance(values, bytearray):
        return extents + field(2, 3) + field(5, bytes(values))
    if isinstance(values, bytes):
        return extents + field(2, 4) + field(6, values)
    if isinstance(values[0], float):
        return extents + field(2, 1) + field(3, struct.pack(f"<{len(values)}f", *values))
    return extents + field(2, 2) + field(4, b"".join(map(varint, values)))


def tensors(*values: bytes) -> bytes:
    """Encode a `TensorProtos` of Caffe2."""
    return b"".join(field(1, each) for each in values)


MAGIC = 0xCED7230A


def image_record(label: float | list[float], data: bytes) -> bytes:
    """Encode an image with one or several labels, as MXNet does."""
    many = label if isinstance(label, list) else []
    first = 0.0 if isinstance(label, list) else label
    return struct.pack(f"<IfQQ{len(many)}f", len(many), first, 0, 0, *many) + data


def write_recordio(path: Path, records: Sequence[bytes | tuple[bytes, ...]]) -> Path:
    """Write a RecordIO file; a tuple is a record of several parts. Return the path of its index."""
    index, content = "", b""
    for number, record in enumerate(records):
        index += f"{number}\t{len(content)}\n"
        parts = record if isinstance(record, tuple) else (record,)
        flags = [0] if len(parts) == 1 else [1, *[2] * (len(parts) - 2), 3]
        for flag, part in zip(flags, parts, strict=True):
            content += struct.pack("<II", MAGIC, flag << 29 | len(part)) + part + bytes(-len(part) % 4)
    path.write_bytes(content)
    path.with_suffix(".idx").write_text(index)
    return path.with_suffix(".idx")
