"""Cuts windows out of arrays: out-of-bounds policies, fill values and conversion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Kind
from dali_proxy.pipeline._imaging import convert, extract
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array

#: Policies for windows that exceed the image. Synonyms have the same value.
POLICIES = {"error": "error", "pad": "pad", "constant": "pad", "trim_to_shape": "trim_to_shape"}
#: Policies of `slice`, which can also repeat the image.
BORDER_POLICIES = {
    **POLICIES,
    "edge": "edge",
    "clamp": "edge",
    "reflect": "reflect_1001",
    "reflect_1001": "reflect_1001",
    "reflect_101": "reflect_101",
    "wrap": "wrap",
}


def policy_argument(policies: dict[str, str]) -> Argument:
    """Return the argument that selects the policy for windows that exceed the data."""
    doc = (
        "Policy for windows that exceed the data: 'error' raises an error, 'pad' (or 'constant') uses `fill_values` "
        "outside, 'trim_to_shape' cuts the window off"
    )
    if "edge" in policies:
        doc += (
            "; 'edge' (or 'clamp') repeats the last element, 'reflect' (or 'reflect_1001') mirrors the data including "
            "the last element, 'reflect_101' mirrors the data without it, and 'wrap' continues at the other end"
        )
    return Argument(
        "out_of_bounds_policy",
        Kind.STRING,
        doc + ".",
        "error",
        choices=tuple(policies),
        unknown="Not supported out_of_bounds_policy: {}.",
    )


def fill_argument() -> Argument:
    """Return the argument for the values outside of the data."""
    return Argument(
        "fill_values",
        Kind.FLOATS,
        "Values outside of the data: one for all channels or one per channel, in units of the output.",
        (0.0,),
    )


def canonical_policy(name: str) -> str:
    """Return the name that stands for a policy and its synonyms."""
    return BORDER_POLICIES[name]


def check_fill_values(values: Sequence[float], channels: int) -> tuple[float, ...]:
    """Return the fill values: one for all channels, or one per channel.

    Raises:
        ArgumentValueError: There is a different number of values.
    """
    if len(values) not in (1, channels):
        raise ArgumentValueError(
            "Multi-channel fill value does not match the number of channels in the output: 'fill_values' has "
            f"{len(values)} values for {channels} channels"
        )
    return tuple(values)


def round_half_away(value: float) -> int:
    """Round to the nearest integer, halves away from zero."""
    return int(value + 0.5) if value >= 0 else -int(0.5 - value)


def inside(start: Sequence[int], extent: Sequence[int], shape: Sequence[int]) -> bool:
    """Return whether a window lies inside."""
    for first, count, limit in zip(start, extent, shape, strict=True):
        if first < 0 or first + count > limit:
            return False
    return True


def out_of_bounds_error(start: Sequence[int], extent: Sequence[int], shape: Sequence[int]) -> PipelineError:
    """Return the error for a window that exceeds the data under the policy 'error'."""
    return PipelineError(
        "Slice can't be placed out of bounds with current policy. Got: "
        f"input_shape={in_braces(shape)}, slice_anchor={in_braces(start)}, slice_shape={in_braces(extent)}; "
        "use out_of_bounds_policy='pad' or 'trim_to_shape' to allow this"
    )


def in_braces(extents: Sequence[int]) -> str:
    """Return a shape in the form of DALI's messages."""
    return f"{{{' x '.join(map(str, extents))}}}"


def trim(start: Sequence[int], extent: Sequence[int], shape: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return start and extents of the portion of a window that lies inside."""
    low = [min(max(first, 0), limit) for first, limit in zip(start, shape, strict=True)]
    high = [min(max(first + count, 0), limit) for first, count, limit in zip(start, extent, shape, strict=True)]
    return low, [max(end - begin, 0) for begin, end in zip(low, high, strict=True)]


def saturate(array: Array, dtype: np.dtype[Any], out: Array | None = None) -> Array:
    """Convert as DALI's crop and slice do: floats to integers toward zero, with saturation.

    Example:
        >>> saturate(np.array([1.5, -0.5, 300.0]), np.dtype(np.uint8))
        array([  1,   0, 255], dtype=uint8)
    """
    if array.dtype.kind == "f" and dtype.kind in "iu":
        array = np.trunc(array)
    elif dtype == np.float16 and array.dtype != np.float16:
        array = np.clip(array.astype(np.float32), -65504, 65504)
    return convert(array, dtype, out)


def cut(
    array: Array,
    start: Sequence[int],
    extent: Sequence[int],
    *,
    policy: str,
    fill: Sequence[float] = (0.0,),
    channel_axis: int = -1,
    dtype: np.dtype[Any] | None = None,
    out: Array | None = None,
) -> Array:
    """Cut a window out of a sample. Return a view if the window lies inside and there is no conversion and no `out`.

    Args:
        array: the sample.
        start: first element of the window, by axis.
        extent: extents of the window, by axis.
        policy: a value of `BORDER_POLICIES`.
        fill: fill values for the policy "pad": one value, or one per element of `channel_axis`, in units of the output.
        channel_axis: axis of the channels.
        dtype: dtype of the result; by default the sample's.
        out: array to write to.

    Raises:
        PipelineError: The window exceeds the sample under the policy "error".
    """
    if not inside(start, extent, array.shape):
        if policy == "error":
            raise out_of_bounds_error(start, extent, array.shape)
        if policy in BORDERS:
            indices = [
                BORDERS[policy](np.arange(first, first + count), limit)
                for first, count, limit in zip(start, extent, array.shape, strict=True)
            ]
            array, start = array[np.ix_(*indices)], [0] * array.ndim
        elif policy == "trim_to_shape":
            start, extent = trim(start, extent, array.shape)
        else:
            # Convert before padding, because fill values are in units of the output.
            low, size = trim(start, extent, array.shape)
            common = array[tuple(slice(first, first + count) for first, count in zip(low, size, strict=True))]
            if dtype is not None and dtype != common.dtype:
                common = saturate(common, dtype)
            moved = [first - begin for first, begin in zip(start, low, strict=True)]
            return extract(common, moved, extent, policy="pad", fill=fill, channel_axis=channel_axis, out=out)
    window: Array = array[tuple([slice(first, first + count) for first, count in zip(start, extent, strict=True)])]
    if dtype is not None and dtype != window.dtype:
        return saturate(window, dtype, out)
    if out is None:
        return window
    np.copyto(out, window)
    return out


def _reflect_1001(index: Array, extent: int) -> Array:
    index = index % (2 * extent)
    return np.minimum(index, 2 * extent - 1 - index)


def _reflect_101(index: Array, extent: int) -> Array:
    if extent == 1:
        return np.zeros_like(index)
    index = index % (2 * extent - 2)
    return np.minimum(index, 2 * extent - 2 - index)


#: Functions from positions outside to the elements that they repeat, for an axis of a given extent.
BORDERS: dict[str, Callable[[Array, int], Array]] = {
    "edge": lambda index, extent: np.clip(index, 0, extent - 1),
    "reflect_1001": _reflect_1001,
    "reflect_101": _reflect_101,
    "wrap": lambda index, extent: index % extent,
}
