"""Resizes any axes of arrays of any shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dali_proxy.pipeline import _imaging as imaging
from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.resample import ResamplePlan
from dali_proxy.pipeline._kernels.strided_copy import plan_strided_copy
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate, samples_of
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from dali_proxy.pipeline._operator_api.output_dtype import output_dtype
from dali_proxy.pipeline._operator_api.output_specs import describe, known_extents
from dali_proxy.pipeline._operators.geometry.resize import FILTER_ARGUMENTS, check_resize_dtype, filter_cache
from dali_proxy.pipeline._operators.geometry.resize_arguments import RESIZE_ARGUMENTS, Resized
from dali_proxy.pipeline._operators.geometry.windows import round_half_away
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import DALIInterpType

_SHARED = ("max_size", "mode", "subpixel_scale", "roi_start", "roi_end", "roi_relative")
# The size of an axis is at least this when its region is adapted, as in `resize`.
_MIN_SIZE = 0.1
_ROUNDINGS: dict[str, Callable[[float], int]] = {"round": round_half_away, "truncate": math.trunc, "ceil": math.ceil}


def _check_exclusive(node: GraphNode) -> None:
    if {"axes", "axis_names"} <= set(node.arguments):
        raise ArgumentValueError("Arguments `axes` and `axis_names` are mutually exclusive")


TENSOR_RESIZE = declare_operator(
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
    devices=("cpu", "gpu"),
    check=_check_exclusive,
)


class _Sizes:
    """Sizes and regions of a batch along some axes, in float32 as in DALI.

    As in DALI, the other axes are axes whose size is their extent, which the mode may change.

    Raises:
        ArgumentValueError: Arguments are mutually exclusive, or have a wrong number of values.
    """

    def __init__(self, arguments: Arguments, axes: list[int]) -> None:
        self._axes = axes
        count = len(axes)
        self._mode = arguments.constant("mode")
        if arguments.given("sizes") == arguments.given("scales"):
            raise ArgumentValueError("Need one of ``scales`` or ``sizes``, but not both")
        if arguments.given("scales") and self._mode in ("not_larger", "not_smaller"):
            raise ArgumentValueError("Providing ``scales`` is incompatible with not-smaller or not-larger modes")
        if arguments.given("roi_start") != arguments.given("roi_end"):
            raise ArgumentValueError("``roi_start`` and ``roi_end`` must be specified together")
        self._sizes, self._scales, self._start, self._end, self._alignment = (
            arguments.optional(arguments.vectors, name, count, np.float32) if count else None
            for name in ("sizes", "scales", "roi_start", "roi_end", "alignment")
        )
        # As in DALI: without the argument all axes are centred, with it the other axes keep their start.
        self._other_alignment = 0.0 if arguments.given("alignment") else 0.5
        largest = arguments.constant("max_size")
        self._largest = None if largest is None or not count else np.resize(np.array(largest, np.float32), count)
        self._relative = arguments.constant("roi_relative")
        self._subpixel = arguments.constant("subpixel_scale")
        self._round = _ROUNDINGS[arguments.constant("size_rounding")]
        vectors = (self._sizes, self._scales, self._start, self._end, self._alignment)
        #: Whether all samples have the same arguments.
        self.is_constant = all(each is None or (each == each[:1]).all() for each in vectors)

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


class _Plan:
    """Sizes, filters and dtype of a batch."""

    def __init__(self, node: GraphNode, batch: Batch, layout: str, ndim: int, filters: Any) -> None:
        if not ndim:
            raise ArgumentValueError("samples need at least one dimension, or a layout if it isn't known")
        self.sizes = _Sizes(batch.arguments(node), _axes(node, layout, ndim))
        self.lower, self.upper = filters.get(batch)
        self._known: dict[tuple[Any, ...], tuple[Sequence[int], list[_Images]]] = {}

    def steps(self, sample: int, shape: Sequence[int]) -> tuple[Sequence[int], list[_Images]]:
        """Return the shape of a sample's result, and the resizes that lead to it: first those that shrink most."""
        if not self.sizes.is_constant:
            return self._steps(sample, shape)
        key = (*shape, self.lower[sample], self.upper[sample])
        if key not in self._known:
            self._known[key] = self._steps(sample, shape)
        return self._known[key]

    def _steps(self, sample: int, shape: Sequence[int]) -> tuple[Sequence[int], list[_Images]]:
        resized = self.sizes.solve(sample, shape)
        if not all(shape):
            return [own if old else 0 for own, old in zip(resized.size, shape, strict=True)], []
        steps: list[_Images] = []
        for axes in self._groups(sample, shape, resized):
            steps.append(_Images.from_axes(steps[-1].shape if steps else shape, axes, resized))
        return resized.size, steps

    def _groups(self, sample: int, shape: Sequence[int], resized: Resized) -> list[tuple[int, ...]]:
        """Return the axes that are resized together."""
        changed = [
            axis
            for axis, extent in enumerate(shape)
            if (resized.size[axis], resized.low[axis], resized.high[axis]) != (extent, 0.0, float(extent))
        ]
        # The positions of nearest pixels are those of single axes.
        nearest = DALIInterpType.INTERP_NN in (self.lower[sample], self.upper[sample])
        groups = [(axis,) for axis in changed] if nearest else _neighbours(changed)
        return sorted(groups, key=lambda axes: _ratio(axes, resized.size, shape))


