"""Crops, mirrors and normalises images in one pass over the pixels, as the last step before a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from dali_proxy.pipeline import _imaging as imaging
from dali_proxy.pipeline._arrays import Bools, Float32s, Int64s
from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.pixel_choices import PixelChoices
from dali_proxy.pipeline._operator_api.batch import ArgumentCache, Batch
from dali_proxy.pipeline._operator_api.gpu_operator import allocate, fail, samples_of
from dali_proxy.pipeline._operator_api.layouts import CROP_LAYOUTS, choose_layout
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from dali_proxy.pipeline._operator_api.output_dtype import dtype_arguments, output_dtype
from dali_proxy.pipeline._operator_api.output_specs import Extents, describe, layout_and_extents
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline._operator_api.traits import Traits
from dali_proxy.pipeline._operators.geometry.crop_arguments import CROP_ARGUMENTS, POSITION_ARGUMENTS, CropWindows
from dali_proxy.pipeline._operators.geometry.gpu_windows import placed
from dali_proxy.pipeline._operators.geometry.normalization_arguments import (
    NORMALIZATION_ARGUMENTS,
    for_channels,
    gains_and_offsets,
    padded_channels,
)
from dali_proxy.pipeline._operators.geometry.windows import (
    POLICIES,
    canonical_policy,
    check_fill_values,
    fill_argument,
    inside,
    out_of_bounds_error,
    policy_argument,
    trim,
)
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import FLOAT, FLOAT16, INT8, UINT8, to_dali_type

CROP_MIRROR_NORMALIZE = declare_operator(
    name="crop_mirror_normalize",
    doc="""Crops, mirrors and normalises images, and converts their layout and dtype, in one pass.

The output is (pixel - mean) / std * scale + shift. Without crop arguments the window is the whole image.""",
    inputs=(Input("data", f"Images, of one of the layouts {', '.join(CROP_LAYOUTS)}; HWC without a layout."),),
    arguments=(
        *CROP_ARGUMENTS,
        *NORMALIZATION_ARGUMENTS,
        Argument("mirror", Kind.INT, "Nonzero swaps left and right.", 0, per_sample=True),
        Argument("output_layout", Kind.LAYOUT, "A permutation of the input's layout; empty keeps the layout.", "CHW"),
        policy_argument(POLICIES),
        fill_argument(),
        *dtype_arguments("Dtype of the output: FLOAT, FLOAT16, INT8 or UINT8. Integers are rounded.", FLOAT),
    ),
    devices=("cpu", "gpu"),
)

_DTYPES = (FLOAT, FLOAT16, INT8, UINT8)


@dataclass(frozen=True)
class _Settings:
    """Settings that all samples share.

    Attributes:
        layout: layout of the input.
        perm: dimension of the input for each dimension of the output.
        dtype: dtype of the output.
        policy: policy for windows that exceed their image.
        fill: values outside of the image and in added channels.
        pad: whether channels are added.
    """

    layout: str
    perm: tuple[int, ...]
    dtype: np.dtype[Any]
    policy: str
    fill: tuple[float, ...]
    pad: bool

    @classmethod
    def from_node(cls, node: GraphNode, layout: str) -> _Settings:
        dtype = output_dtype(node)
        assert dtype is not None
        if to_dali_type(dtype) not in _DTYPES:
            raise ArgumentValueError(f"argument 'dtype' must be FLOAT, FLOAT16, INT8 or UINT8, not {dtype}")
        output_layout = node.argument("output_layout") or layout
        if sorted(output_layout) != sorted(layout):
            raise ArgumentValueError(
                f"The requested output layout is not a permutation of input layout: {output_layout!r} and {layout!r}"
            )
        policy = canonical_policy(node.argument("out_of_bounds_policy"))
        fill = node.argument("fill_values") if policy == "pad" else (0.0,)
        perm = tuple(layout.index(letter) for letter in output_layout)
        return cls(layout, perm, dtype, policy, fill, node.argument("pad_output"))

    @cached_property
    def channel_axis(self) -> int:
        return self.layout.index("C")

    @cached_property
    def splits_channels(self) -> bool:
        """Whether HWC images become CHW planes."""
        return self.layout == "HWC" and self.perm == (2, 0, 1)

    @property
    def output_layout(self) -> str:
        return "".join(self.layout[axis] for axis in self.perm)

    def window(self, windows: CropWindows, sample: int, shape: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return start and extents of a sample's window after applying the policy."""
        start, extent = windows.locate(sample, shape)
        if self.policy != "pad" and not inside(start, extent, shape):
            if self.policy == "error":
                raise out_of_bounds_error(start, extent, shape)
            start, extent = trim(start, extent, shape)
        extent[self.channel_axis] = channels = padded_channels(shape[self.channel_axis], self.pad)
        check_fill_values(self.fill, channels)
        return start, extent

    def extents(self, windows: CropWindows, known: Extents | None) -> Extents | None:
        """Return the known extents of the output."""
        cropped = None if self.policy == "trim_to_shape" else windows.extents(known)
        if cropped is None:
            return None
        channels = cropped[self.channel_axis]
        padded = None if channels is None else padded_channels(channels, self.pad)
        return tuple(padded if axis == self.channel_axis else cropped[axis] for axis in self.perm)


