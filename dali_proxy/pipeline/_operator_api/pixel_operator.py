"""Base class of GPU operators that describe their output as an expression of the pixels of their input."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._cuda.launch import MAX_SAMPLES
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.dimensions import UNNAMED
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.pixels import LARGEST_CHANNELS
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate, fail, samples_of
from dali_proxy.pipeline._operator_api.layouts import choose_layout
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

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

    #: The layouts that it accepts, in the order of `choose_layout`; if it is empty, `express` checks the layout.
    layouts: ClassVar[tuple[str, ...]] = ()

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

    def check_channels(self, channels: int) -> None:
        """Raise an error if the operator can't process images with this number of channels.

        Raises:
            ArgumentValueError: it can't.
        """
        if not 1 <= channels <= LARGEST_CHANNELS:
            raise ArgumentValueError(f"on the GPU, images must have 1 to {LARGEST_CHANNELS} channels, not {channels}")

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        """Compute the output alone. An operator that supports more inputs than expressions do overrides this."""
        data: TensorListGPU = inputs[0]
        layout = choose_layout(data.layout(), data.ndim, self.layouts) if self.layouts else data.layout()
        if self.traits.elementwise:
            return [self._elements(layout, batch, data)]
        layout = layout or ("FDHWC" if data.ndim > _LARGEST_NDIM else "")
        source, outer = samples_of(data), max(0, data.ndim - _LARGEST_NDIM)
        axes, inner = list(range(outer)), layout[outer:]
        pixels = PixelExpression.from_samples(_part(source, outer), inner, data)
        channel = (inner or UNNAMED.get(data.ndim - outer, "")).find("C")
        if pixels is None and self.traits.planewise and channel >= 0:
            axes.append(outer + channel)
            pixels = PixelExpression.from_samples(_part(source, outer, channel), inner, data)
        result = None if pixels is None else self.express(batch, pixels)
        if result is None:
            counts = source.shapes[:, outer + channel].tolist() if channel >= 0 else []
            fail([(sample, error) for sample, count in enumerate(counts) if (error := self._error_of(count))])
            raise ArgumentValueError("on the GPU, all images of a batch must have the same number of channels")
        return [self._all_parts(batch, result, source, axes, layout[:outer])]

    def _error_of(self, channels: int) -> ArgumentValueError | None:
        try:
            self.check_channels(channels)
        except ArgumentValueError as error:
            return error
        return None

    def _elements(self, layout: str, batch: Batch, data: TensorListGPU) -> TensorListGPU:
        """Compute the output from elements of any dimensions."""
        source, owner = samples_of(data), data
        pixels = PixelExpression.from_samples(source, layout, data) or PixelExpression.from_elements(
            source, layout, data
        )
        if pixels is None:
            owner = self.contiguous(data, batch.stream)
            source = samples_of(owner)
            pixels = PixelExpression.from_elements(source.folded(), "", owner)
        result = None if pixels is None else self.express(batch, pixels)
        assert result is not None  # elements of all shapes are alike
        if result is pixels and result.in_memory:
            return data  # without a copy
        output, target = allocate(source.shapes, result.dtype, layout)
        self.kernels.run(result.launch(target.folded() if result.ndim < source.ndim else target), batch.stream)
        return output

    def _all_parts(
        self, batch: Batch, first: PixelExpression, source: Samples, axes: list[int], outer: str
    ) -> TensorListGPU:
        """Compute the output, given the part of each sample with index 0 along `axes`, and the layout of outer axes."""
        if not axes:
            return evaluate(first, self.kernels, batch.stream)
        count = len(outer)
        shapes = np.hstack([source.shapes[:, :count], first.shapes])
        shapes[:, axes] = source.shapes[:, axes]
        output, target = allocate(shapes, first.dtype, outer + first.layout)
        owners, positions = source.positions(axes)
        parts = first.take(owners).moved(source.offsets(owners, positions, axes))
        channel = axes[-1] - count if len(axes) > count else None
        part = _part(target, count, channel).take(owners)
        pointers = part.pointers + target.offsets(owners, positions, axes)
        targets = Samples(pointers, part.shapes, part.strides, part.dtype)
        self.store(parts, targets, batch)
        return output

    def store(self, pixels: PixelExpression, target: Samples, batch: Batch) -> None:
        """Compute any number of images, and write them to memory."""
        for begin in range(0, len(pixels), MAX_SAMPLES):
            some = slice(begin, begin + MAX_SAMPLES)
            self.kernels.run(pixels.take(some).launch(target.take(some)), batch.stream)


def _part(samples: Samples, outer: int, channel: int | None = None) -> Samples:
    """Return the part of each sample with index 0 along outer dimensions, and only one channel if it is given."""
    shapes = samples.shapes[:, outer:].copy()
    if channel is not None:
        shapes[:, channel] = 1
    return Samples(samples.pointers, shapes, samples.strides[:, outer:], samples.dtype)


def evaluate(
    pixels: PixelExpression, kernels: KernelContext, stream: Any, memory_of: Callable[[int], Any] = lambda nbytes: None
) -> TensorListGPU:
    """Compute the pixels of a batch: allocate memory on the current stream (see `allocate`), and launch one kernel."""
    output, target = allocate(pixels.shapes, pixels.dtype, pixels.layout, memory_of)
    kernels.run(pixels.launch(target), stream)
    return output
