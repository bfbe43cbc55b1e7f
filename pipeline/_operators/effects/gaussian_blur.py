"""Blurs images, volumes and sequences with a Gaussian filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._imaging import blur, gaussian_window
from pipeline._kernels import blur_axes
from pipeline._operator_api.arguments import Arguments
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import GpuOperator, allocate, fail, samples_of
from pipeline._operator_api.image_axes import ImageAxes
from pipeline._operator_api.operator import OutputSpec, SampleOperator
from pipeline._operator_api.output_dtype import own_or_float
from pipeline._operator_api.output_specs import describe, known_extents
from pipeline.errors import ArgumentValueError, PipelineError
from pipeline.tensors.cpu import Array

__all__ = ["GAUSSIAN_BLUR"]

GAUSSIAN_BLUR = register(
    OperatorSchema(
        name="gaussian_blur",
        doc="""Blurs with a Gaussian filter along all axes except frames and channels. Borders are reflected.

If only `sigma` is set, the radius of the window is ceil(3 * sigma). If only `window_size` is set, sigma is
(radius - 1) * 0.3 + 0.8 with a radius of (window_size - 1) / 2.""",
        inputs=(Input("data", "Samples with channels first, last or absent; without a layout all axes are blurred."),),
        arguments=(
            Argument(
                "sigma", Kind.FLOATS, "Standard deviation in pixels: one for all axes or one per axis.", (0.0,), True
            ),
            Argument(
                "window_size", Kind.INTS, "Odd width of the window: one for all axes or one per axis.", (0,), True
            ),
            Argument("dtype", Kind.DTYPE, "Dtype of the output: FLOAT, or None for the input's."),
        ),
        devices=("cpu", "gpu"),
    )
)


def _windows(arguments: Arguments, axes: int, size: int) -> list[list[Array] | ArgumentValueError]:
    """Return the weights for each axis of each sample, or the error if the arguments of the sample are invalid."""
    sigmas, sizes = arguments.vectors("sigma", axes), arguments.vectors("window_size", axes)
    assert sigmas is not None
    assert sizes is not None
    windows: list[list[Array] | ArgumentValueError] = []
    for sample in range(size):
        pairs = zip(sigmas[sample].tolist(), sizes[sample].tolist(), strict=True)
        try:
            windows.append([gaussian_window(sigma, int(width)) for sigma, width in pairs])
        except ValueError as error:
            windows.append(ArgumentValueError(str(error)))
    return windows


@dataclass(frozen=True)
class _State:
    axes: ImageAxes
    windows: list[list[Array] | ArgumentValueError]


@implements(GAUSSIAN_BLUR, "cpu")
class GaussianBlurCpu(SampleOperator[_State]):
    """Runs OpenCV's separable filter, one frame at a time."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        (data,) = inputs
        known = known_extents(batch, self.node, inputs)
        axes = ImageAxes.from_layout(data.layout, len(known) if known is not None else len(data.layout))
        dtype = None if data.dtype is None else own_or_float(self.node, data.dtype)
        windows = _windows(batch.arguments(self.node), axes.count, batch.size)
        return _State(axes, windows), [describe(data.layout, known, dtype)]

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        axes, windows = state.axes, state.windows[sample]
        if isinstance(windows, ArgumentValueError):
            raise windows
        if out is None:
            out = np.empty(data.shape, own_or_float(self.node, data.dtype))
        for image, target in axes.images(data, out):
            blur(image, windows, target)
        return out


@implements(GAUSSIAN_BLUR, "gpu")
class GaussianBlurGpu(GpuOperator):
    """One launch per batch and axis."""

    only_launches = True

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = self.contiguous(inputs[0], batch.stream)
        source = samples_of(data)
        axes = ImageAxes.from_layout(data.layout(), data.ndim)
        dtype = own_or_float(self.node, source.dtype)
        windows: list[list[Array]] = []
        failures: list[tuple[int, PipelineError]] = []
        for sample, weights in enumerate(_windows(batch.arguments(self.node), axes.count, batch.size)):
            if isinstance(weights, ArgumentValueError):
                failures.append((sample, weights))
            else:
                windows.append(weights)
        fail(failures)
        output, target = allocate(source.shapes, dtype, data.layout())
        blur_axes(self.kernels, batch.stream, source, target, first=axes.outer, windows=windows)
        return [output]
