"""Base class of GPU operators that describe their output as an expression of the pixels of their input."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pipeline._cuda.context import KernelContext
from pipeline._kernels import Samples
from pipeline._kernels.dimensions import UNNAMED
from pipeline._kernels.expression import LARGEST_CHANNELS, PixelExpression
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import GpuOperator, allocate, samples_of
from pipeline.errors import ArgumentValueError
from pipeline.tensors.gpu import TensorListGPU

__all__ = ["PixelOperator", "evaluate"]

_LARGEST_NDIM = 4  # of expressions: depth or frames, height, width and channels


class PixelOperator(GpuOperator):
    """A GPU operator with one output, whose pixels depend on a few pixels of its first input.

    A chain of such operators runs as one kernel without intermediate images: the executor calls `express` for each of
    them, and evaluates the resulting expression when an operator of another kind reads it, or at the end of the graph.
    """

    traits = replace(GpuOperator.traits, per_sample=True)
    supported_traits: ClassVar[tuple[str, ...]] = (
        *GpuOperator.supported_traits, "elementwise", "gathers", "launches", "planewise",
    )  # fmt: skip

    @property
    def needs_gpu(self) -> bool:
        """Whether `express` launches kernels for the arguments of this node."""
        return self.traits.launches

    @abstractmethod
    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        """Return the output as an expression. Without the trait `launches`, this needs no GPU.

        Args:
            batch: size, arguments and random numbers.
            pixels: the first input.

        Returns:
            The output; None if expressions don't support the arguments or the input. Then the executor calls `run`.

        Raises:
            PipelineError: the arguments or the input are invalid.
        """

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        """Compute the output alone. An operator that supports more inputs than expressions do overrides this."""
        data = inputs[0]
        outer = max(0, data.ndim - _LARGEST_NDIM)  # of sequences of volumes, whose outer dimensions become one
        layout = data.layout()
        if outer:
            data, layout = self.contiguous(data, batch.stream), layout or "FDHWC"
        source = samples_of(data)
        pixels = PixelExpression.from_samples(_merged(source, outer), layout[outer:], data)
        if pixels is None and self.traits.planewise:
            planes = self._run_planes(batch, data)
            if planes is not None:
                return [planes]
        result = None if pixels is None else self.express(batch, pixels)
        if result is None:
            raise ArgumentValueError(
                f"on the GPU, images must have 1 to {LARGEST_CHANNELS} channels, the same number in all samples"
            )
        if not outer:
            return [evaluate(result, self.kernels, batch.stream)]
        shapes = np.concatenate([source.shapes[:, : outer + 1], result.shapes[:, 1:]], axis=1)
        output, target = allocate(shapes, result.dtype, layout[:outer] + result.layout)
        self.kernels.run(result.launch(_merged(target, outer)), batch.stream)
        return [output]

    def _run_planes(self, batch: Batch, data: TensorListGPU) -> TensorListGPU | None:
        """Express the first channel of each sample, and compute all channels in this way, each as an image."""
        source = samples_of(data)
        layout = data.layout() or UNNAMED.get(source.ndim, "")
        axis = layout.find("C")
        counts = source.shapes[:, axis].copy()
        if axis < 0 or not counts.any():
            return None
        pixels = PixelExpression.from_samples(_channel(source, axis), data.layout(), data)
        first = None if pixels is None else self.express(batch, pixels)
        if first is None:
            return None
        shapes = first.shapes
        shapes[:, axis] = counts
        output, target = allocate(shapes, first.dtype, first.layout)
        owners = np.repeat(np.arange(len(source)), counts)
        numbers = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        targets = _channel(target.take(owners), axis, numbers)
        planes = first.take(owners).moved(numbers * source.strides[owners, axis])
        self.kernels.run(planes.launch(targets), batch.stream)
        return output


def _merged(samples: Samples, outer: int) -> Samples:
    """Return contiguous samples with the first `outer` dimensions merged into the next one."""
    if not outer:
        return samples
    shapes = samples.shapes[:, outer:].copy()
    shapes[:, 0] = np.prod(samples.shapes[:, : outer + 1], axis=1)
    return Samples.contiguous(samples.pointers, shapes, samples.dtype)


def _channel(samples: Samples, axis: int, numbers: npt.NDArray[np.int64] | int = 0) -> Samples:
    """Return one channel of each sample."""
    shapes = samples.shapes.copy()
    shapes[:, axis] = 1
    return Samples(samples.pointers + numbers * samples.strides[:, axis], shapes, samples.strides, samples.dtype)


def evaluate(
    pixels: PixelExpression, kernels: KernelContext, stream: Any, memory_of: Callable[[int], Any] = lambda nbytes: None
) -> TensorListGPU:
    """Compute the pixels of a batch: allocate memory on the current stream (see `allocate`), and launch one kernel."""
    output, target = allocate(pixels.shapes, pixels.dtype, pixels.layout, memory_of)
    kernels.run(pixels.launch(target), stream)
    return output
