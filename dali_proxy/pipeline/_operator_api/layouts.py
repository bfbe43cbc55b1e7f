"""The layouts that image operators accept, and the meaning of an empty layout."""

from __future__ import annotations

from collections.abc import Sequence

from dali_proxy.pipeline.errors import ArgumentValueError

# Samples without a layout get the first layout that has their number of dimensions, as in DALI.
COLOR_LAYOUTS = ("HWC", "FHWC", "DHWC")
CROP_LAYOUTS = ("HWC", "CHW", "DHWC", "CDHW", "FHWC", "FCHW", "CFHW", "FDHWC", "FCDHW", "CFDHW")
FLIP_LAYOUTS = ("FDHWC", "FHWC", "DHWC", "HWC", "FCDHW", "FCHW", "CDHW", "CHW")
RESIZE_LAYOUTS = ("HWC", "FHWC", "CHW", "FCHW", "CFHW", "DHWC", "FDHWC", "CDHW", "FCDHW", "CFDHW")


_HINTS = {
    1: "; encoded images must be decoded first, by fn.decoders.image; for a signal, use fn.slice with axes=[0]",
    2: "; an image or a mask without channels needs one: array[..., None]",
}


def choose_layout(layout: str, ndim: int | None, allowed: Sequence[str]) -> str:
    """Return the layout with which an operator reads samples.

    Args:
        layout: layout of the input; empty if it has none.
        ndim: number of dimensions of the samples; None if it isn't known. Then the samples are assumed to be images.
        allowed: layouts that the operator accepts.

    Raises:
        ArgumentValueError: the operator doesn't accept this layout or number of dimensions.

    Example:
        >>> choose_layout("", 4, FLIP_LAYOUTS)
        'FHWC'
    """
    if not layout:
        dimensions = 3 if ndim is None else ndim
        for candidate in allowed:
            if len(candidate) == dimensions:
                return candidate
        hint = _HINTS.get(dimensions, "")
        raise ArgumentValueError(
            f"The number of dimensions {dimensions} does not match any of the allowed; the samples have no layout, and "
            f"the operator supports {', '.join(allowed)}{hint}"
        )
    if layout not in allowed:
        raise ArgumentValueError(
            f'The layout "{layout}" does not match any of the allowed layouts. Valid layouts are: {" ".join(allowed)}'
        )
    return layout
