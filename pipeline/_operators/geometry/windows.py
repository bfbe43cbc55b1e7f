"""Cutting windows out of arrays: policies for what lies outside, fill values and conversion, on CPU and GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._declaration.schema import Argument, Kind
from pipeline._imaging import convert, extract
from pipeline._kernels import KernelContext, Samples, strided_copy
from pipeline._operator_api.gpu_operator import allocate, fail, samples_of
from pipeline.errors import ArgumentValueError, PipelineError
from pipeline.tensors.cpu import Array
from pipeline.tensors.gpu import TensorListGPU

__all__ = [
    "BORDER_POLICIES",
    "POLICIES",
    "cut",
    "cut_batch",
    "fill_argument",
    "fill_values",
    "inside",
    "leaves",
    "policy_argument",
    "policy_of",
    "round_half_away",
    "saturated",
    "trim",
]

#: What may be asked for where a window leaves the picture; names that mean the same map to one.
POLICIES = {"error": "error", "pad": "pad", "constant": "pad", "trim_to_shape": "trim_to_shape"}
#: Those of `slice`, which also repeats the picture in several ways.
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
    """Declare the argument that says what happens where a window leaves the data."""
    doc = (
        "Where the window leaves the data: 'error' refuses it, 'pad' (or 'constant') fills it with `fill_values`, "
        "'trim_to_shape' cuts the window off"
    )
    if "edge" in policies:
        doc += (
            "; 'edge' (or 'clamp') repeats the last element, 'reflect' (or 'reflect_1001') mirrors with it, "
            "'reflect_101' mirrors without it, and 'wrap' begins again at the other end"
        )
    return Argument("out_of_bounds_policy", Kind.STRING, doc + ".", "error", choices=tuple(policies))


def fill_argument() -> Argument:
    """Declare the argument that says what stands where a window leaves the data."""
    return Argument(
        "fill_values", Kind.FLOATS, "What stands outside, one value or one a channel, in units of the output.", (0.0,)
    )


def policy_of(name: str) -> str:
    """Return what a policy is called here."""
    return BORDER_POLICIES[name]


def fill_values(values: Sequence[float], channels: int) -> tuple[float, ...]:
    """Check that there is one fill value, or one a channel.

    Raises:
        ArgumentValueError: otherwise.
    """
    if len(values) not in (1, channels):
        raise ArgumentValueError(
            f"argument 'fill_values' has {len(values)} values, but needs 1 or as many as channels: {channels}"
        )
    return tuple(values)


def round_half_away(value: float) -> int:
    """Round to the nearest integer, halves away from zero."""
    return int(value + 0.5) if value >= 0 else -int(0.5 - value)


def inside(start: Sequence[int], extent: Sequence[int], shape: Sequence[int]) -> bool:
    """Tell whether a window lies inside."""
    for first, count, limit in zip(start, extent, shape, strict=True):
        if first < 0 or first + count > limit:
            return False
    return True


def leaves(start: Sequence[int], extent: Sequence[int], shape: Sequence[int]) -> PipelineError:
    """Make the error of a window that leaves the data under the policy 'error'."""
    return PipelineError(
        f"the window from {tuple(start)} of shape {tuple(extent)} leaves the data of shape {tuple(shape)}; "
        "out_of_bounds_policy='pad' or 'trim_to_shape' allow this"
    )


def trim(start: Sequence[int], extent: Sequence[int], shape: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the part of a window that lies inside."""
    low = [min(max(first, 0), limit) for first, limit in zip(start, shape, strict=True)]
    high = [min(max(first + count, 0), limit) for first, count, limit in zip(start, extent, shape, strict=True)]
    return low, [max(end - begin, 0) for begin, end in zip(low, high, strict=True)]