def _axes(node: GraphNode, layout: str, ndim: int) -> list[int]:
    names = node.argument("axis_names")
    if names is not None:
        if not set(names) <= set(layout):
            raise ArgumentValueError(f"the layout {layout!r} doesn't have all of the axes {names!r}")
        return [layout.index(name) for name in names]
    axes = node.argument("axes")
    axes = list(range(ndim)) if axes is None else [axis + ndim if axis < 0 else axis for axis in axes]
    if len(set(axes)) < len(axes) or not all(0 <= axis < ndim for axis in axes):
        raise ArgumentValueError(f"the axes {axes} must be distinct and from 0 to {ndim - 1}")
    return axes


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
    return math.prod(size[axis] / shape[axis] for axis in axes if shape[axis])


@dataclass(frozen=True)
class _Images:
    """An array as images, of which one axis or two that follow each other are resized.

    What lies before these axes are images, and what lies behind them are their channels. The other axis of an image
    with one resized axis keeps its extent: its rows are what lies before the last axis, otherwise there is one column.

    Attributes:
        count: number of images.
        extents: height and width.
        channels: number of channels.
        size: height and width of the results.
        region: first row and column of the resized region, then the ends.
        shape: shape of the resized array.
    """

    count: int
    extents: tuple[int, ...]
    channels: int
    size: tuple[int, ...]
    region: tuple[float, ...]
    shape: tuple[int, ...]

    @classmethod
    def from_axes(cls, shape: Sequence[int], axes: Sequence[int], resized: Resized) -> _Images:
        first, last = axes[0], axes[-1]
        size = tuple(resized.size[axis] for axis in axes)
        low, high = tuple(resized.low[axis] for axis in axes), tuple(resized.high[axis] for axis in axes)
        result = (*shape[:first], *size, *shape[last + 1 :])
        count, channels, extents = (
            math.prod(shape[:first]),
            math.prod(shape[last + 1 :]),
            tuple(shape[first : last + 1]),
        )
        if len(axes) == 1 and channels == 1:
            region = (0.0, *low, float(count), *high)
            return cls(1, (count, *extents), 1, (count, *size), region, result)
        if len(axes) == 1:
            return cls(count, (*extents, 1), channels, (*size, 1), (*low, 0.0, *high, 1.0), result)
        return cls(count, extents, channels, size, (*low, *high), result)


