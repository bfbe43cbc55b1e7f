"""Crops, mirrors and normalises pictures: the last step before a network, in one pass over the pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline import _imaging as imaging
from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._kernels import strided_copy
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import GpuOperator, allocate, fail, samples_of
from pipeline._operator_api.layouts import CROP_LAYOUTS, choose_layout
from pipeline._operator_api.memoize import ArgumentCache
from pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from pipeline._operator_api.output_dtype import dtype_arguments, output_dtype
from pipeline._operator_api.output_specs import Extents, describe, known_extents
from pipeline._operators.geometry.crop_arguments import CROP_ARGUMENTS, CropWindows
from pipeline._operators.geometry.normalization_arguments import (
    NORMALIZATION_ARGUMENTS,
    for_channels,
    gains_and_offsets,
    padded_channels,
)
from pipeline._operators.geometry.windows import (
    POLICIES,
    fill_argument,
    fill_values,
    inside,
    leaves,
    policy_argument,
    policy_of,
    trim,
)
from pipeline.errors import ArgumentValueError, PipelineError
from pipeline.tensors.cpu import Array
from pipeline.types import FLOAT, FLOAT16, INT8, UINT8, to_dali_type

__all__ = ["CROP_MIRROR_NORMALIZE"]

CROP_MIRROR_NORMALIZE = register(
    OperatorSchema(
        name="crop_mirror_normalize",
        doc="""Crops a window, mirrors it if asked, normalises pixels and changes layout and dtype, in one pass.

The output is (pixel - mean) / std * scale + shift. Without crop arguments the window is the whole image.""",
        inputs=(Input("data", f"Images, of one of the layouts {', '.join(CROP_LAYOUTS)}; HWC without a layout."),),
        arguments=(
            *CROP_ARGUMENTS,
            *NORMALIZATION_ARGUMENTS,
            Argument("mirror", Kind.INT, "Nonzero swaps left and right of the window.", 0, per_sample=True),
            Argument("output_layout", Kind.LAYOUT, "Any order of the input's layout; empty keeps it.", "CHW"),
            policy_argument(POLICIES),
            fill_argument(),
            *dtype_arguments("Dtype of the output: FLOAT, FLOAT16, INT8 or UINT8. Integers are rounded.", FLOAT),
        ),
        devices=("cpu", "gpu"),
    )
)

_DTYPES = (FLOAT, FLOAT16, INT8, UINT8)


@dataclass(frozen=True)
class _Plan:
    """What is the same for all samples.

    Attributes:
        layout: of the input.
        perm: for each dimension of the output, the one of the input.
        dtype: of the output.
        policy: for windows that leave their picture.
        fill: values outside and of added channels; zero where nothing else is asked for.
        pad: whether channels are added.
    """

    layout: str
    perm: tuple[int, ...]
    dtype: np.dtype[Any]
    policy: str
    fill: tuple[float, ...]
    pad: bool

    @classmethod
    def of(cls, node: GraphNode, layout: str) -> _Plan:
        dtype = output_dtype(node)
        assert dtype is not None
        if to_dali_type(dtype) not in _DTYPES:
            raise ArgumentValueError(f"argument 'dtype' must be FLOAT, FLOAT16, INT8 or UINT8, not {dtype}")
        output_layout = node.argument("output_layout") or layout
        if sorted(output_layout) != sorted(layout):
            raise ArgumentValueError(
                f"argument 'output_layout' is {output_layout!r}, which isn't a permutation of the input's layout "
                f"{layout!r}"
            )
        policy = policy_of(node.argument("out_of_bounds_policy"))
        fill = node.argument("fill_values") if policy == "pad" else (0.0,)
        perm = tuple(layout.index(letter) for letter in output_layout)
        return cls(layout, perm, dtype, policy, fill, node.argument("pad_output"))

    @cached_property
    def channel_axis(self) -> int:
        return self.layout.index("C")

    @cached_property
    def takes_apart(self) -> bool:
        """Whether pictures become planes."""
        return self.layout == "HWC" and self.perm == (2, 0, 1)

    @property
    def output_layout(self) -> str:
        return "".join(self.layout[axis] for axis in self.perm)

    def window(self, windows: CropWindows, sample: int, shape: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return where a sample's window begins and its extents, after the policy."""
        start, extent = windows.place(sample, shape)
        if self.policy != "pad" and not inside(start, extent, shape):
            if self.policy == "error":
                raise leaves(start, extent, shape)
            start, extent = trim(start, extent, shape)
        extent[self.channel_axis] = channels = padded_channels(shape[self.channel_axis], self.pad)
        fill_values(self.fill, channels)
        return start, extent

    def extents(self, windows: CropWindows, known: Extents | None) -> Extents | None:
        """Return what is known of the output's shapes."""
        found = None if self.policy == "trim_to_shape" else windows.extents(known)
        if found is None:
            return None
        channels = found[self.channel_axis]
        padded = None if channels is None else padded_channels(channels, self.pad)
        return tuple(padded if axis == self.channel_axis else found[axis] for axis in self.perm)


