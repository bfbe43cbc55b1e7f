"""Layouts: strings with one letter for each dimension of a sample, without the batch dimension."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dali_proxy.pipeline.errors import ArgumentValueError, InputTypeError

__all__ = ["check_layout", "common_layout"]


def check_layout(layout: str | None, ndim: int, what: str) -> str:
    """Check that a layout fits `ndim` dimensions, and return it. None and an empty layout always fit.

    Raises:
        ArgumentValueError: the number of letters differs from `ndim`. The message begins with `what`.
    """
    if layout and len(layout) != ndim:
        raise ArgumentValueError(
            f"{what}: the layout {layout!r} names {len(layout)} dimensions, but the samples have {ndim}"
        )
    return layout or ""


def common_layout(samples: Iterable[Any]) -> str:
    """Return the common layout of samples. Samples that aren't tensors of this package have an empty layout.

    Raises:
        InputTypeError: the layouts differ.
    """
    layouts = {sample.layout() if callable(getattr(sample, "layout", None)) else "" for sample in samples}
    if len(layouts) > 1:
        raise InputTypeError(f"the samples of a batch must have one layout, not {sorted(layouts)}")
    return str(layouts.pop()) if layouts else ""