@implements(TENSOR_RESIZE, "cpu")
class TensorResizeCpu(SampleOperator[Any]):
    """Resizes axes that follow each other in pairs, as those of images, and first those that shrink most."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._filters = filter_cache(node)

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[Any, Sequence[OutputSpec]]:
        (data,) = inputs
        known = known_extents(batch, self.node, inputs)
        ndim = len(data.layout) if known is None else len(known)
        plan = _Plan(self.node, batch, data.layout, ndim, self._filters)
        dtype = output_dtype(self.node)
        if data.dtype is not None:
            dtype = check_resize_dtype(dtype, data.dtype)
        return (plan, dtype), [describe(data.layout, (None,) * ndim, dtype)]

    def run(self, state: Any, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        plan, dtype = state
        dtype = dtype or check_resize_dtype(None, data.dtype)
        shape, steps = plan.steps(sample, data.shape)
        if 0 in data.shape:
            return np.zeros(shape, dtype)
        result = data
        for images in steps:
            source = np.ascontiguousarray(result).reshape(images.count, *images.extents, images.channels)
            written = dtype if images is steps[-1] else np.float32
            result = np.empty((images.count, *images.size, images.channels), written)
            for image, target in zip(source, result, strict=True):
                imaging.resize(
                    image,
                    (images.size[0], images.size[1]),
                    region=images.region,
                    out=target,
                    dtype=target.dtype,
                    min_filter=plan.lower[sample],
                    mag_filter=plan.upper[sample],
                    antialias=self.node.argument("antialias"),
                )
            result = result.reshape(images.shape)
        return np.ascontiguousarray(imaging.convert(result, dtype))


@implements(TENSOR_RESIZE, "gpu")
class TensorResizeGpu(GpuOperator):
    """Launches a resize for each group of axes that the samples have at most, and a copy of unchanged samples."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._filters = filter_cache(node)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = self.contiguous(inputs[0], batch.stream)
        source = samples_of(data)
        plan = _Plan(self.node, batch, data.layout(), data.ndim, self._filters)
        dtype = check_resize_dtype(output_dtype(self.node), source.dtype)
        planned = [plan.steps(sample, shape) for sample, shape in enumerate(source.shapes.tolist())]
        shapes, steps = [shape for shape, _ in planned], [own for _, own in planned]
        output, target = allocate(np.array(shapes), dtype, data.layout())
        same = np.flatnonzero([not own for own in steps])
        if len(same):
            self.launch(plan_strided_copy(source.take(same), target.take(same)), batch)
        pointers, held = source.pointers.copy(), []
        for number in range(max(map(len, steps))):
            ends = np.array([len(own) == number + 1 for own in steps])
            goes_on = np.array([len(own) > number + 1 for own in steps])
            read = source.dtype if number == 0 else np.dtype(np.float32)
            for chosen, written in ((np.flatnonzero(ends), dtype), (np.flatnonzero(goes_on), np.dtype(np.float32))):
                if not len(chosen):
                    continue
                images = [steps[sample][number] for sample in chosen]
                targets = target.pointers[chosen]
                if goes_on[chosen[0]]:
                    sizes = np.array([[math.prod(each.shape)] for each in images])
                    between, samples = allocate(sizes, written)
                    held.append(between)
                    targets = samples.pointers
                self._resize(batch, plan, chosen, images, (pointers[chosen], read), (targets, written))
                pointers[chosen] = targets
        return [output]

    def _resize(
        self,
        batch: Batch,
        plan: _Plan,
        samples: Array,
        images: Sequence[_Images],
        source: tuple[Array, np.dtype[Any]],
        target: tuple[Array, np.dtype[Any]],
    ) -> None:
        """Resize a group of axes of samples, given the addresses and dtypes of source and target."""
        distinct = {id(each): each for each in images}  # few, if the samples have the same shape
        positions = {key: position for position, key in enumerate(distinct)}
        kinds = np.array([positions[id(each)] for each in images])
        counts = np.array([each.count for each in distinct.values()])[kinds]
        owners = np.repeat(np.arange(len(images)), counts)
        if not len(owners):
            return
        kinds = kinds[owners]
        numbers = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        described = []
        for (pointers, dtype), name in ((source, "extents"), (target, "size")):
            shapes = np.array([(*getattr(each, name), each.channels) for each in distinct.values()], np.int64)
            sizes = shapes.prod(axis=1) * dtype.itemsize
            described.append(Samples.contiguous(pointers[owners] + numbers * sizes[kinds], shapes[kinds], dtype))
        resampling = ResamplePlan(
            *described,
            roi=np.array([each.region for each in distinct.values()])[kinds],
            min_filter=np.asarray(plan.lower)[samples][owners],
            mag_filter=np.asarray(plan.upper)[samples][owners],
            antialias=self.node.argument("antialias"),
        )
        self.launch(resampling, batch)