class _Constants:
    """What a node makes of its arguments for each batch, or once where they are constant.

    Args:
        node: the operator.
    """

    def __init__(self, node: GraphNode) -> None:
        #: By the layout of the input.
        self.plans = ArgumentCache(node, lambda _, layout: _Plan.of(node, layout), ())
        crop = [argument.name for argument in CROP_ARGUMENTS]
        self.windows = ArgumentCache(
            node, lambda batch, layout: CropWindows(batch.arguments(node), batch.size, layout), crop
        )
        names = [argument.name for argument in NORMALIZATION_ARGUMENTS]
        self.tables = ArgumentCache(node, lambda batch: gains_and_offsets(batch.arguments(node)), names)
        #: The same as lists.
        self.rows = ArgumentCache(
            node, lambda batch: tuple(table.tolist() for table in gains_and_offsets(batch.arguments(node))), names
        )


@dataclass(frozen=True)
class _State:
    plan: _Plan
    windows: CropWindows
    mirror: list[bool]
    gains: list[list[float]]
    offsets: list[list[float]]


class Normalized(NamedTuple):
    """How to normalise whole pictures of a batch.

    Attributes:
        mirror: (N,) bool.
        scale: (N or 1, C) float32, of ``pixel * scale + bias``.
        bias: see scale.
    """

    mirror: npt.NDArray[np.bool_]
    scale: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32]


