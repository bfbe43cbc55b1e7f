"""Labels of the samples of a batch, for errors: their dataset indices as one text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

from dali_proxy.pipeline._ipc.messages import Meta

#: Field of a message: labels from `pack_labels`.
Labels = Annotated[str, Meta(max_length=1 << 23)]

_INT = re.compile(r"0|-?[1-9][0-9]{0,18}")  # the text that `str` makes of an int
_END = "\0"  # separates labels
_UNKNOWN = frozenset((type(None),))  # types of indices that aren't known
_LONGEST = 4096  # bytes of a label
_LONGEST_TEXT = 1 << 22  # bytes of all labels: they are optional, and messages have a size limit


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
