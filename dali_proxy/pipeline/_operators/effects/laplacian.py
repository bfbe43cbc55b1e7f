"""Computes the Laplacian of images, volumes and sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._imaging.laplacian import derivative_window, laplacian, smoothing_window
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import allocate, samples_of
from dali_proxy.pipeline._operator_api.image_axes import ImageAxes
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_dtype import own_or_float
from dali_proxy.pipeline._operator_api.output_specs import describe, known_extents
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline._operators.effects.separable import convolve_axes, convolve_axis, reshaped
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array

_LARGEST = 31
#: Number of axes up to which all derivatives are one expression.
_MOST_AXES = 2

LAPLACIAN = declare_operator(
    name="laplacian",
    doc="""Computes the Laplacian: the sum of the second derivatives along all axes except frames and channels.

Each derivative is a filter along its own axis, and a smoothing filter along the other axes. It is computed in float32.
Borders are reflected.""",
    inputs=(Input("data", "Samples with channels first, last or absent; without a layout all axes are filtered."),),
    arguments=(
        Argument(
            "window_size",
            Kind.INTS,
            f"Odd width of the derivative filter, 3 to {_LARGEST}: one for all axes or one per axis.",
            (3,),
            per_sample=True,
        ),
        Argument(
            "smoothing_size",
            Kind.INTS,
            f"Odd width of the smoothing filter, 1 to {_LARGEST}: one for all axes or one per axis; 1 doesn't "
            "smooth. By default it is the width of the derivative filter.",
            None,
            per_sample=True,
        ),
        Argument("scale", Kind.FLOATS, "Factors of the derivatives: one for all axes or one per axis.", (1.0,), True),
        Argument(
            "normalized_kernel",
            Kind.BOOL,
            "Scale each derivative by 2 ** (axes + 2 - widths), where `widths` is the sum of the widths of its "
            "filters; can't be used together with `scale`.",
            False,
        ),
        Argument("dtype", Kind.DTYPE, "Dtype of the output: FLOAT, or None for the input's."),
    ),
    devices=("cpu", "gpu"),
)

#: For each derivative: the weights for every axis, and the factor of the result.
_Derivatives = list[tuple[list[Array], float]]


def _derivatives(arguments: Arguments, axes: int) -> tuple[list[_Derivatives], list[int]]:
    """Return the different filters of a batch, and the index of those of each sample.

    Raises:
        ArgumentValueError: A width isn't allowed, or arguments are mutually exclusive.
    """
    widths = arguments.vectors("window_size", axes, np.int64)
    smoothing = arguments.optional(arguments.vectors, "smoothing_size", axes, np.int64)
    scales = arguments.vectors("scale", axes, np.float32)
    normalized = arguments.constant("normalized_kernel")
    if normalized and arguments.given("scale"):
        raise ArgumentValueError("Parameter ``scale`` cannot be specified when ``normalized_kernel`` is set to True")
    _check_widths("window_size", widths, 3)
    if smoothing is not None:
        _check_widths("smoothing_size", smoothing, 1)
    columns = np.concatenate([widths, widths[:, :0] if smoothing is None else smoothing, scales], axis=1)
    rows = list(map(tuple, columns.tolist()))
    indices = {row: index for index, row in enumerate(dict.fromkeys(rows))}
    return [_own_derivatives(row, axes, normalized) for row in indices], [indices[row] for row in rows]


def _own_derivatives(row: Sequence[float], axes: int, normalized: bool) -> _Derivatives:
    """Return the filters of a sample, given its widths, smoothing widths, if given, and scales."""
    own: _Derivatives = []
    for axis in range(axes):
        others = [int(width) for width in row[axes:-axes]] or [int(row[axis])] * axes
        windows = [
            derivative_window(int(row[axis])) if other == axis else smoothing_window(others[other])
            for other in range(axes)
        ]
        total = sum(map(len, windows))
        own.append((windows, 2.0 ** (axes + 2 - total) if normalized else row[axis - axes]))
    return own


def _check_widths(name: str, widths: Array, least: int) -> None:
    wrong = (widths < least) | (widths > _LARGEST) | (widths % 2 == 0)
    if wrong.any():
        label = {"window_size": "Window size", "smoothing_size": "Smoothing window size"}[name]
        raise ArgumentValueError(
            f"{label} must be an odd integer between {least} and {_LARGEST}, but {name!r} is {int(widths[wrong][0])}"
        )


@dataclass(frozen=True)
class _State:
    axes: ImageAxes
    derivatives: list[_Derivatives]


@implements(LAPLACIAN, "cpu")
class LaplacianCpu(SampleOperator[_State]):
    """Runs OpenCV's separable filter once for each axis of an image."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        (data,) = inputs
        known = known_extents(batch, self.node, inputs)
        axes = ImageAxes.from_layout(data.layout, len(known) if known is not None else len(data.layout))
        dtype = None if data.dtype is None else own_or_float(self.node, data.dtype)
        filters, indices = _derivatives(batch.arguments(self.node), axes.count)
        return _State(axes, [filters[index] for index in indices]), [describe(data.layout, known, dtype)]

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        if out is None:
            out = np.empty(data.shape, own_or_float(self.node, data.dtype))
        for image, target in state.axes.images(data, out):
            laplacian(image, state.derivatives[sample], target)
        return out