def saturated(array: Array, dtype: np.dtype[Any], out: Array | None = None) -> Array:
    """Convert as DALI's crop and slice do: toward zero from floats to integers, saturating everything else.

    Example:
        >>> saturated(np.array([1.5, -0.5, 300.0]), np.dtype(np.uint8))
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
    """Cut a window out of a sample; a view where nothing has to be written.

    Args:
        array: the sample.
        start: first element of the window, by axis.
        extent: of the window, by axis.
        policy: a value of `BORDER_POLICIES`.
        fill: for the policy "pad": one value, or one along `channel_axis`, in units of the output.
        channel_axis: the axis of channels.
        dtype: of the result; by default the sample's.
        out: where to write.

    Raises:
        PipelineError: when the window leaves the sample under the policy "error".
    """
    if not inside(start, extent, array.shape):
        if policy == "error":
            raise leaves(start, extent, array.shape)
        if policy in _BORDERS:
            picked = [
                _BORDERS[policy](np.arange(first, first + count), limit)
                for first, count, limit in zip(start, extent, array.shape, strict=True)
            ]
            array, start = array[np.ix_(*picked)], [0] * array.ndim
        elif policy == "trim_to_shape":
            start, extent = trim(start, extent, array.shape)
        else:
            # Converted before it is padded, because fill values are in units of the output.
            low, size = trim(start, extent, array.shape)
            part = array[tuple(slice(first, first + count) for first, count in zip(low, size, strict=True))]
            if dtype is not None and dtype != part.dtype:
                part = saturated(part, dtype)
            moved = [first - begin for first, begin in zip(start, low, strict=True)]
            return extract(part, moved, extent, policy="pad", fill=fill, channel_axis=channel_axis, out=out)
    found: Array = array[tuple([slice(first, first + count) for first, count in zip(start, extent, strict=True)])]
    if dtype is not None and dtype != found.dtype:
        return saturated(found, dtype, out)
    if out is None:
        return found
    np.copyto(out, found)
    return out


def _reflect_1001(index: Array, extent: int) -> Array:
    index = index % (2 * extent)
    reflected: Array = np.minimum(index, 2 * extent - 1 - index)
    return reflected


def _reflect_101(index: Array, extent: int) -> Array:
    if extent == 1:
        return np.zeros_like(index)
    index = index % (2 * extent - 2)
    reflected: Array = np.minimum(index, 2 * extent - 2 - index)
    return reflected


#: Which element stands at positions outside, for an axis of some extent.
_BORDERS: dict[str, Callable[[Array, int], Array]] = {
    "edge": lambda index, extent: np.clip(index, 0, extent - 1),
    "reflect_1001": _reflect_1001,
    "reflect_101": _reflect_101,
    "wrap": lambda index, extent: index % extent,
}


def cut_batch(
    kernels: KernelContext,
    stream: Any,
    data: TensorListGPU,
    starts: npt.NDArray[np.int64],
    extents: npt.NDArray[np.int64],
    *,
    policy: str,
    fill: Sequence[float] = (0.0,),
    channel_axis: int | None = None,
    dtype: np.dtype[Any] | None = None,
    layout: str = "",
) -> TensorListGPU:
    """Cut windows out of a batch on the GPU, in one launch (three where floats become integers).

    Args:
        kernels: of the batch's device.
        stream: to enqueue on.
        data: the batch.
        starts: (N, ndim).
        extents: (N, ndim).
        policy: as in `cut`; only "error", "pad" and "trim_to_shape" where windows leave their samples.
        fill: as in `cut`.
        channel_axis: as in `cut`.
        dtype: as in `cut`.
        layout: of the result.

    Raises:
        OperatorError: with the samples that failed.
    """
    source = samples_of(data)
    shapes = source.shapes
    outside = ((starts < 0) | (starts + extents > shapes)).any(axis=1)
    if outside.any():
        if policy in _BORDERS:
            raise ArgumentValueError(
                f"out_of_bounds_policy={policy!r} isn't supported on the GPU yet: use it on the CPU, or use 'pad'"
            )
        if policy == "error":
            fail(
                [
                    (index, leaves(starts[index].tolist(), extents[index].tolist(), shapes[index].tolist()))
                    for index in np.flatnonzero(outside).tolist()
                ]
            )
        if policy == "trim_to_shape":
            ends = np.clip(starts + extents, 0, shapes)
            starts = np.clip(starts, 0, shapes)
            extents = np.maximum(ends - starts, 0)
    target = source.dtype if dtype is None else dtype
    padding = np.asarray(fill if len(fill) > 1 else fill[0], np.float64) if policy == "pad" else None
    axis = channel_axis if len(fill) > 1 else None
    if target != source.dtype and (target == np.float16 or (source.dtype.kind == "f" and target.kind in "iu")):
        # The kernel rounds to nearest and lets float16 overflow, so windows are cut in floats, which are then prepared.
        between = np.dtype(np.float32) if target == np.float16 else source.dtype
        flat, described = _flat(extents, between)
        strided_copy(kernels, stream, source, described, start=starts, channel_axis=axis, fill=padding)
        _prepare(flat, target)
        source, starts, padding = described, np.zeros_like(starts), None
    made, result = allocate(extents, target, layout)
    strided_copy(kernels, stream, source, result, start=starts, channel_axis=axis, fill=padding)
    return made


def _flat(shapes: npt.NDArray[np.int64], dtype: np.dtype[Any]) -> tuple[Any, Samples]:
    """Return one buffer for a batch that is only needed for a moment, and what it holds."""
    import cupy

    _, size = Samples.packed(0, shapes, dtype)
    flat = cupy.empty(max(1, size // dtype.itemsize), dtype)
    return flat, Samples.packed(int(flat.data.ptr), shapes, dtype)[0]


def _prepare(flat: Any, target: np.dtype[Any]) -> None:
    """Do what `saturated` does before its conversion."""
    import cupy

    if target == np.float16:
        cupy.clip(flat, -65504, 65504, out=flat)
    else:
        cupy.trunc(flat, out=flat)
