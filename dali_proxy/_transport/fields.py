"""Fields of messages about the samples of a batch: tables of their memory, and labels for errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._ipc.errors import ProtocolError
from dali_proxy.pipeline._ipc.messages import Meta

#: Element types of samples and results, by their NumPy names.
DTYPES = {
    name: np.dtype(name)
    for name in (
        "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
        "float16", "float32", "float64", "bool",
    )
}  # fmt: skip

#: Field of a message: labels from `pack_labels`.
Labels = Annotated[str, Meta(max_length=1 << 23)]

_MAX_NDIM = 64  # NumPy's limit
_INT = re.compile(r"0|-?[1-9][0-9]{0,18}")  # the text that `str` makes of an int
_END = "\0"  # separates labels
_UNKNOWN = frozenset((type(None),))  # types of indices that aren't known
_LONGEST = 4096  # bytes of a label
_LONGEST_TEXT = 1 << 22  # bytes of all labels: they are optional, and messages have a size limit


def unpack_table(dtype: str, columns: int, table: bytes) -> tuple[np.dtype[np.generic], npt.NDArray[np.int64]]:
    """Return the dtype and the table of an input or an output. The caller checks that the rows lie in their memory.

    Args:
        dtype: name of the dtype.
        columns: number of int64 in a row.
        table: the rows.

    Raises:
        ProtocolError: the dtype is unknown, or the table's size doesn't fit its rows.
    """
    known = DTYPES.get(dtype)
    if known is None:
        raise ProtocolError(f"unknown element type {dtype!r:.40}")
    if not table or len(table) % (8 * columns) or columns > 2 + _MAX_NDIM:
        raise ProtocolError(f"{len(table)} bytes aren't a table with rows of {columns} int64")
    return known, np.frombuffer(table, np.int64).reshape(-1, columns)


def clip(text: str, nbytes: int = _LONGEST) -> str:
    """Shorten text to `nbytes` bytes."""
    if text.isascii() and len(text) <= nbytes:
        return text
    data = text.encode(errors="surrogatepass")
    if len(data) <= nbytes:
        return text
    return data[: nbytes - 3].decode(errors="ignore") + "..."


def clip_start(text: str, nbytes: int) -> str:
    """Shorten text as `clip` does, but keep the end: the end of a traceback matters most."""
    data = text.encode(errors="surrogatepass")
    return text if len(data) <= nbytes else data[-nbytes:].decode(errors="ignore")


def pack_labels(indices: Sequence[Any]) -> str:
    """Return the indices of a batch as one text; None stands for an unknown index.

    Example:
        >>> unpack_labels(pack_labels([7, None, "a"]), 3)
        ('7', '', 'a')
    """
    kinds = set(map(type, indices))
    if not kinds.isdisjoint(_UNKNOWN):
        if len(kinds) == 1:
            return ""
        indices = ["" if index is None else index for index in indices]
    labels = list(map(str, indices))
    text = _END.join(labels)
    if len(text) > _LONGEST or not text.isascii() or text.count(_END) != len(labels) - 1:
        text = _END.join([clip(label.replace(_END, "?")) for label in labels])
    return text if len(text) * 4 <= _LONGEST_TEXT or len(text.encode(errors="surrogatepass")) <= _LONGEST_TEXT else ""


def unpack_labels(text: str, count: int) -> tuple[str, ...]:
    """Return a label for each of `count` samples; empty if the text has no labels or a different number of them."""
    labels = tuple(map(clip, text.split(_END))) if text else ()
    return labels if len(labels) == count else ()


def indices_of_labels(labels: Sequence[str]) -> tuple[int | str | None, ...]:
    """Return the indices that labels of samples stand for, mostly ints. Empty if all are unknown.

    Example:
        >>> indices_of_labels(["7", "", "a"])
        (7, None, 'a')
    """
    if not any(labels):
        return ()
    return tuple(int(label) if _INT.fullmatch(label) else label or None for label in labels)