@implements(LAPLACIAN, "gpu")
class LaplacianGpu(PixelOperator):
    """The derivatives of images are one expression; for volumes, the results along all axes but the last are stored."""

    traits = replace(PixelOperator.traits, gathers=True)

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        if not pixels.layout:
            return None  # the channels are filtered, too
        axes = ImageAxes.from_layout(pixels.layout, pixels.ndim)
        if axes.count > _MOST_AXES:
            return None
        derivatives, indices = _derivatives(batch.arguments(self.node), axes.count)
        letters, dtypes = pixels.layout[axes.outer : axes.outer + axes.count], _dtypes(pixels.dtype, axes.count)
        total: PixelExpression | None = None
        for number in range(axes.count):
            windows = [_stacked([own[number][0][axis] for own in derivatives], indices) for axis in range(axes.count)]
            part = convolve_axes(pixels, letters, windows, dtypes, results=axes.count)
            if part is None:
                return None
            total = _added(total, part, derivatives, indices, number)
        assert total is not None  # there is at least one axis
        return total.cast(own_or_float(self.node, pixels.dtype))

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        """Filter along one axis after the other, because large windows don't fit into shared memory."""
        data = self.contiguous(inputs[0], batch.stream)
        source, axes = samples_of(data), ImageAxes.from_layout(data.layout(), data.ndim)
        dtype = own_or_float(self.node, source.dtype)
        derivatives, indices = _derivatives(batch.arguments(self.node), axes.count)
        total: PixelExpression | None = None
        image = source.shapes
        for number in range(axes.count):
            passed, part = data, None
            for axis, result in enumerate(_dtypes(source.dtype, axes.count)):
                if part is not None:
                    passed, target = allocate(source.shapes, part.dtype)
                    self.launch(part.launch(reshaped(target, image)), batch)
                weights, radii = _stacked([own[number][0][axis] for own in derivatives], indices)
                part, image = convolve_axis(samples_of(passed), axes.outer + axis, weights, radii, result, passed)
            assert part is not None  # there is at least one axis
            total = _added(total, part, derivatives, indices, number)
        assert total is not None
        output, target = allocate(source.shapes, dtype, data.layout())
        self.launch(total.cast(dtype).launch(reshaped(target, image)), batch)
        return [output]


def _dtypes(source: np.dtype[Any], axes: int) -> list[np.dtype[Any]]:
    """Return the dtype of the result along each axis."""
    return [np.dtype(np.float64 if source == np.float64 else np.float32)] * (axes - 1) + [np.dtype(np.float32)]


def _added(
    total: PixelExpression | None,
    part: PixelExpression,
    derivatives: Sequence[_Derivatives],
    indices: Sequence[int],
    number: int,
) -> PixelExpression:
    """Return a sum of derivatives with another one, `number`, which is multiplied by its factor."""
    factors = np.array([own[number][1] for own in derivatives])[indices, None]
    scaled = part.normalize(factors, 0.0, np.dtype(np.float32))
    return scaled if total is None else total.combine("Add", scaled, scaled.dtype)


def _stacked(windows: Sequence[Array], indices: Sequence[int]) -> tuple[Array, Array]:
    """Return weights of the same odd length, (N, length), and the radii, (N,), for the windows with these indices."""
    radii = np.array([len(window) // 2 for window in windows])
    most = int(radii.max())
    padded = windows if (radii == most).all() else [np.pad(each, most - len(each) // 2) for each in windows]
    return np.array(padded)[indices], radii[indices]
