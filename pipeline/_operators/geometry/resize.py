"""Resizes pictures, volumes and sequences with DALI's filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pipeline import _imaging as imaging
from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._operator_api.arguments import Arguments
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import GpuOperator, allocate, samples_of
from pipeline._operator_api.layouts import RESIZE_LAYOUTS, choose_layout
from pipeline._operator_api.memoize import ArgumentCache
from pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from pipeline._operator_api.output_dtype import output_dtype
from pipeline._operator_api.output_specs import Extents, describe, known_extents
from pipeline._operator_api.upload import upload
from pipeline._operators.geometry.resize_arguments import (
    RESIZE_ARGUMENTS,
    Geometry,
    Resized,
    ResizedBatch,
    ResizeGeometry,
)
from pipeline._operators.geometry.resize_launches import Filters, resample_pictures, resample_volumes
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array, TensorListCPU
from pipeline.types import INTERP_LINEAR, INTERP_TRIANGULAR, DALIInterpType

__all__ = ["FILTER_ARGUMENTS", "RESIZE", "ResizeCpu", "ResizeGpu"]

FILTER_ARGUMENTS = (
    Argument("interp_type", Kind.INTERP, "Filter for both directions.", INTERP_LINEAR, per_sample=True),
    Argument("min_filter", Kind.INTERP, "Filter for axes that shrink, instead.", per_sample=True),
    Argument("mag_filter", Kind.INTERP, "Filter for axes that grow, instead.", per_sample=True),
    Argument("antialias", Kind.BOOL, "Widen filters by the scale along axes that shrink.", True),
    Argument("dtype", Kind.DTYPE, "Dtype of the output: that of the input (the default) or FLOAT."),
    Argument("minibatch_size", Kind.INT, "Accepted for compatibility.", 32),
    Argument("temp_buffer_hint", Kind.INT, "Accepted for compatibility.", 0),
)


def _output_count(arguments: Mapping[str, Any]) -> int:
    return 2 if arguments.get("save_attrs") else 1


RESIZE = register(
    OperatorSchema(
        name="resize",
        doc="""Resizes images.

