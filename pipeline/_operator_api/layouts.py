"""Which layouts operators on pictures take, and what an empty layout stands for."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.errors import ArgumentValueError

__all__ = ["COLOR_LAYOUTS", "CROP_LAYOUTS", "FLIP_LAYOUTS", "RESIZE_LAYOUTS", "choose_layout"]

# Without a layout, the first one of the samples' number of dimensions counts, as in DALI.
COLOR_LAYOUTS = ("HWC", "FHWC", "DHWC")
CROP_LAYOUTS = ("HWC", "CHW", "DHWC", "CDHW", "FHWC", "FCHW", "CFHW", "FDHWC", "FCDHW", "CFDHW")
FLIP_LAYOUTS = ("FDHWC", "FHWC", "DHWC", "HWC", "FCDHW", "FCHW", "CDHW", "CHW")
RESIZE_LAYOUTS = ("HWC", "FHWC", "CHW", "FCHW", "CFHW", "DHWC", "FDHWC", "CDHW", "FCDHW", "CFDHW")


def choose_layout(layout: str, ndim: int | None, allowed: Sequence[str]) -> str:
    """Return the layout that samples are read with.

    Args:
        layout: of the input; empty when nobody named its dimensions.
        ndim: number of dimensions of the samples; None when it isn't known, then they are taken for pictures.
        allowed: layouts that the operator takes.

    Raises:
        ArgumentValueError: when the operator doesn't take this layout or number of dimensions.

    Example:
        >>> choose_layout("", 4, FLIP_LAYOUTS)
        'FHWC'
    """
    if not layout:
        dimensions = 3 if ndim is None else ndim
        for candidate in allowed:
            if len(candidate) == dimensions:
                return candidate
        hint = "; encoded images must be decoded first, by fn.decoders.image" if dimensions == 1 else ""
        raise ArgumentValueError(
            f"the samples have {dimensions} dimension{'s' * (dimensions != 1)} and no layout; the operator supports "
            f"{', '.join(allowed)}{hint}"
        )
    if layout not in allowed:
        raise ArgumentValueError(f"the layout {layout!r} isn't supported; supported are {', '.join(allowed)}")
    return layout
