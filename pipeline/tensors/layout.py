"""Layouts: strings that name the dimensions of a sample, one letter each, the batch dimension excluded."""

from __future__ import annotations

from pipeline.errors import ArgumentValueError

__all__ = ["axis_of", "check_layout"]


def check_layout(layout: str, ndim: int, what: str) -> str:
    """Return `layout` when it fits `ndim` dimensions; an empty layout fits everything.

    Raises:
        ArgumentValueError: when the number of letters differs from `ndim`; `what` begins the message.
    """
    if layout and len(layout) != ndim:
        raise ArgumentValueError(
            f"{what}: the layout {layout!r} names {len(layout)} dimensions, the samples have {ndim}"
        )
    return layout


def axis_of(layout: str, letter: str) -> int | None:
    """Return the position of a dimension's letter in a layout, or None."""
    position = layout.find(letter)
    return None if position < 0 else position