class _ArgumentCache:
    """Resolved arguments of a node: per batch, or computed once if they are constant."""

    def __init__(self, node: GraphNode) -> None:
        #: Settings by layout of the input.
        self.settings = ArgumentCache(node, lambda _, layout: _Settings.from_node(node, layout), ())
        crop = [argument.name for argument in CROP_ARGUMENTS]
        self.windows = ArgumentCache(
            node, lambda batch, layout: CropWindows(batch.arguments(node), batch.size, layout), crop
        )
        names = [argument.name for argument in NORMALIZATION_ARGUMENTS]
        self.tables = ArgumentCache(node, lambda batch: gains_and_offsets(batch.arguments(node)), names)
        #: `tables` for images with a number of channels, as float32.
        self.of_channels = ArgumentCache(node, partial(self._of_channels, node), names)
        #: `tables` as lists.
        self.rows = ArgumentCache(
            node, lambda batch: tuple(table.tolist() for table in gains_and_offsets(batch.arguments(node))), names
        )

    def _of_channels(self, node: GraphNode, batch: Batch, channels: int) -> list[Float32s]:
        return [_rows(node, table, channels).astype(np.float32) for table in self.tables.get(batch)]


@dataclass(frozen=True)
class _State:
    settings: _Settings
    windows: CropWindows
    mirror: list[bool]
    gains: list[list[float]]
    offsets: list[list[float]]


class Normalization(NamedTuple):
    """Normalisation ``pixel * scale + bias`` of the whole images of a batch.

    Attributes:
        mirror: whether to mirror each image, (N,).
        scale: factors, (N or 1, C) float32.
        bias: offsets, shaped as `scale`.
    """

    mirror: Bools
    scale: Float32s
    bias: Float32s


