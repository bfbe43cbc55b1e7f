"""Cuts windows out of batches on the GPU, for `crop`, `slice`, `pad` and `paste`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Bools, Int64s
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.strided_copy import plan_strided_copy
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import allocate, fail, samples_of
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline._operators.geometry.windows import BORDERS, out_of_bounds_error
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

_LARGEST = np.iinfo(np.int32).max


@dataclass(frozen=True, eq=False)
class GpuWindows:
    """Windows of the samples of a batch.

    Attributes:
        starts: first elements, (N, ndim).
        extents: extents, (N, ndim).
        policy: a value of `BORDER_POLICIES`.
        fill: fill values for the policy "pad", in units of the output: (1,), (N, 1), or one for each channel.
        layout: layout of the result; may be empty.
        channel_axis: axis of the channels, if there is one.
        dtype: dtype of the result; by default the input's.
    """

    starts: Int64s
    extents: Int64s
    policy: str
    fill: npt.ArrayLike
    layout: str
    channel_axis: int | None = None
    dtype: np.dtype[Any] | None = None


class WindowGpu(PixelOperator):
    """Cuts windows out of a batch, in one launch (three if floats become integers)."""

    @abstractmethod
    def windows(
        self, batch: Batch, layout: str, shapes: Int64s, dtype: np.dtype[Any], bounds: Sequence[Any]
    ) -> GpuWindows:
        """Return the windows of a batch of samples of `shapes`, (N, ndim); `bounds` are the further inputs."""

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        bounds = [batch.values[edge] for edge in self.node.inputs[1:]]
        windows = self.windows(batch, pixels.layout, pixels.shapes, pixels.dtype, bounds)
        starts, extents, policy = windows.starts, windows.extents, windows.policy
        axis = pixels.order.find("C")
        all_channels = axis < 0 or not (starts[:, axis].any() or (extents[:, axis] != pixels.channels).any())
        if policy in BORDERS or not all_channels or windows.dtype not in (None, pixels.dtype):
            return None
        if policy == "pad" and ((starts < -_LARGEST) | (starts > _LARGEST - extents)).any():
            return None  # expressions have coordinates of 32 bits
        starts, extents = placed(starts, extents, pixels.shapes, policy)
        if windows.layout:
            pixels = pixels.named(windows.layout)
        fill = windows.fill if policy == "pad" else None
        return pixels.window(pixels.along_extents(starts, 0), 1, pixels.along_extents(extents, 1), fill)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        """Do the same for any dimensions, windows of channels, conversions and repeated borders."""
        data, *bounds = inputs
        source = samples_of(data)
        shapes, stream = source.shapes, batch.stream
        windows = self.windows(batch, data.layout(), shapes, source.dtype, bounds)
        starts, extents = placed(windows.starts, windows.extents, shapes, windows.policy)
        if windows.policy in BORDERS:
            outside: Bools = np.asarray(((starts < 0) | (starts + extents > shapes)).any(axis=1))
            if outside.any():
                border = BORDERS[windows.policy]
                data = _repeated(stream, data, starts, extents, outside, border)  # alive until the launch
                source = samples_of(data)
                starts = np.where(outside[:, None], 0, starts)
        target = source.dtype if windows.dtype is None else windows.dtype
        fill = np.asarray(windows.fill, np.float64) if windows.policy == "pad" else None
        axis = windows.channel_axis if np.shape(windows.fill)[-1] > 1 else None
        if target != source.dtype and (target == np.float16 or (source.dtype.kind == "f" and target.kind in "iu")):
            # The kernel rounds to nearest and lets float16 overflow: cut floats first and limit them before.
            between = np.dtype(np.float32) if target == np.float16 else source.dtype
            buffer, cut = _allocate_scratch(extents, between)
            self.launch(plan_strided_copy(source, cut, start=starts, channel_axis=axis, fill=fill), batch)
            _limit(buffer, target)
            source, starts, fill = cut, np.zeros_like(starts), None
        output, result = allocate(extents, target, windows.layout)
        self.launch(plan_strided_copy(source, result, start=starts, channel_axis=axis, fill=fill), batch)
        return [output]


def placed(starts: Int64s, extents: Int64s, shapes: Int64s, policy: str) -> tuple[Int64s, Int64s]:
    """Return windows after applying the policy "error" or "trim_to_shape"; other policies don't change them.

    Raises:
        OperatorError: Windows exceed their samples under the policy "error"; the error lists the samples.
    """
    if policy == "error":
        if not _lie_inside(starts, extents, shapes):
            outside = (starts < 0) | (starts + extents > shapes)
            fail(
                [
                    (each, out_of_bounds_error(starts[each].tolist(), extents[each].tolist(), shapes[each].tolist()))
                    for each in np.flatnonzero(outside.any(axis=1)).tolist()
                ]
            )
    elif policy == "trim_to_shape":
        ends = np.clip(starts + extents, 0, shapes)
        starts = np.clip(starts, 0, shapes)
        extents = np.maximum(ends - starts, 0)
    return starts, extents


def _lie_inside(starts: Int64s, extents: Int64s, shapes: Int64s) -> bool:
    """Return whether no window exceeds its sample."""
    if compiled is None:
        return not ((starts < 0) | (starts + extents > shapes)).any()
    return compiled.lie_inside(*[np.ascontiguousarray(each) for each in (starts, extents, shapes)])


def _repeated(
    stream: Any,
    data: TensorListGPU,
    starts: Int64s,
    extents: Int64s,
    outside: Bools,
    border: Callable[[Array, int], Array],
) -> TensorListGPU:
    """Return the batch with the windows in place of the samples that they exceed, filled by repetition."""
    import cupy

    samples = list(data.samples)
    with stream:
        for index in np.flatnonzero(outside).tolist():
            window = samples[index]
            for axis, (first, count) in enumerate(zip(starts[index], extents[index], strict=True)):
                positions = border(np.arange(first, first + count), window.shape[axis])
                window = cupy.take(window, cupy.asarray(positions), axis=axis)
            samples[index] = window
    return TensorListGPU(samples, data.layout())


def _allocate_scratch(shapes: Int64s, dtype: np.dtype[Any]) -> tuple[Any, Samples]:
    """Return a scratch buffer for a batch, and the samples in it."""
    import cupy

    _, size = Samples.packed(0, shapes, dtype)
    buffer = cupy.empty(max(1, size // dtype.itemsize), dtype)
    return buffer, Samples.packed(int(buffer.data.ptr), shapes, dtype)[0]


def _limit(buffer: Any, target: np.dtype[Any]) -> None:
    """Truncate or clip values in place, as `saturate` does before it converts them."""
    import cupy

    if target == np.float16:
        cupy.clip(buffer, -65504, 65504, out=buffer)
    else:
        cupy.trunc(buffer, out=buffer)
