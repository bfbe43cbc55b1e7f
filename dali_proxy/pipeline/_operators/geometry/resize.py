"""Resizes images, volumes and sequences with DALI's filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dali_proxy.pipeline import _imaging as imaging
from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._declaration import (
    Argument,
    Input,
    Kind,
    OperatorSchema,
    declare_operator,
    implements,
    implements_with,
)
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._kernels.axes import IS_SMOOTH, axis_tables, keeps_rows
from dali_proxy.pipeline._kernels.expression import EXACT_IN_FLOAT, PixelExpression
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.batch import ArgumentCache, Batch
from dali_proxy.pipeline._operator_api.gpu_operator import allocate, samples_of
from dali_proxy.pipeline._operator_api.layouts import RESIZE_LAYOUTS, choose_layout
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from dali_proxy.pipeline._operator_api.output_dtype import IGNORED_IMAGE_TYPE, output_dtype
from dali_proxy.pipeline._operator_api.output_specs import Extents, describe, layout_and_extents
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline._operator_api.upload import upload
from dali_proxy.pipeline._operators.geometry.resize_arguments import (
    RESIZE_ARGUMENTS,
    Geometry,
    Resized,
    ResizedBatch,
    ResizeGeometry,
)
from dali_proxy.pipeline._operators.geometry.resize_launches import Filters, resample_images, resample_volumes
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU
from dali_proxy.pipeline.types import INTERP_LINEAR, INTERP_TRIANGULAR, DALIInterpType

FILTER_ARGUMENTS = (
    Argument("interp_type", Kind.INTERP, "Filter for shrinking and growing axes.", INTERP_LINEAR, per_sample=True),
    Argument("min_filter", Kind.INTERP, "Filter for axes that shrink; by default `interp_type`.", per_sample=True),
    Argument("mag_filter", Kind.INTERP, "Filter for axes that grow; by default `interp_type`.", per_sample=True),
    Argument("antialias", Kind.BOOL, "Widen filters in proportion to the scale along axes that shrink.", True),
    Argument("dtype", Kind.DTYPE, "Dtype of the output: the input's (the default) or FLOAT."),
    Argument("minibatch_size", Kind.INT, "Accepted for compatibility.", 32),
    Argument("temp_buffer_hint", Kind.INT, "Accepted for compatibility.", 0),
)


def _output_count(arguments: Mapping[str, Any]) -> int:
    return 2 if arguments.get("save_attrs") else 1


def _declare(name: str, doc: str) -> OperatorSchema:
    return declare_operator(
        name=name,
        doc=doc,
        inputs=(Input("data", f"Images, of one of the layouts {', '.join(RESIZE_LAYOUTS)}; HWC without a layout."),),
        arguments=(
            *RESIZE_ARGUMENTS,
            *FILTER_ARGUMENTS,
            Argument(
                "save_attrs", Kind.BOOL, "Add a second output: extents of the input along the spatial axes.", False
            ),
            IGNORED_IMAGE_TYPE,
        ),
        devices=("cpu", "gpu"),
        outputs=_output_count,
    )


RESIZE = _declare(
    "resize",
    """Resizes images.