@implements(CROP_MIRROR_NORMALIZE, "cpu")
class CropMirrorNormalizeCpu(SampleOperator[_State]):
    """Writes each pixel once, straight to the memory of the batch."""

    traits = Traits(any_strides=True)

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._cache = _ArgumentCache(node)

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        arguments = batch.arguments(self.node)
        layout, known = layout_and_extents(batch, self.node, inputs, CROP_LAYOUTS)
        settings = self._cache.settings.get(batch, layout)
        windows = self._cache.windows.get(batch, layout)
        mirror = arguments.scalars("mirror")
        gains, offsets = self._cache.rows.get(batch)
        state = _State(settings, windows, (mirror != 0).tolist(), gains, offsets)
        return state, [describe(settings.output_layout, settings.extents(windows, known), settings.dtype)]

    def resolve(self, batch: Batch, shape: tuple[int, int, int]) -> Normalization | None:
        """Return the normalisation of whole HWC images of one shape to float32 planes.

        Returns:
            None if the arguments require anything else.

        Raises:
            PipelineError: Arguments are invalid.
        """
        settings = self._cache.settings.get(batch, "HWC")
        plain = (
            settings.splits_channels and settings.dtype == np.float32 and not settings.pad and len(settings.fill) == 1
        )
        windows = self._cache.windows.get(batch, "HWC")
        if not plain or not (windows.whole or windows.extents(shape) == shape):
            return None
        arguments = batch.arguments(self.node)
        mirror = arguments.scalars("mirror")
        return Normalization(mirror != 0, *self._cache.of_channels.get(batch, shape[2]))

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        image, settings = inputs[0], state.settings
        channels = image.shape[settings.channel_axis]
        options: dict[str, Any] = {
            "mirror": state.mirror[sample],
            "scale": for_channels(state.gains[sample], channels),
            "bias": for_channels(state.offsets[sample], channels),
            "fill": settings.fill if len(settings.fill) > 1 else settings.fill[0],
        }
        if (
            settings.splits_channels
            and out is not None
            and state.windows.whole
            and not settings.pad
            and len(settings.fill) == 1
        ):
            return imaging.crop_mirror_normalize(image, out, **options)
        start, extent = settings.window(state.windows, sample, image.shape)
        if out is None:
            out = np.empty([extent[axis] for axis in settings.perm], settings.dtype)
        if settings.splits_channels:
            window = (start[0], start[1], extent[0], extent[1])
            return imaging.crop_mirror_normalize(image, out, window=window, **options)
        _frames(image, out, settings, start, extent, options)
        return out


def _frames(
    image: Array, out: Array, settings: _Settings, start: list[int], extent: list[int], options: dict[str, Any]
) -> None:
    """Compute each frame of a sequence, or slice of a volume, separately, for any order of axes."""
    layout = settings.layout
    outer = [axis for axis, letter in enumerate(layout) if letter not in "HWC"]
    rows, columns, channels = (layout.index(letter) for letter in "HWC")
    frames = image.transpose(*outer, rows, columns, channels)
    positions = {axis: position for position, axis in enumerate(settings.perm)}
    planes = out.transpose(*(positions[axis] for axis in (*outer, channels, rows, columns)))
    window = (start[rows], start[columns], extent[rows], extent[columns])
    for index in np.ndindex(*planes.shape[: len(outer)]):
        source = tuple(start[axis] + number for axis, number in zip(outer, index, strict=True))
        if inside(source, [1] * len(outer), frames.shape[: len(outer)]):
            imaging.crop_mirror_normalize(frames[source], planes[index], window=window, layout="CHW", **options)
        else:  # a slice before or behind the volume: a window outside of an empty image
            empty = frames[(0,) * len(outer)][:0]
            imaging.crop_mirror_normalize(empty, planes[index], window=window, layout="CHW", **options)


@dataclass(frozen=True, eq=False)
class CropNormalization:
    """Windows of the samples of a batch, and their normalisation ``pixel * scale + bias``.

    Attributes:
        settings: settings that all samples share.
        starts: first elements of the windows along the input's axes, (N, ndim).
        extents: extents of the windows, (N, ndim).
        mirror: whether to mirror each sample, (N,).
        scale: factors: (1,) or (C,) for all samples, or one row per sample.
        bias: offsets, shaped as `scale`.
    """

    settings: _Settings
    starts: Int64s
    extents: Int64s
    mirror: Bools
    scale: Array
    bias: Array