@implements(CROP_MIRROR_NORMALIZE, "cpu")
class CropMirrorNormalizeCpu(SampleOperator[_State]):
    """Writes each pixel once, straight into the batch."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._constants = _Constants(node)

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        arguments = batch.arguments(self.node)
        known = known_extents(batch, self.node, inputs)
        layout = choose_layout(inputs[0].layout, None if known is None else len(known), CROP_LAYOUTS)
        plan = self._constants.plans.get(batch, layout)
        windows = self._constants.windows.get(batch, layout)
        mirror = arguments.scalars("mirror")
        assert mirror is not None
        gains, offsets = self._constants.rows.get(batch)
        state = _State(plan, windows, (mirror != 0).tolist(), gains, offsets)
        return state, [describe(plan.output_layout, plan.extents(windows, known), plan.dtype)]

    def plan(self, batch: Batch, channels: int) -> Normalized | None:
        """Return how to normalise whole HWC pictures of some channels to float32 planes.

        Returns:
            None where that isn't what is asked for.

        Raises:
            PipelineError: for arguments that don't fit.
        """
        plan = self._constants.plans.get(batch, "HWC")
        plain = plan.takes_apart and plan.dtype == np.float32 and not plan.pad and len(plan.fill) == 1
        if not plain or not self._constants.windows.get(batch, "HWC").whole:
            return None
        arguments = batch.arguments(self.node)
        mirror = arguments.scalars("mirror")
        assert mirror is not None
        constant = not (arguments.per_sample("mean") or arguments.per_sample("std"))
        rows = (1 if constant else batch.size, channels)
        scale, bias = (
            np.broadcast_to(_table(values, channels, channels, constant), rows)
            for values in self._constants.tables.get(batch)
        )
        return Normalized(mirror != 0, scale.astype(np.float32), bias.astype(np.float32))

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        image, plan = inputs[0], state.plan
        channels = image.shape[plan.channel_axis]
        options: dict[str, Any] = {
            "mirror": state.mirror[sample],
            "scale": for_channels(state.gains[sample], channels),
            "bias": for_channels(state.offsets[sample], channels),
            "fill": plan.fill if len(plan.fill) > 1 else plan.fill[0],
        }
        if plan.takes_apart and out is not None and state.windows.whole and not plan.pad and len(plan.fill) == 1:
            return imaging.crop_mirror_normalize(image, out, **options)
        start, extent = plan.window(state.windows, sample, image.shape)
        if out is None:
            out = np.empty([extent[axis] for axis in plan.perm], plan.dtype)
        if plan.takes_apart:
            window = (start[0], start[1], extent[0], extent[1])
            return imaging.crop_mirror_normalize(image, out, window=window, **options)
        _frames(image, out, plan, start, extent, options)
        return out


def _frames(
    image: Array, out: Array, plan: _Plan, start: list[int], extent: list[int], options: dict[str, Any]
) -> None:
    """Make each frame of a sequence or slice of a volume by itself, whatever the order of its axes."""
    layout = plan.layout
    outer = [axis for axis, letter in enumerate(layout) if letter not in "HWC"]
    rows, columns, channels = (layout.index(letter) for letter in "HWC")
    frames = image.transpose(*outer, rows, columns, channels)
    places = {axis: position for position, axis in enumerate(plan.perm)}
    planes = out.transpose(*(places[axis] for axis in (*outer, channels, rows, columns)))
    window = (start[rows], start[columns], extent[rows], extent[columns])
    for index in np.ndindex(*planes.shape[: len(outer)]):
        source = tuple(start[axis] + number for axis, number in zip(outer, index, strict=True))
        if inside(source, [1] * len(outer), frames.shape[: len(outer)]):
            imaging.crop_mirror_normalize(frames[source], planes[index], window=window, layout="CHW", **options)
        else:  # a slice before or behind the volume: a window beside an empty picture
            nothing = frames[(0,) * len(outer)][:0]
            imaging.crop_mirror_normalize(nothing, planes[index], window=window, layout="CHW", **options)


@dataclass(frozen=True, eq=False)
class Placed:
    """What to make of the samples of a batch.

    Attributes:
        plan: what is the same for all samples.
        starts: (N, ndim), where windows begin, along the input's axes.
        extents: (N, ndim), of the windows.
        mirror: (N,) bool.
        scale: of the normalisation ``pixel * scale + bias``: (1,) or (C,), or with a row a sample.
        bias: see scale.
    """

    plan: _Plan
    starts: npt.NDArray[np.int64]
    extents: npt.NDArray[np.int64]
    mirror: npt.NDArray[np.bool_]
    scale: Array
    bias: Array


@implements(CROP_MIRROR_NORMALIZE, "gpu")
class CropMirrorNormalizeGpu(GpuOperator):
    """One launch a batch."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._constants = _Constants(node)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        source = samples_of(data)
        placed = self.place(batch, data.layout(), source.shapes)
        plan, starts, extents = placed.plan, placed.starts.copy(), placed.extents
        width = plan.layout.index("W")
        steps = np.ones_like(starts)
        steps[placed.mirror, width] = -1
        starts[placed.mirror, width] += extents[placed.mirror, width] - 1
        made, target = allocate(np.ascontiguousarray(extents[:, list(plan.perm)]), plan.dtype, plan.output_layout)
        outside = plan.policy == "pad" or plan.pad
        strided_copy(
            self.kernels,
            batch.stream,
            source,
            target,
            start=starts,
            step=steps,
            axes=plan.perm,
            channel_axis=plan.perm.index(plan.channel_axis),
            scale=placed.scale,
            bias=placed.bias,
            fill=np.asarray(plan.fill if len(plan.fill) > 1 else plan.fill[0]) if outside else None,
        )
        return [made]

    def place(self, batch: Batch, layout: str, shapes: npt.NDArray[np.int64]) -> Placed:
        """Return what to make of samples of some layout and of shapes (N, ndim).

        Raises:
            ArgumentValueError: for arguments that don't fit.
            OperatorError: with the samples whose windows leave them, where that is forbidden.
        """
        arguments = batch.arguments(self.node)
        plan = self._constants.plans.get(batch, choose_layout(layout, shapes.shape[1], CROP_LAYOUTS))
        starts, extents = self._windows(plan, self._constants.windows.get(batch, plan.layout), shapes)
        mirror = arguments.scalars("mirror")
        assert mirror is not None
        gains, offsets = self._constants.tables.get(batch)
        channels = int(shapes[:, plan.channel_axis].max())
        padded = padded_channels(channels, plan.pad)
        constant = not (arguments.per_sample("mean") or arguments.per_sample("std"))
        scale, bias = (_table(values, channels, padded, constant) for values in (gains, offsets))
        return Placed(plan, starts, extents, mirror != 0, scale, bias)

    def _windows(self, plan: _Plan, windows: CropWindows, shapes: npt.NDArray[np.int64]) -> tuple[Array, Array]:
        """Return where the windows of all samples begin and their extents, each (N, ndim)."""
        if windows.whole and not plan.pad and len(plan.fill) == 1:
            return np.zeros_like(shapes), shapes
        placed: list[tuple[list[int], list[int]]] = []
        failures: list[tuple[int, PipelineError]] = []
        for sample, shape in enumerate(shapes.tolist()):
            try:
                placed.append(plan.window(windows, sample, shape))
            except PipelineError as error:
                failures.append((sample, error))
        fail(failures)
        starts, extents = (np.array(column, np.int64) for column in zip(*placed, strict=True))
        return starts, extents


def _table(values: Array, channels: int, padded: int, constant: bool) -> Array:
    """Return values as the kernel takes them: (1,) or (padded,) for all samples, else (N, 1) or (N, padded)."""
    rows = values[:1] if constant else values
    for_channels(rows[0], channels)
    if rows.shape[1] not in (1, padded):
        # Channels that padding adds hold fill values; what normalises them doesn't matter.
        rows = np.pad(rows[:, :channels], ((0, 0), (0, padded - min(channels, rows.shape[1]))), constant_values=1.0)
    result: Array = rows[0] if constant else rows
    return result
