"""Resizes any axes of arrays of any shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeline import _imaging as imaging
from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._operator_api.arguments import Arguments
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from pipeline._operator_api.output_dtype import output_dtype
from pipeline._operator_api.output_specs import describe, known_extents
from pipeline._operators.geometry.resize import FILTER_ARGUMENTS, check_resize_dtype, filter_cache
from pipeline._operators.geometry.resize_arguments import RESIZE_ARGUMENTS, Resized
from pipeline._operators.geometry.windows import round_half_away
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array
from pipeline.types import DALIInterpType

__all__ = ["TENSOR_RESIZE"]

_SHARED = ("max_size", "mode", "subpixel_scale", "roi_start", "roi_end", "roi_relative")
# The size of an axis is at least this when its region is adapted, as in `resize`.
_MIN_SIZE = 0.1
_ROUNDINGS: dict[str, Callable[[float], int]] = {"round": round_half_away, "truncate": math.trunc, "ceil": math.ceil}

TENSOR_RESIZE = register(
    OperatorSchema(
        name="tensor_resize",
        doc="""Resizes any axes of arrays, by `sizes` or by `scales`.

Filters are widened along axes that shrink (`antialias`). Outside of the array its edge is repeated.""",
        inputs=(Input("data", "Samples of any shape."),),
        arguments=(
            Argument("sizes", Kind.FLOATS, "Extents of the output; `mode` sets those that are 0.", None, True),
            Argument("scales", Kind.FLOATS, "Ratios of the output's extents to the input's.", None, True),
            Argument("axes", Kind.INTS, "Axes of `sizes`, `scales` and the region; by default all axes."),
            Argument("axis_names", Kind.LAYOUT, "The same as letters of the layout; instead of `axes`."),
            Argument(
                "size_rounding",
                Kind.STRING,
                'Rounding of extents: "round" to the nearest integer, "truncate", or "ceil".',
                "round",
                choices=tuple(_ROUNDINGS),
            ),
            Argument(
                "alignment",
                Kind.FLOATS,
                "Point of the region that keeps its position if an extent is rounded, from 0 (start) to 1 (end).",
                (0.5,),
                per_sample=True,
            ),
            *(argument for argument in RESIZE_ARGUMENTS if argument.name in _SHARED),
            *FILTER_ARGUMENTS,
        ),
    )
)


class _Sizes:
    """Sizes and regions of a batch, in float32 as in DALI.

    Args:
        arguments: arguments of the batch.
        axes: axes to resize.

    As in DALI, the other axes are axes whose size is their extent, which the mode may change.

    Raises:
        ArgumentValueError: Arguments are mutually exclusive, or have a wrong number of values.
    """

    def __init__(self, arguments: Arguments, axes: list[int]) -> None:
        self._axes = axes
        count = len(axes)
        self._mode = arguments.constant("mode")
        if arguments.given("sizes") == arguments.given("scales"):
            raise ArgumentValueError("exactly one of the arguments 'sizes' and 'scales' must be given")
        if arguments.given("scales") and self._mode in ("not_larger", "not_smaller"):
            raise ArgumentValueError(f"argument 'scales' can't be used together with the mode {self._mode!r}")
        if arguments.given("roi_start") != arguments.given("roi_end"):
            raise ArgumentValueError("arguments 'roi_start' and 'roi_end' must be given together")
        self._sizes, self._scales, self._start, self._end, self._alignment = (
            arguments.vectors(name, count, np.float32) if count else None
            for name in ("sizes", "scales", "roi_start", "roi_end", "alignment")
        )
        # As in DALI: without the argument all axes are centred, with it the other axes keep their start.
        self._other_alignment = 0.0 if arguments.given("alignment") else 0.5
        largest = arguments.constant("max_size")
        self._largest = None if largest is None or not count else np.resize(np.array(largest, np.float32), count)
        self._relative = arguments.constant("roi_relative")
        self._subpixel = arguments.constant("subpixel_scale")
        self._round = _ROUNDINGS[arguments.constant("size_rounding")]

    def solve(self, sample: int, extents: Sequence[int]) -> Resized:
        """Return size and region of a sample along all axes, given its shape."""
        axes = self._axes
        low, high = np.zeros(len(extents), np.float32), np.array(extents, np.float32)
        requested, alignment = high.copy(), np.full(len(extents), self._other_alignment)
        if self._alignment is not None:
            alignment[axes] = self._alignment[sample]
        if self._sizes is not None:
            requested[axes] = self._sizes[sample]
        elif self._scales is not None:  # scales refer to the whole extents, even if there is a region
            requested[axes] *= self._scales[sample]
        if self._start is not None and self._end is not None:
            factor = high[axes] if self._relative else np.float32(1)
            low[axes], high[axes] = self._start[sample] * factor, self._end[sample] * factor
        lengths = np.abs(high - low)
        exact = self._exact(np.abs(requested), lengths) if requested.any() else lengths  # as in `resize`
        size = [max(1, self._round(float(extent))) for extent in exact]
        starts, ends = low.tolist(), high.tolist()
        for axis, (unrounded, count) in enumerate(zip(exact.tolist(), size, strict=True)):
            if self._subpixel and unrounded != count and unrounded > 0:
                share = float(alignment[axis])
                fixed = starts[axis] * (1 - share) + ends[axis] * share
                factor = count / max(unrounded, _MIN_SIZE)
                starts[axis] = fixed + (starts[axis] - fixed) * factor
                ends[axis] = fixed + (ends[axis] - fixed) * factor
            if requested[axis] < 0:
                starts[axis], ends[axis] = ends[axis], starts[axis]
        return Resized(tuple(size), tuple(starts), tuple(ends), whole=False)

    def _exact(self, sizes: Array, lengths: Array) -> Array:
        """Return the sizes before rounding; `sizes` is 0 for axes that the mode scales."""
        given = (sizes > 0) & (lengths > 0)
        scales = (sizes[given] / lengths[given]).astype(np.float32)
        if self._mode in ("not_larger", "not_smaller"):
            scale = (np.min if self._mode == "not_larger" else np.max)(scales) if len(scales) else np.float32(1)
            if self._largest is not None:
                scale = min(scale, np.min(self._largest / lengths[self._axes]))
            return (lengths * scale).astype(np.float32)
        scale = np.float32(1)
        if self._mode == "default" and len(scales):
            scale = np.float32(math.prod(scales.tolist()) ** (1 / len(scales)))
        exact: Array = np.where(sizes > 0, sizes, lengths * scale).astype(np.float32)
        if self._largest is not None:
            exact[self._axes] = np.minimum(exact[self._axes], self._largest)
        return exact


@implements(TENSOR_RESIZE, "cpu")
class TensorResizeCpu(SampleOperator[Any]):
    """Resizes axes that follow each other in pairs, as those of images, and first those that shrink most."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        if {"axes", "axis_names"} <= set(node.arguments):
            raise ArgumentValueError("arguments 'axes' and 'axis_names' can't be used together")
        self._filters = filter_cache(node)

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[Any, Sequence[OutputSpec]]:
        (data,) = inputs
        known = known_extents(batch, self.node, inputs)
        ndim = len(data.layout) if known is None else len(known)
        if not ndim:
            raise ArgumentValueError("samples need at least one dimension, or a layout if it isn't known")
        axes = self._axes(data.layout, ndim)
        dtype = output_dtype(self.node)
        if data.dtype is not None:
            dtype = check_resize_dtype(dtype, data.dtype)
        sizes = _Sizes(batch.arguments(self.node), axes)
        return (sizes, self._filters.get(batch), dtype), [describe(data.layout, (None,) * ndim, dtype)]

    def _axes(self, layout: str, ndim: int) -> list[int]:
        names = self.node.argument("axis_names")
        if names is not None:
            if not set(names) <= set(layout):
                raise ArgumentValueError(f"the layout {layout!r} doesn't have all of the axes {names!r}")
            return [layout.index(name) for name in names]
        axes = self.node.argument("axes")
        axes = list(range(ndim)) if axes is None else [axis + ndim if axis < 0 else axis for axis in axes]
        if len(set(axes)) < len(axes) or not all(0 <= axis < ndim for axis in axes):
            raise ArgumentValueError(f"the axes {axes} must be distinct and from 0 to {ndim - 1}")
        return axes

    def run(self, state: Any, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        sizes, (lower, upper), dtype = state
        dtype = dtype or check_resize_dtype(None, data.dtype)
        resized = sizes.solve(sample, data.shape)
        if 0 in data.shape:
            shape = [own if old else 0 for own, old in zip(resized.size, data.shape, strict=True)]
            return np.zeros(shape, dtype)
        changed = [
            axis
            for axis, extent in enumerate(data.shape)
            if (resized.size[axis], resized.low[axis], resized.high[axis]) != (extent, 0.0, float(extent))
        ]
        nearest = DALIInterpType.INTERP_NN in (lower[sample], upper[sample])  # its positions are those of single axes
        groups = sorted(
            [(axis,) for axis in changed] if nearest else _neighbours(changed),
            key=lambda axes: _ratio(axes, resized.size, data.shape),
        )
        result = data
        for axes in groups:
            result = _resize_axes(
                np.ascontiguousarray(result),
                axes,
                resized,
                dtype=dtype if axes is groups[-1] else np.dtype(np.float32),
                min_filter=lower[sample],
                mag_filter=upper[sample],
                antialias=self.node.argument("antialias"),
            )
        return np.ascontiguousarray(imaging.convert(result, dtype))


def _neighbours(axes: Sequence[int]) -> list[tuple[int, ...]]:
    """Return axes in pairs of neighbours, which are resized together as the axes of an image, and single axes."""
    groups: list[tuple[int, ...]] = []
    for axis in axes:
        if groups and groups[-1] == (axis - 1,):
            groups[-1] = (axis - 1, axis)
        else:
            groups.append((axis,))
    return groups


def _ratio(axes: Sequence[int], size: Sequence[int], shape: Sequence[int]) -> float:
    return math.prod(size[axis] / shape[axis] for axis in axes)


def _resize_axes(data: Array, axes: Sequence[int], resized: Resized, **options: Any) -> Array:
    """Resize one axis, or two that follow each other, of a contiguous array.

    What lies before these axes are images, and what lies behind them are their channels. The other axis of an image
    with one resized axis keeps its extent: its rows are what lies before the last axis, otherwise there is one column.
    """
    first, last = axes[0], axes[-1]
    size = [resized.size[axis] for axis in axes]
    low, high = [resized.low[axis] for axis in axes], [resized.high[axis] for axis in axes]
    before, extents, after = data.shape[:first], data.shape[first : last + 1], data.shape[last + 1 :]
    images, channels = math.prod(before), math.prod(after)
    if len(axes) == 1 and channels == 1:
        extents, images = (images, *extents), 1
        size, low, high = [extents[0], *size], [0.0, *low], [float(extents[0]), *high]
    elif len(axes) == 1:
        extents = (*extents, 1)
        size, low, high = [*size, 1], [*low, 0.0], [*high, 1.0]
    source = data.reshape(images, *extents, channels)
    result = np.empty((images, *size, channels), options["dtype"])
    for image, target in zip(source, result, strict=True):
        imaging.resize(image, (size[0], size[1]), region=(*low, *high), out=target, **options)  # type: ignore[arg-type]
    return result.reshape(*before, *(resized.size[axis] for axis in axes), *after)
