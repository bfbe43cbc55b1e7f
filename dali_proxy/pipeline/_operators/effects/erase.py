"""Erases regions of samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._imaging import convert
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.axes import axes_by_name, check_axes
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import allocate, samples_of
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_specs import describe, known_extents
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline._operators.geometry.pad import fill_in_units
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array

_NORMALIZED = "in fractions of the extents, not in pixels"

ERASE = declare_operator(
    name="erase",
    doc="""Erases one or more regions of samples.

Several regions are concatenated: anchor=(y0, x0, y1, x1), shape=(h0, w0, h1, w1). The portions outside of the sample
are ignored. Regions cover the whole extent of all other axes.""",
    inputs=(Input("data", "Samples of any shape."),),
    arguments=(
        Argument("anchor", Kind.FLOATS, "Starts of the regions; zero by default.", (), per_sample=True),
        Argument("shape", Kind.FLOATS, "Extents of the regions.", (), per_sample=True),
        Argument("axes", Kind.INTS, "Axes of `anchor` and `shape`; by default all except the channels.", (1, 0)),
        Argument("axis_names", Kind.STRING, "Axes as letters of the layout; overrides `axes`.", "HW"),
        Argument("fill_value", Kind.FLOATS, "Value of the regions: one, or one per channel.", (0.0,), True),
        Argument("normalized", Kind.BOOL, f"`anchor` and `shape` are {_NORMALIZED}.", False),
        Argument("normalized_anchor", Kind.BOOL, f"`anchor` is {_NORMALIZED}.", False),
        Argument("normalized_shape", Kind.BOOL, f"`shape` is {_NORMALIZED}.", False),
        Argument("centered_anchor", Kind.BOOL, "`anchor` is the centre of the regions.", False),
    ),
    devices=("cpu", "gpu"),
)


def _axes(arguments: Arguments, layout: str, ndim: int) -> list[int]:
    if arguments.given("axis_names") and (names := arguments.constant("axis_names")):
        return list(axes_by_name(names, layout))
    if not arguments.given("axes"):
        return [axis for axis in range(ndim) if layout[axis : axis + 1] != "C"]
    return list(check_axes(arguments.constant("axes"), ndim))


@dataclass(frozen=True)
class _Regions:
    """Regions of a batch, computed in float32 as in DALI.

    Attributes:
        arguments: arguments of the batch.
        layout: layout of the samples.
        anchor: starts of the regions of each sample, possibly empty; one array unless their numbers differ.
        shape: extents of the regions of each sample, likewise.
        fill: fill values of each sample, likewise.
        normalized: whether anchor and shape are fractions.
    """

    arguments: Arguments
    layout: str
    anchor: Array | Sequence[Array]
    shape: Array | Sequence[Array]
    fill: Array | Sequence[Array]
    normalized: tuple[bool, bool]

    @classmethod
    def from_arguments(cls, arguments: Arguments, layout: str) -> _Regions:
        """Return the regions of a batch.

        Raises:
            ArgumentValueError: Arguments are mutually exclusive.
        """
        specific = ("normalized_anchor", "normalized_shape")
        if arguments.given("normalized") and any(arguments.given(name) for name in specific):
            raise ArgumentValueError(f"argument 'normalized' can't be used together with {' or '.join(specific)}")
        both = arguments.constant("normalized")
        anchor, shape, fill = (arguments.table(name, np.float32) for name in ("anchor", "shape", "fill_value"))
        normalized = (both or arguments.constant(specific[0]), both or arguments.constant(specific[1]))
        return cls(arguments, layout, anchor, shape, fill, normalized)

    @property
    def is_uniform(self) -> bool:
        """Whether all samples have the same number of regions and of fill values, so that `locate` accepts them all."""
        return all(isinstance(rows, np.ndarray) for rows in (self.anchor, self.shape, self.fill))

    def locate(self, samples: slice, extents: Int64s) -> Int64s:
        """Return start and end of the regions of samples, limited to the samples, (N, R, 2, ndim).

        The samples, of the shapes `extents`, (N, ndim), have the same number of regions.

        Raises:
            ArgumentValueError: Anchor and shape differ in length, or their length isn't a multiple of the axes.
        """
        count, ndim = extents.shape
        axes = _axes(self.arguments, self.layout, ndim)
        anchor, shape = np.asarray(self.anchor[samples]), np.asarray(self.shape[samples])
        if not anchor.shape[1]:
            anchor = np.zeros_like(shape)
        if anchor.shape != shape.shape or (shape.shape[1] and (not axes or shape.shape[1] % len(axes))):
            raise ArgumentValueError(
                f"'anchor' has {anchor.shape[1]} values and 'shape' {shape.shape[1]}, but both need one for each of "
                f"the axes {axes}, once for every region"
            )
        regions = np.zeros((count, shape.shape[1] // max(1, len(axes)), 2, ndim), np.int64)
        regions[:, :, 1] = extents[:, None]
        if regions.size and axes:
            limits = extents[:, None, axes].astype(np.float32)
            begin, size = anchor.reshape(count, -1, len(axes)), shape.reshape(count, -1, len(axes))
            bounds = np.empty((count, regions.shape[1], 2, len(axes)), np.float32)
            bounds[:, :, 0] = begin * limits if self.normalized[0] else begin
            size = size * limits if self.normalized[1] else size
            if self.arguments.constant("centered_anchor"):
                bounds[:, :, 0] -= size / np.float32(2)
            np.add(bounds[:, :, 0], size, out=bounds[:, :, 1])
            # np.clip would take three times as long
            regions[..., axes] = np.minimum(np.maximum(np.floor(bounds, out=bounds), 0), limits[:, :, None])
        return regions

    def of_batch(self, shapes: Int64s) -> tuple[Int64s, Array]:
        """Return the regions of all samples, (N, R, 2, ndim), of which some may be empty, and their fill values.

        Raises:
            ArgumentValueError: as `locate` and `colour`.
        """
        if self.is_uniform:
            regions = self.locate(slice(None), shapes)
            channels = shapes[:, self.layout.find("C")].tolist() if shapes.shape[1] else [0]
            for sample in dict(zip(channels, range(len(shapes)), strict=False)).values():
                self.colour(sample, shapes[sample].tolist())
            return regions, np.asarray(self.fill, np.float64)
        located = [self.locate(slice(sample, sample + 1), shapes[sample, None])[0] for sample in range(len(shapes))]
        colours = [self.colour(sample, shape) for sample, shape in enumerate(shapes.tolist())]
        regions = np.zeros((len(shapes), max(map(len, located)), 2, shapes.shape[1]), np.int64)
        fill = np.zeros((len(shapes), max(map(len, colours))))
        for sample, (own, colour) in enumerate(zip(located, colours, strict=True)):
            regions[sample, : len(own)] = own
            fill[sample, : len(colour) if len(colour) > 1 else None] = colour
        return regions, fill

    def colour(self, sample: int, extents: Sequence[int]) -> Array:
        """Return the fill values of a sample: one, or one per channel.

        Raises:
            ArgumentValueError: There is a different number of values, or the layout has no channels.
        """
        fill = self.fill[sample]
        if len(fill) != 1:
            channels = extents[self.layout.index("C")] if "C" in self.layout else 0
            if len(fill) != channels:
                raise ArgumentValueError(
                    f"Multi-channel fill value does not match the number of channels in the input: {len(fill)} values, "
                    f"{channels} channels"
                )
        return fill.astype(np.float64)


@implements(ERASE, "cpu")
class EraseCpu(SampleOperator[_Regions]):
    """Copies the sample, then fills the regions."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_Regions, Sequence[OutputSpec]]:
        (data,) = inputs
        regions = _Regions.from_arguments(batch.arguments(self.node), data.layout)
        return regions, [describe(data.layout, known_extents(batch, self.node, inputs), data.dtype)]

    def run(self, state: _Regions, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        if out is None:
            out = np.empty(data.shape, data.dtype)
        np.copyto(out, data)
        values = state.colour(sample, data.shape)
        fill = _filling(tuple(values.tolist()), data.dtype)
        if len(fill) > 1:
            fill = np.broadcast_to(fill.reshape([-1 if letter == "C" else 1 for letter in state.layout]), data.shape)
        for begin, end in state.locate(slice(sample, sample + 1), np.array([data.shape]))[0].tolist():
            inside = tuple([slice(first, last) for first, last in zip(begin, end, strict=True)])
            if len(fill) > 1:
                out[inside] = fill[inside]
            else:
                _merge_trailing(out, begin, end)[...] = fill[0]
        return out


@lru_cache(maxsize=64)
def _filling(values: tuple[float, ...], dtype: np.dtype[Any]) -> Array:
    """Return fill values in a dtype."""
    return convert(fill_in_units(np.array(values), dtype), dtype)


def _merge_trailing(array: Array, begin: list[int], end: list[int]) -> Array:
    """Return a view of a region whose last axis is as long as possible: NumPy's innermost loop runs along it."""
    ndim = array.ndim
    while ndim > 1 and begin[ndim - 1] == 0 and end[ndim - 1] == array.shape[ndim - 1]:
        ndim -= 1
    if not array.flags.c_contiguous or not array.size:
        return array[tuple(map(slice, begin, end))]
    inner = math.prod(array.shape[ndim:])
    merged: Array = array.reshape(*array.shape[: ndim - 1], -1)
    outer = map(slice, begin[: ndim - 1], end[: ndim - 1])
    inside = (*outer, slice(begin[ndim - 1] * inner, end[ndim - 1] * inner))
    return merged[inside]


@implements(ERASE, "gpu")
class EraseGpu(PixelOperator):
    """Compares the position of a pixel with all regions."""

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        state = _Regions.from_arguments(batch.arguments(self.node), pixels.layout)
        regions, fill = state.of_batch(pixels.shapes)
        return pixels.erase(regions, fill_in_units(fill, pixels.dtype))

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        """Do the same for samples of any dimensions: parts of at most three dimensions, with one fill value each."""
        (data,) = inputs
        source, layout = samples_of(data), data.layout()
        regions, fill = _Regions.from_arguments(batch.arguments(self.node), layout).of_batch(source.shapes)
        channel = layout.index("C") if fill.shape[1] > 1 else None
        kept = [axis for axis in range(source.ndim) if axis != channel][-3:]
        split = [axis for axis in range(source.ndim) if axis not in kept]
        output, target = allocate(source.shapes, source.dtype, layout)
        owners, positions = source.positions(split)
        own = regions[owners]
        begin, end = np.moveaxis(own[..., split], 2, 0)
        is_here = np.logical_and.reduce((begin <= positions[:, None]) & (positions[:, None] < end), axis=2)
        own = np.where(is_here[..., None, None], own[..., kept], 0)  # others are empty
        values = fill[owners, 0 if channel is None else positions[:, split.index(channel)]]
        given, made = (each.parts(owners, positions, split) for each in (source, target))
        elements = PixelExpression.from_elements(given, "", data)
        if elements is not None:  # there are parts
            self.store(elements.erase(own, fill_in_units(values[:, None], source.dtype)), made, batch)
        return [output]
