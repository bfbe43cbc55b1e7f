"""What the samples of a batch are called in errors: the dataset's indices of them, as one text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pipeline._ipc.messages import Meta

__all__ = ["Labels", "clip", "clip_start", "pack_labels", "unpack_labels"]

#: Field of a message: labels as `pack_labels` makes them.
Labels = Annotated[str, Meta(max_length=1 << 23)]

_END = "\0"  # stands between two labels
_LONGEST = 4096  # bytes of a label
_LONGEST_TEXT = 1 << 22  # bytes of all labels: without them a batch is as good, and a message has a limit


def clip(text: str, nbytes: int = _LONGEST) -> str:
    """Shorten text to what a field of `nbytes` bytes takes."""
    if text.isascii() and len(text) <= nbytes:
        return text
    data = text.encode(errors="surrogatepass")
    if len(data) <= nbytes:
        return text
    return data[: nbytes - 3].decode(errors="ignore") + "..."


def clip_start(text: str, nbytes: int) -> str:
    """Shorten text as `clip`, but keep its end, which says most of a traceback."""
    data = text.encode(errors="surrogatepass")
    return text if len(data) <= nbytes else data[-nbytes:].decode(errors="ignore")


def pack_labels(indices: Sequence[Any]) -> str:
    """Return the indices of a batch as one text; None is one that nobody knows.

    Example:
        >>> unpack_labels(pack_labels([7, None, "a"]), 3)
        ('7', '', 'a')
    """
    if not _any_known(indices):
        return ""
    labels = ["" if index is None else str(index) for index in indices]
    text = _END.join(labels)
    if len(text) > _LONGEST or not text.isascii() or text.count(_END) != len(labels) - 1:
        text = _END.join([clip(label.replace(_END, "?")) for label in labels])
    return text if len(text) * 4 <= _LONGEST_TEXT or len(text.encode(errors="surrogatepass")) <= _LONGEST_TEXT else ""


def _any_known(indices: Sequence[Any]) -> bool:
    return any(index is not None for index in indices)


def unpack_labels(text: str, count: int) -> tuple[str, ...]:
    """Return a label for each of `count` samples; none where nobody knows any, or where it is another number."""
    labels = tuple(map(clip, text.split(_END))) if text else ()
    return labels if len(labels) == count else ()
