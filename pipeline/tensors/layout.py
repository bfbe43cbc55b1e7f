"""Layouts: strings that name the dimensions of a sample, one letter each, the batch dimension excluded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pipeline.errors import ArgumentValueError, InputTypeError

__all__ = ["axis_of", "check_layout", "common_layout"]


def check_layout(layout: str, ndim: int, what: str) -> str:
    """Return `layout` when it fits `ndim` dimensions; an empty layout fits everything.

    Raises:
        ArgumentValueError: when the number of letters differs from `ndim`; `what` begins the message.
    """
    if layout and len(layout) != ndim:
        raise ArgumentValueError(
            f"{what}: the layout {layout!r} names {len(layout)} dimensions, but the samples have {ndim}"
        )
    return layout


def common_layout(samples: Iterable[Any]) -> str:
    """Return the layout of samples that are tensors of this package; an empty one of other samples.

    Raises:
        InputTypeError: when they have different layouts.
    """
    layouts = {sample.layout() if callable(getattr(sample, "layout", None)) else "" for sample in samples}
    if len(layouts) > 1:
        raise InputTypeError(f"the samples of a batch must have one layout, not {sorted(layouts)}")
    return str(layouts.pop()) if layouts else ""


def axis_of(layout: str, letter: str) -> int | None:
    """Return the position of a dimension's letter in a layout, or None."""
    position = layout.find(letter)
    return None if position < 0 else position