@implements(CROP_MIRROR_NORMALIZE, "gpu")
class CropMirrorNormalizeGpu(PixelOperator):
    """One launch per batch."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._cache = _ArgumentCache(node)
        #: Whether nothing but mirroring differs from sample to sample, or nothing but that and the windows' positions.
        self._only_mirrors = node.argument_inputs.keys() <= {"mirror"}
        self._only_moves = (
            not self._only_mirrors
            and node.argument_inputs.keys() <= {"mirror", *POSITION_ARGUMENTS}
            and canonical_policy(node.argument("out_of_bounds_policy")) == "error"
        )

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression:
        moves = self._only_moves and pixels.in_memory
        if not ((moves or self._only_mirrors) and pixels.recurs):
            return self._mirrored(pixels, self.resolve(batch, pixels.layout, pixels.shapes))
        choices = pixels.kept(self, lambda: self._choices(batch, pixels, moves))
        mirror = batch.arguments(self.node).scalars("mirror")
        chosen = choices.choose((mirror != 0).view(np.uint8), pixels)
        if not moves:
            return chosen
        stored, settings = pixels.stored, self._settings(batch, pixels.layout, pixels.ndim)
        assert stored is not None
        starts, _ = self._windows(settings, self._cache.windows.get(batch, settings.layout), stored.shapes)
        return chosen.moved(np.einsum("nd,nd->n", starts, stored.strides))

    def _choices(self, batch: Batch, pixels: PixelExpression, moves: bool) -> PixelChoices:
        """Return the result without mirroring and the mirrored one; if it `moves`, of windows at the first pixel."""
        crop = self.resolve(batch, pixels.layout, pixels.shapes)
        crop = replace(crop, starts=np.zeros_like(crop.starts)) if moves else crop
        options = [
            self._mirrored(pixels, replace(crop, mirror=np.full(batch.size, mirror))) for mirror in (False, True)
        ]
        return PixelChoices(options, pixels)

    def _mirrored(self, pixels: PixelExpression, crop: CropNormalization) -> PixelExpression:
        settings, pixels = crop.settings, pixels.named(crop.settings.layout)
        window = (crop.starts, crop.extents, crop.mirror, crop.scale, crop.bias)
        if not settings.pad and settings.policy != "pad":
            return _cut(pixels, *window, None, settings.dtype).transposed(settings.output_layout)
        fill = np.broadcast_to(np.asarray(settings.fill, np.float64), padded_channels(pixels.channels, settings.pad))
        own = fill[: pixels.channels] if settings.policy == "pad" else None
        result = _cut(pixels, *window, own, settings.dtype)
        return result.with_channels(fill[pixels.channels :]).transposed(settings.output_layout)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        """Do the same for any number of channels, and for sequences of volumes: each channel of a frame is an image."""
        (data,) = inputs
        source = samples_of(data)
        crop = self.resolve(batch, data.layout(), source.shapes)
        settings, layout = crop.settings, crop.settings.layout
        shapes = np.ascontiguousarray(crop.extents[:, list(settings.perm)])
        output, target = allocate(shapes, settings.dtype, settings.output_layout)
        axes = [axis for axis, letter in enumerate(layout) if letter in "CF"]
        places = [settings.perm.index(axis) for axis in axes]
        owners, positions = target.positions(places)
        channels = positions[:, axes.index(settings.channel_axis)].copy()
        added = channels >= source.shapes[owners, settings.channel_axis]
        targets = target.parts(owners, positions, places)
        positions[added, axes.index(settings.channel_axis)] = 0
        inner = [axis for axis in range(source.ndim) if axis not in axes]
        letters = "".join(layout[axis] for axis in inner)
        pixels = PixelExpression.from_samples(source.parts(owners, positions, axes), letters, data)
        if pixels is None:  # there are no channels
            return [output]
        starts, extents = crop.starts[owners[:, None], inner], crop.extents[owners[:, None], inner]
        starts[added, letters.index("H")] = pixels.extents[added, 1]  # only fill values
        given = np.asarray(settings.fill, np.float64)
        fill = _of_channels(given, owners, channels) if settings.policy == "pad" or settings.pad else None
        scale, bias = (_of_channels(values, owners, channels) for values in (crop.scale, crop.bias))
        result = _cut(pixels, starts, extents, crop.mirror[owners], scale, bias, fill, settings.dtype)
        order = "".join(letter for letter in settings.output_layout if letter in letters)
        self.store(result.transposed(order), targets, batch)
        return [output]

    def resolve(self, batch: Batch, layout: str, shapes: Int64s) -> CropNormalization:
        """Return windows and normalisation of samples with the shapes (N, ndim).

        Raises:
            ArgumentValueError: Arguments are invalid.
            OperatorError: Windows exceed their samples under the policy "error"; the error lists the samples.
        """
        arguments = batch.arguments(self.node)
        settings = self._settings(batch, layout, shapes.shape[1])
        starts, extents = self._windows(settings, self._cache.windows.get(batch, settings.layout), shapes)
        mirror = arguments.scalars("mirror")
        gains, offsets = self._cache.tables.get(batch)
        channels = int(shapes[:, settings.channel_axis].max())
        scale, bias = (_table(self.node, values, channels) for values in (gains, offsets))
        return CropNormalization(settings, starts, extents, mirror != 0, scale, bias)

    def _settings(self, batch: Batch, layout: str, ndim: int) -> _Settings:
        return self._cache.settings.get(batch, choose_layout(layout, ndim, CROP_LAYOUTS))

    def _windows(self, settings: _Settings, windows: CropWindows, shapes: Int64s) -> tuple[Array, Array]:
        """Return starts and extents of all windows, each (N, ndim)."""
        if windows.whole and not settings.pad and len(settings.fill) == 1:
            return np.zeros_like(shapes), shapes
        starts, extents = placed(*windows.locate_all(shapes), shapes, settings.policy)
        counts = shapes[:, settings.channel_axis]
        failures: list[tuple[int, PipelineError]] = []
        for count in set(counts.tolist()):
            channels = padded_channels(count, settings.pad)
            extents[counts == count, settings.channel_axis] = channels
            try:
                check_fill_values(settings.fill, channels)
            except PipelineError as error:
                failures += [(sample, error) for sample in np.flatnonzero(counts == count).tolist()]
        fail(sorted(failures, key=itemgetter(0)))
        return starts, extents


def _cut(
    pixels: PixelExpression,
    starts: Int64s,
    extents: Int64s,
    mirror: Bools,
    scale: Array,
    bias: Array,
    fill: Array | None,
    dtype: np.dtype[Any],
) -> PixelExpression:
    """Return windows of pixels, mirrored and normalised, with fill values if a window may exceed its image."""
    first, size = pixels.along_extents(starts, 0), pixels.along_extents(extents, 1)
    steps = np.ones_like(first)
    steps[:, 2] -= 2 * mirror
    first[:, 2] += (size[:, 2] - 1) * mirror
    if fill is None:
        return pixels.window(first, steps, size).normalize(scale, bias, dtype)
    return pixels.normalize(scale, bias, dtype).window(first, steps, size, fill)


def _rows(node: GraphNode, values: Array, channels: int) -> Array:
    """Return values for each channel, (1 or N, channels)."""
    rows = np.atleast_2d(_table(node, values, channels))
    return np.broadcast_to(rows, (len(rows), channels))


def _table(node: GraphNode, values: Array, channels: int) -> Array:
    """Return values for the kernel: (1,) or (channels,) if all samples share them, else (N, 1) or (N, channels)."""
    constant = node.argument_inputs.keys().isdisjoint(("mean", "std"))
    rows = values[:1] if constant else values
    for_channels(rows[0], channels)
    rows = rows if rows.shape[1] == 1 else rows[:, :channels]
    return rows[0] if constant else rows


def _of_channels(values: Array, owners: Array, channels: Array) -> Array:
    """Return a value of a table for each channel of a sample, (M, 1)."""
    table = np.atleast_2d(values)
    rows = owners if len(table) > 1 else 0
    chosen: Array = table[rows, np.minimum(channels, table.shape[1] - 1)]
    return chosen[:, None]