Filters are widened where an image shrinks (`antialias`). Edge pixels repeat outside the image.""",
        inputs=(Input("data", f"Images, of one of the layouts {', '.join(RESIZE_LAYOUTS)}; HWC without a layout."),),
        arguments=(
            *RESIZE_ARGUMENTS,
            *FILTER_ARGUMENTS,
            Argument("save_attrs", Kind.BOOL, "Add a second output: the input's extents along the axes.", False),
            Argument("image_type", Kind.IMAGE_TYPE, "Deprecated and ignored."),
        ),
        devices=("cpu", "gpu"),
        outputs=_output_count,
    )
)


@dataclass(frozen=True)
class _Axes:
    """Where the spatial axes lie in a layout: others before them, and maybe channels behind.

    Attributes:
        first: the first spatial axis.
        letters: "HW" or "DHW".
    """

    first: int
    letters: str

    @classmethod
    def of(cls, layout: str) -> _Axes:
        letters = "DHW" if "D" in layout else "HW"
        return cls(layout.index(letters), letters)

    @property
    def end(self) -> int:
        return self.first + len(self.letters)

    def extents(self, shape: Sequence[int]) -> list[int]:
        return list(shape[self.first : self.end])

    def resized(self, shape: Sequence[int], size: Sequence[int]) -> list[int]:
        return [*shape[: self.first], *size, *shape[self.end :]]


def _geometries(node: GraphNode, kind: type[Geometry]) -> ArgumentCache[Geometry]:
    """Return the geometries of batches, by the spatial axes."""
    return ArgumentCache(node, lambda batch, axes: kind.of(node, batch, axes), drawn=kind.drawn)


def _filters(node: GraphNode) -> ArgumentCache[tuple[list[int], list[int]]]:
    """Return the filters of each sample of batches, for axes that shrink and that grow."""
    names = ("interp_type", "min_filter", "mag_filter")
    return ArgumentCache(node, lambda batch: _read_filters(batch.arguments(node), names), names)


def _read_filters(arguments: Arguments, names: Sequence[str]) -> tuple[list[int], list[int]]:
    common, lower, upper = (arguments.scalars(name, np.int64) for name in names)
    chosen = []
    for own in (lower, upper):
        values = common if own is None else own
        assert values is not None
        codes = values.tolist()
        for sample, code in enumerate(codes):
            if not 0 <= code < len(DALIInterpType):
                raise ArgumentValueError(f"unknown interpolation {code} (sample {sample})")
        chosen.append(codes)
    return chosen[0], chosen[1]


def _check_dtype(wanted: np.dtype[Any] | None, given: np.dtype[Any]) -> np.dtype[Any]:
    if wanted is not None and wanted not in (given, np.float32):
        raise ArgumentValueError(f"argument 'dtype' must be the input's, {given}, or FLOAT, not {wanted}")
    if given.kind not in "iuf":
        raise ArgumentValueError(f"samples of dtype {given} can't be resized")
    return wanted or given


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
class ResizeCpu(SampleOperator[_State]):
    """Resizes straight into the batch."""

    #: What computes sizes and regions.
    geometry: ClassVar[type[Geometry]] = ResizeGeometry

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._geometries = _geometries(node, self.geometry)
        self._filters = _filters(node)

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        (data,) = inputs
        known = known_extents(batch, self.node, inputs)
        layout = choose_layout(data.layout, None if known is None else len(known), RESIZE_LAYOUTS)
        axes = _Axes.of(layout)
        wanted = output_dtype(self.node)
        dtype = wanted if data.dtype is None else _check_dtype(wanted, data.dtype)
        geometry = self._geometries.get(batch, axes.letters)
        lower, upper = self._filters.get(batch)
        attributes = self.node.argument("save_attrs")
        state = _State(axes, geometry, lower, upper, self.node.argument("antialias"), dtype, attributes)
        specs: list[OutputSpec] = [describe(layout, _known_size(known, len(layout), axes, geometry), dtype)]
        if attributes:
            specs.append(describe("", (len(axes.letters),), np.dtype(np.int32)))
        return state, specs

    def plan(self, batch: Batch, extents: npt.NDArray[np.int64]) -> ResizedBatch | None:
        """Return how to resize uint8 pictures of (N, 2) extents to uint8 ones of one size, with the linear filter.

        Returns:
            None where that isn't what is asked for.

        Raises:
            PipelineError: for arguments that don't fit.
        """
        lower, upper = self._filters.get(batch)
        geometry = self._geometries.get(batch, "HW")
        linear = {*lower, *upper} <= {int(INTERP_LINEAR), int(INTERP_TRIANGULAR)}
        plain = linear and output_dtype(self.node) in (None, np.uint8) and not self.node.argument("save_attrs")
        return geometry.solve_all(extents) if plain and geometry.fixed_size is not None else None

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array | tuple[Array, ...]:
        (image,) = inputs
        axes = state.axes
        extents = axes.extents(image.shape)
        resized = state.geometry.solve(sample, extents)
        dtype = state.dtype or _check_dtype(None, image.dtype)
        options: dict[str, Any] = {
            "min_filter": state.lower[sample],
            "mag_filter": state.upper[sample],
            "antialias": state.antialias,
        }
        if axes.first == 0 and len(extents) == 2:
            options["planar"] = self.inner
            made = _resize_plane(image, resized, dtype, out, options)
        else:
            if out is None:
                out = np.empty(axes.resized(image.shape, resized.size), dtype)
            for index in np.ndindex(*image.shape[: axes.first]):
                if len(extents) == 2:
                    _resize_plane(image[index], resized, dtype, out[index], options)
                else:
                    _resize_volume(image[index], resized, out[index], options)
            made = out
        return (made, np.array(extents, np.int32)) if state.attributes else made


def _known_size(known: Extents | None, ndim: int, axes: _Axes, geometry: Geometry) -> Extents | None:
    size = geometry.fixed_size or (None,) * len(axes.letters)
    shape = known if known is not None else (None,) * ndim
    return (*shape[: axes.first], *size, *shape[axes.end :])


def _resize_plane(
    image: Array, resized: Resized, dtype: np.dtype[Any], out: Array | None, options: dict[str, Any]
) -> Array:
    height, width = resized.size
    region = None
    if not resized.whole:
        (y0, x0), (y1, x1) = resized.low, resized.high
        region = y0, x0, y1, x1
    return imaging.resize(image, (height, width), region=region, dtype=dtype, out=out, **options)


def _resize_volume(volume: Array, resized: Resized, out: Array, options: dict[str, Any]) -> None:
    """Resize each slice, and then along the depth, as a picture one pixel wide whose channels are whole slices."""
    depth, height, width = resized.size
    between = np.empty((volume.shape[0], height, width, *volume.shape[3:]), np.float32)
    plane = Resized((height, width), resized.low[1:], resized.high[1:], resized.whole)
    for index in range(volume.shape[0]):
        _resize_plane(volume[index], plane, between.dtype, between[index], options)
    column = between.reshape(between.shape[0], 1, -1)
    region = (resized.low[0], 0.0, resized.high[0], 1.0)
    made = imaging.resize(column, (depth, 1), region=region, dtype=out.dtype, **options)
    np.copyto(out, made.reshape(out.shape))


@implements(RESIZE, "gpu")
class ResizeGpu(GpuOperator):
    """One launch a batch along each axis."""

    #: What computes sizes and regions.
    geometry: ClassVar[type[Geometry]] = ResizeGeometry

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._geometries = _geometries(node, self.geometry)
        self._filters = _filters(node)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        layout = choose_layout(data.layout(), data.ndim, RESIZE_LAYOUTS)
        axes = _Axes.of(layout)
        source = samples_of(data)
        solved, filters = self.plan(batch, axes.letters, source.shapes[:, axes.first : axes.end])
        shapes = source.shapes.copy()
        shapes[:, axes.first : axes.end] = solved.size
        made, target = allocate(shapes, self.dtype_of(source.dtype), layout)
        resize = resample_pictures if axes.letters == "HW" else resample_volumes
        resize(self.kernels, batch.stream, source, target, axes.first, solved.low, solved.high, filters)
        outputs: list[Any] = [made]
        if self.node.argument("save_attrs"):
            extents = source.shapes[:, axes.first : axes.end].astype(np.int32)
            outputs.append(upload(batch, TensorListCPU(extents)))
        return outputs

    def plan(self, batch: Batch, axes: str, extents: npt.NDArray[np.int64]) -> tuple[ResizedBatch, Filters]:
        """Return how to resize samples of (N, axes) extents along the axes "HW" or "DHW".

        Raises:
            OperatorError: with the samples that can't be resized.
        """
        solved = self._geometries.get(batch, axes).solve_all(extents)
        lower, upper = self._filters.get(batch)
        return solved, Filters(np.array(lower), np.array(upper), self.node.argument("antialias"))

    def dtype_of(self, given: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of the output, given the input's.

        Raises:
            ArgumentValueError: for an input that can't be resized, or not to the dtype that was asked for.
        """
        return _check_dtype(output_dtype(self.node), given)