Filters are widened along axes that shrink (`antialias`). Outside of the image its edge pixels are repeated.""",
)
EXPERIMENTAL_RESIZE = _declare(
    "experimental.resize", "The same as `resize`. In DALI, it is another implementation, for the GPU."
)


@dataclass(frozen=True)
class _Axes:
    """Position of the spatial axes in a layout. Channels may follow them.

    Attributes:
        first: first spatial axis.
        letters: "HW" or "DHW".
    """

    first: int
    letters: str

    @classmethod
    def from_layout(cls, layout: str) -> _Axes:
        letters = "DHW" if "D" in layout else "HW"
        return cls(layout.index(letters), letters)

    @property
    def end(self) -> int:
        return self.first + len(self.letters)

    def extents(self, shape: Sequence[int]) -> list[int]:
        return list(shape[self.first : self.end])

    def resized(self, shape: Sequence[int], size: Sequence[int]) -> list[int]:
        return [*shape[: self.first], *size, *shape[self.end :]]


_FILTERS = ("interp_type", "min_filter", "mag_filter")


def _geometries(node: GraphNode, kind: type[Geometry]) -> ArgumentCache[Geometry]:
    """Return a cache of the geometries of batches, by spatial axes."""
    return ArgumentCache(node, lambda batch, axes: kind.from_batch(node, batch, axes), drawn=kind.drawn)


def filter_cache(node: GraphNode) -> ArgumentCache[tuple[list[int], list[int]]]:
    """Return a cache of the filters of each sample, for axes that shrink and axes that grow."""
    return ArgumentCache(node, lambda batch: _read_filters(batch.arguments(node)), _FILTERS)


def _read_filters(arguments: Arguments) -> tuple[list[int], list[int]]:
    common, lower, upper = (arguments.optional(arguments.scalars, name, np.int64) for name in _FILTERS)
    filters = []
    for own in (lower, upper):
        values = common if own is None else own
        assert values is not None
        codes = values.tolist()
        for sample, code in enumerate(codes):
            if not 0 <= code < len(DALIInterpType):
                raise ArgumentValueError(f"unknown interpolation type {code} for sample {sample}")
        filters.append(codes)
    return filters[0], filters[1]


def check_resize_dtype(dtype: np.dtype[Any] | None, source: np.dtype[Any]) -> np.dtype[Any]:
    if dtype is not None and dtype not in (source, np.float32):
        raise ArgumentValueError(f"argument 'dtype' must be the input's, {source}, or FLOAT, not {dtype}")
    if source.kind not in "iuf":
        raise ArgumentValueError(f"Unsupported type: {source}. Supported types are: uint8, int16, uint16 and float")
    return dtype or source


#: Largest product of the radii of both filters, in pixels, up to which a kernel that reads all pixels under a filter is
#: faster than two passes. Weights of filters that aren't linear cost more, and two passes compute fewer of them.
_LARGEST_FILTER, _LARGEST_SMOOTH_FILTER = 64, 16


@dataclass(frozen=True)
class _State:
    axes: _Axes
    geometry: Geometry
    lower: list[int]
    upper: list[int]
    antialias: bool
    dtype: np.dtype[Any] | None
    attributes: bool


@implements(RESIZE, "cpu")
@implements(EXPERIMENTAL_RESIZE, "cpu")
class ResizeCpu(SampleOperator[_State]):
    """Writes straight to the memory of the batch."""

    #: Class that computes sizes and regions.
    geometry: ClassVar[type[Geometry]] = ResizeGeometry

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._geometries = _geometries(node, self.geometry)
        self._filters = filter_cache(node)

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        (data,) = inputs
        layout, known = layout_and_extents(batch, self.node, inputs, RESIZE_LAYOUTS)
        axes = _Axes.from_layout(layout)
        dtype = output_dtype(self.node)
        if data.dtype is not None:
            dtype = check_resize_dtype(dtype, data.dtype)
        geometry = self._geometries.get(batch, axes.letters)
        lower, upper = self._filters.get(batch)
        attributes = self.node.argument("save_attrs")
        state = _State(axes, geometry, lower, upper, self.node.argument("antialias"), dtype, attributes)
        specs: list[OutputSpec] = [describe(layout, _known_size(known, len(layout), axes, geometry), dtype)]
        if attributes:
            specs.append(describe("", (len(axes.letters),), np.dtype(np.int32)))
        return state, specs

    def resolve(self, batch: Batch, extents: Int64s) -> ResizedBatch | None:
        """Return sizes and regions to resize uint8 images of (N, 2) extents to one size with the linear filter.

        Returns:
            None if the arguments require anything else.

        Raises:
            PipelineError: Arguments are invalid.
        """
        lower, upper = self._filters.get(batch)
        geometry = self._geometries.get(batch, "HW")
        linear = {*lower, *upper} <= {int(INTERP_LINEAR), int(INTERP_TRIANGULAR)}
        plain = linear and self._returns_bytes and geometry.fixed_size is not None
        return geometry.solve_all(extents) if plain else None

    @cached_property
    def _returns_bytes(self) -> bool:
        """Whether uint8 images stay so, and nothing else is returned."""
        return output_dtype(self.node) in (None, np.uint8) and not self.node.argument("save_attrs")

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array | tuple[Array, ...]:
        (image,) = inputs
        axes = state.axes
        extents = axes.extents(image.shape)
        resized = state.geometry.solve(sample, extents)
        dtype = state.dtype or check_resize_dtype(None, image.dtype)
        options: dict[str, Any] = {
            "min_filter": state.lower[sample],
            "mag_filter": state.upper[sample],
            "antialias": state.antialias,
        }
        if axes.first == 0 and len(extents) == 2:
            options["planar"] = self.inner
            result = _resize(image, resized, dtype, out, options)
        else:
            if out is None:
                out = np.empty(axes.resized(image.shape, resized.size), dtype)
            for index in np.ndindex(*image.shape[: axes.first]):
                _resize(image[index], resized, dtype, out[index], options)
            result = out
        return (result, np.array(extents, np.int32)) if state.attributes else result


def _known_size(known: Extents | None, ndim: int, axes: _Axes, geometry: Geometry) -> Extents | None:
    size = geometry.fixed_size or (None,) * len(axes.letters)
    shape = known if known is not None else (None,) * ndim
    return (*shape[: axes.first], *size, *shape[axes.end :])


def _resize(image: Array, resized: Resized, dtype: np.dtype[Any], out: Array | None, options: dict[str, Any]) -> Array:
    region = None if resized.whole else (*resized.low, *resized.high)
    return imaging.resize(image, resized.size, region=region, dtype=dtype, out=out, **options)


@implements(RESIZE, "gpu")
@implements(EXPERIMENTAL_RESIZE, "gpu")
class ResizeGpu(PixelOperator):
    """Reads the pixels under the filter; volumes and large filters take one launch per axis."""

    traits = replace(PixelOperator.traits, gathers=True)

    #: Class that computes sizes and regions.
    geometry: ClassVar[type[Geometry]] = ResizeGeometry

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._geometries = _geometries(node, self.geometry)
        self._filters = ArgumentCache(node, self._read_filters, _FILTERS)

    def _read_filters(self, batch: Batch) -> Filters:
        lower, upper = _read_filters(batch.arguments(self.node))
        return Filters(np.array(lower), np.array(upper), self.node.argument("antialias"))

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        """Resize along one axis after the other: large filters then read fewer pixels, and volumes need three."""
        (data,) = inputs
        layout = choose_layout(data.layout(), data.ndim, RESIZE_LAYOUTS)
        axes = _Axes.from_layout(layout)
        source = samples_of(data)
        solved, filters = self.resolve(batch, axes.letters, source.shapes[:, axes.first : axes.end])
        shapes = source.shapes.copy()
        shapes[:, axes.first : axes.end] = solved.size
        output, target = allocate(shapes, self.dtype_of(source.dtype), layout)
        resize = resample_images if axes.letters == "HW" else resample_volumes
        resize(self.kernels, batch.stream, source, target, axes.first, solved.low, solved.high, filters)
        outputs: list[Any] = [output]
        if self.node.argument("save_attrs"):
            extents = source.shapes[:, axes.first : axes.end].astype(np.int32)
            outputs.append(upload(batch, TensorListCPU(extents)))
        return outputs

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        if not self.expressible(pixels):
            return None
        return self.resized(pixels, *self.resolve(batch, "HW", pixels.extents[:, 1:]))

    def expressible(self, pixels: PixelExpression) -> bool:
        """Return whether expressions support the input."""
        layout = choose_layout(pixels.layout, pixels.ndim, RESIZE_LAYOUTS)
        return not ("D" in layout or self.node.argument("save_attrs")) and pixels.dtype in EXACT_IN_FLOAT

    def resized(self, pixels: PixelExpression, solved: ResizedBatch, filters: Filters) -> PixelExpression | None:
        """Return resized images; None if separate launches are faster."""
        layout = choose_layout(pixels.layout, pixels.ndim, RESIZE_LAYOUTS)
        dtype, extents = self.dtype_of(pixels.dtype), pixels.extents[:, 1:]
        options = (filters.lower, filters.upper, filters.antialias)
        table = axis_tables(solved.low, solved.high, extents, solved.size, *options)
        y, x = table
        sizes = y["radius"] * x["radius"]
        if sizes.max() > _LARGEST_SMOOTH_FILTER:
            is_smooth = IS_SMOOTH[table["filter"]].any()
            is_large = sizes > (_LARGEST_SMOOTH_FILTER if is_smooth else _LARGEST_FILTER)
            if is_large.any() and not keeps_rows(y[is_large], x[is_large], pixels.channels).all():
                return None  # two passes read fewer pixels
        if pixels.dtype.kind == "f" and not (y["filter"].any() or x["filter"].any()):
            return None  # nearest pixels must keep their bits; a weighted sum turns -0.0 into 0.0
        return pixels.named(layout).resize(y, x, solved.size, dtype)

    def resolve(self, batch: Batch, axes: str, extents: Int64s) -> tuple[ResizedBatch, Filters]:
        """Return sizes, regions and filters for samples of (N, axes) extents along the axes "HW" or "DHW".

        Raises:
            OperatorError: Samples can't be resized; the error lists them.
        """
        solved = self._geometries.get(batch, axes).solve_all(extents)
        return solved, self._filters.get(batch)

    def dtype_of(self, source: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of the output for a dtype of the input.

        Raises:
            ArgumentValueError: The input can't be resized, or not to the requested dtype.
        """
        return check_resize_dtype(output_dtype(self.node), source)


def resizes(schema: OperatorSchema) -> Callable[[type[Geometry]], type[Geometry]]:
    """Return a class decorator that implements an operator, on all its devices, by sizes and regions of the class."""
    return implements_with(schema, "geometry", cpu=ResizeCpu, gpu=ResizeGpu)
