"""Blurs images, volumes and sequences with a Gaussian filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._imaging import GaussianWindows, blur
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import allocate, fail, samples_of
from dali_proxy.pipeline._operator_api.image_axes import ImageAxes
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_dtype import own_or_float
from dali_proxy.pipeline._operator_api.output_specs import describe, known_extents
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline._operators.effects.separable import convolve_axes, convolve_axis, reshaped
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array

GAUSSIAN_BLUR = declare_operator(
    name="gaussian_blur",
    doc="""Blurs with a Gaussian filter along all axes except frames and channels. Borders are reflected.

If only `sigma` is set, the radius of the window is ceil(3 * sigma). If only `window_size` is set, sigma is
(radius - 1) * 0.3 + 0.8 with a radius of (window_size - 1) / 2.""",
    inputs=(Input("data", "Samples with channels first, last or absent; without a layout all axes are blurred."),),
    arguments=(
        Argument("sigma", Kind.FLOATS, "Standard deviation in pixels: one for all axes or one per axis.", (0.0,), True),
        Argument("window_size", Kind.INTS, "Odd width of the window: one for all axes or one per axis.", (0,), True),
        Argument("dtype", Kind.DTYPE, "Dtype of the output: FLOAT, or None for the input's."),
    ),
    devices=("cpu", "gpu"),
)


def _windows(arguments: Arguments, axes: int) -> GaussianWindows:
    sigmas, sizes = arguments.vectors("sigma", axes), arguments.vectors("window_size", axes)
    if (sigmas[:, :1] == sigmas).all() and (sizes[:, :1] == sizes).all():
        return GaussianWindows.from_arguments(sigmas[:, :1], sizes[:, :1]).repeated(axes)
    return GaussianWindows.from_arguments(sigmas, sizes)


@dataclass(frozen=True)
class _State:
    axes: ImageAxes
    windows: GaussianWindows


@implements(GAUSSIAN_BLUR, "cpu")
class GaussianBlurCpu(SampleOperator[_State]):
    """Runs OpenCV's separable filter, one frame at a time."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        (data,) = inputs
        known = known_extents(batch, self.node, inputs)
        axes = ImageAxes.from_layout(data.layout, len(known) if known is not None else len(data.layout))
        dtype = None if data.dtype is None else own_or_float(self.node, data.dtype)
        windows = _windows(batch.arguments(self.node), axes.count)
        return _State(axes, windows), [describe(data.layout, known, dtype)]

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        axes, error = state.axes, state.windows.errors.get(sample)
        if error is not None:
            raise ArgumentValueError(str(error))
        windows = state.windows.of_sample(sample)
        if out is None:
            out = np.empty(data.shape, own_or_float(self.node, data.dtype))
        for image, target in axes.images(data, out):
            blur(image, windows, target)
        return out


@implements(GAUSSIAN_BLUR, "gpu")
class GaussianBlurGpu(PixelOperator):
    """All axes in one expression; large windows, and channels without a layout, take a launch per axis."""

    traits = replace(PixelOperator.traits, gathers=True)

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        if not pixels.layout:
            return None  # the channels are filtered, too
        axes = ImageAxes.from_layout(pixels.layout, pixels.ndim)
        windows = self._valid_windows(batch, axes.count)
        letters = pixels.layout[axes.outer : axes.outer + axes.count]
        dtypes = self._dtypes(pixels.dtype, axes.count)
        return convolve_axes(pixels, letters, [windows.of_axis(number) for number in range(axes.count)], dtypes)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        """Filter along one axis after the other, because large windows don't fit into shared memory."""
        output = self.contiguous(inputs[0], batch.stream)
        source = samples_of(output)
        axes = ImageAxes.from_layout(output.layout(), output.ndim)
        windows = self._valid_windows(batch, axes.count)
        for number, dtype in enumerate(self._dtypes(source.dtype, axes.count)):
            weights, radii = windows.of_axis(number)
            pixels, image = convolve_axis(samples_of(output), axes.outer + number, weights, radii, dtype, output)
            output, target = allocate(source.shapes, dtype, output.layout())
            self.kernels.run(pixels.launch(reshaped(target, image)), batch.stream)
        return [output]

    def _dtypes(self, source: np.dtype[Any], axes: int) -> list[np.dtype[Any]]:
        """Return the dtype of the result of each pass."""
        between = np.dtype(np.float64 if source == np.float64 else np.float32)
        return [between] * (axes - 1) + [own_or_float(self.node, source)]

    def _valid_windows(self, batch: Batch, axes: int) -> GaussianWindows:
        windows = _windows(batch.arguments(self.node), axes)
        fail([(sample, ArgumentValueError(str(error))) for sample, error in windows.errors.items()])
        return windows
