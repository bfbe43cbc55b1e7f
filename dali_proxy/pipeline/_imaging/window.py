"""Integer windows of arrays, and policies for windows that exceed the array."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dali_proxy.pipeline._arrays import Array

POLICIES = ("error", "pad", "trim_to_shape")


def extract(
    array: Array,
    start: Sequence[int],
    shape: Sequence[int],
    *,
    policy: str = "error",
    fill: float | Sequence[float] = 0,
    channel_axis: int = -1,
    out: Array | None = None,
) -> Array:
    """Cut the window ``start[i] .. start[i] + shape[i]`` of every axis out of an array.

    Args:
        array: array of any dtype. The window's axes are the first axes of the array.
        start: first index of each axis; may be negative or beyond the end.
        shape: extent of each axis.
        policy: rule for windows that exceed the array: ``"error"`` raises an error, ``"pad"`` fills elements outside,
            ``"trim_to_shape"`` returns only the elements inside.
        fill: one value, or one per channel, for ``"pad"``; clamped to the range of the dtype.
        channel_axis: axis that a sequence of fill values runs along.
        out: output array, of the resulting shape.

    Returns:
        A view of `array` if the window lies inside and `out` is None, otherwise a separate array.

    Raises:
        ValueError: the window exceeds the array with ``"error"``, the policy is unknown, or the number of fill values
            is wrong.

    Example:
        >>> extract(np.arange(4), [2], [3], policy="pad", fill=9)
        array([2, 3, 9])
    """
    if policy not in POLICIES:
        raise ValueError(f"unknown out-of-bounds policy {policy!r}; known are {', '.join(POLICIES)}")
    if len(start) != len(shape) or len(start) > array.ndim:
        raise ValueError(f"a window of {len(start)} starts and {len(shape)} extents doesn't fit {array.ndim} axes")
    if any(extent < 0 for extent in shape):
        raise ValueError(f"a window can't have the negative shape {tuple(shape)}")
    inside = tuple(
        (min(max(first, 0), limit), min(max(first + extent, 0), limit))
        for first, extent, limit in zip(start, shape, array.shape, strict=False)
    )
    found = array[tuple(slice(low, high) for low, high in inside)]
    is_inside = all(
        low == first and high == first + extent for (low, high), first, extent in zip(inside, start, shape, strict=True)
    )
    if is_inside or policy == "trim_to_shape":
        if out is None:
            return found
        np.copyto(out, found)
        return out
    if policy == "error":
        raise ValueError(
            f"the window at {tuple(start)} of shape {tuple(shape)} exceeds the array of shape {array.shape}; "
            f'choose out_of_bounds_policy="pad" or "trim_to_shape" if that is intended'
        )
    if out is None:
        out = np.empty((*shape, *array.shape[len(start) :]), array.dtype)
    paste_fill(out, fill, channel_axis)
    target = tuple(slice(low - first, high - first) for (low, high), first in zip(inside, start, strict=True))
    if found.size:
        out[target] = found
    return out


def paste_fill(out: Array, fill: float | Sequence[float], channel_axis: int) -> None:
    """Fill an array with one value, or with one value per channel, clamped to the range of its dtype."""
    values = np.atleast_1d(np.asarray(fill, np.float64))
    if out.dtype.kind in "iu":
        limits = np.iinfo(out.dtype)
        # Clamp before the cast: DALI truncates fill values, and leaves values out of range undefined.
        values = np.clip(np.trunc(values), float(limits.min), float(limits.max))
    if values.size == 1:
        out[...] = values[0]
        return
    channels = out.shape[channel_axis]
    if values.ndim != 1 or values.size != channels:
        raise ValueError(f"{values.size} fill values were given for {channels} channels")
    along = [1] * out.ndim
    along[channel_axis] = channels
    out[...] = values.reshape(along).astype(out.dtype)
