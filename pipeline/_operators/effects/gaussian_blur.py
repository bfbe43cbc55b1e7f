"""Blurs images, volumes and sequences with a Gaussian filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._imaging import blur, gaussian_window
from pipeline._kernels import blur_axes
from pipeline._operator_api.arguments import Arguments
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import GpuOperator, allocate, fail, samples_of
from pipeline._operator_api.operator import OutputSpec, SampleOperator
from pipeline._operator_api.output_specs import describe, known_extents
from pipeline.errors import ArgumentValueError, PipelineError
from pipeline.tensors.cpu import Array
from pipeline.types import FLOAT, to_numpy_type

__all__ = ["GAUSSIAN_BLUR"]

_MAX_AXES = 3

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


@dataclass(frozen=True)
class _Axes:
    """Dimensions to blur.

    Attributes:
        outer: number of dimensions before them: frames, and channels if they come first.
        blurred: number of dimensions to blur. Only channels may follow.
    """

    outer: int
    blurred: int

    @classmethod
    def from_layout(cls, layout: str, ndim: int) -> _Axes:
        if not layout:
            if not 0 < ndim <= _MAX_AXES:
                raise ArgumentValueError(
                    f"samples of {ndim} dimensions need a layout; without it, only 1 to 3 dimensions can be blurred"
                )
            return cls(0, ndim)
        axes = [index for index, letter in enumerate(layout) if letter not in "FC"]
        if not 0 < len(axes) <= _MAX_AXES:
            raise ArgumentValueError(
                f"the layout {layout!r} has {len(axes)} dimensions to blur, but only 1 to 3 are supported"
            )
        first, last = axes[0], axes[-1]
        behind = layout[last + 1 :]
        if last - first + 1 != len(axes) or behind not in ("", "C"):
            raise ArgumentValueError(f"the layout {layout!r} must have frames first, and channels first or last")
        return cls(first, len(axes))

    def windows(self, arguments: Arguments, size: int) -> list[list[Array] | ArgumentValueError]:
        """Return the weights for each axis of each sample, or the error if the arguments of the sample are invalid."""
        sigmas, sizes = arguments.vectors("sigma", self.blurred), arguments.vectors("window_size", self.blurred)
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


def _output_dtype(node: GraphNode, source: np.dtype[Any]) -> np.dtype[Any]:
    dtype = node.argument("dtype")
    if source == np.bool_:
        raise ArgumentValueError("samples of BOOL can't be blurred; use fn.cast")
    if dtype is None or dtype == FLOAT:
        return source if dtype is None else np.dtype(np.float32)
    if to_numpy_type(dtype) != source:
        raise ArgumentValueError(f"argument 'dtype' must be FLOAT or the input's dtype, {source}, not {dtype!r}")
    return source


@dataclass(frozen=True)
class _State:
    axes: _Axes
    windows: list[list[Array] | ArgumentValueError]


@implements(GAUSSIAN_BLUR, "cpu")
class GaussianBlurCpu(SampleOperator[_State]):
    """Runs OpenCV's separable filter, one frame at a time."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        (data,) = inputs
        known = known_extents(batch, self.node, inputs)
        axes = _Axes.from_layout(data.layout, len(known) if known is not None else len(data.layout))
        dtype = None if data.dtype is None else _output_dtype(self.node, data.dtype)
        windows = axes.windows(batch.arguments(self.node), batch.size)
        return _State(axes, windows), [describe(data.layout, known, dtype)]

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        axes, windows = state.axes, state.windows[sample]
        if isinstance(windows, ArgumentValueError):
            raise windows
        if out is None:
            out = np.empty(data.shape, _output_dtype(self.node, data.dtype))
        channels = data.shape[axes.outer + axes.blurred :] or (1,)
        frame = (*data.shape[axes.outer : axes.outer + axes.blurred], *channels)
        for index in np.ndindex(*data.shape[: axes.outer]):
            blur(data[index].reshape(frame), windows, out[index].reshape(frame))
        return out


@implements(GAUSSIAN_BLUR, "gpu")
class GaussianBlurGpu(GpuOperator):
    """One launch per batch and axis."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = self.contiguous(inputs[0], batch.stream)
        source = samples_of(data)
        axes = _Axes.from_layout(data.layout(), data.ndim)
        dtype = _output_dtype(self.node, source.dtype)
        windows: list[list[Array]] = []
        failures: list[tuple[int, PipelineError]] = []
        for sample, weights in enumerate(axes.windows(batch.arguments(self.node), batch.size)):
            if isinstance(weights, ArgumentValueError):
                failures.append((sample, weights))
            else:
                windows.append(weights)
        fail(failures)
        output, target = allocate(source.shapes, dtype, data.layout())
        blur_axes(self.kernels, batch.stream, source, target, first=axes.outer, windows=windows)
        return [output]
