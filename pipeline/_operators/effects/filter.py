"""Filters of any window: correlation of pictures with a batch of windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._imaging.filter2d import Border, filter2d
from pipeline._kernels.filter import filter_images
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import GpuOperator, allocate, fail, samples_of
from pipeline._operator_api.operator import OutputSpec, SampleOperator
from pipeline._operator_api.output_dtype import check_samples
from pipeline._operator_api.output_specs import describe, known_extents
from pipeline._operators.geometry.resize_launches import frames
from pipeline.errors import ArgumentValueError, PipelineError
from pipeline.tensors.cpu import Array
from pipeline.types import FLOAT, FLOAT16, INT8, INT16, UINT8, UINT16, to_numpy_type

__all__ = ["EXPERIMENTAL_FILTER", "FILTER"]

_LAYOUTS = ("HW", "HWC", "CHW", "FHW", "FHWC", "FCHW")
_DTYPES = (UINT8, INT8, UINT16, INT16, FLOAT16, FLOAT)


def _declare(name: str, doc: str) -> OperatorSchema:
    return register(
        OperatorSchema(
            name=name,
            doc=doc,
            inputs=(
                Input("data", f"Images or sequences, of one of the layouts {', '.join(_LAYOUTS)}."),
                Input("filter", "Windows: float32 of (rows, columns), or one a frame.", any_device=True),
                Input("fill_value", "What stands outside where the border is constant: scalars.", True, True),
            ),
            arguments=(
                Argument(
                    "anchor",
                    Kind.INTS,
                    "Row and column of the window that lie on the output's pixel; -1 for the middle.",
                    (-1,),
                    per_sample=True,
                ),
                Argument(
                    "border",
                    Kind.STRING,
                    "What stands outside of the image.",
                    "reflect_101",
                    choices=tuple(border.name.lower() for border in Border),
                ),
                Argument(
                    "mode",
                    Kind.STRING,
                    '"valid" keeps where the window lies inside.',
                    "same",
                    choices=("same", "valid"),
                ),
                Argument("dtype", Kind.DTYPE, "Dtype of the output: FLOAT, or None for the input's."),
            ),
            devices=("cpu", "gpu"),
        )
    )


FILTER = _declare(
    "filter",
    "Correlates images with windows, in float32; the windows are not flipped, as a convolution would do.",
)
EXPERIMENTAL_FILTER = _declare("experimental.filter", "Old name of `filter`.")


@dataclass(frozen=True)
class _Filtering:
    """What a batch is filtered with.

    Attributes:
        outer: dimensions before the pictures.
        anchors: (batch, 2), -1 for the middle.
        border: what stands outside.
        valid: whether the window must lie inside.
    """

    outer: int
    anchors: Array
    border: Border
    valid: bool

    @classmethod
    def of(cls, batch: Batch, node: GraphNode, layout: str, ndim: int | None) -> _Filtering:
        layout = layout or {2: "HW", None: "HWC", 3: "HWC"}.get(ndim, "")
        if layout not in _LAYOUTS:
            named = f"the layout {layout!r}" if layout else f"samples of {ndim} dimensions without a layout"
            raise ArgumentValueError(f"{named} can't be filtered; it must be one of {', '.join(_LAYOUTS)}")
        anchors = batch.arguments(node).vectors("anchor", 2, np.int64)
        assert anchors is not None
        border = Border[str(node.argument("border")).upper()]
        return cls(layout.index("H"), anchors, border, node.argument("mode") == "valid")

    def anchor(self, sample: int, window: Array) -> tuple[int, int]:
        """Return row and column of a window that lie on the output's pixel."""
        rows, columns = window.shape
        if self.valid:
            return 0, 0
        row, column = self.anchors[sample].tolist()
        row, column = (rows // 2 if row == -1 else row), (columns // 2 if column == -1 else column)
        if not (0 <= row < rows and 0 <= column < columns):
            raise ArgumentValueError(f"argument 'anchor' ({row}, {column}) is outside of the window of {window.shape}")
        return row, column

    def shape(self, shape: Sequence[int], window: Array) -> tuple[int, ...]:
        """Return the shape of a sample's output."""
        if not self.valid:
            return tuple(shape)
        sizes = [extent - reach + 1 for extent, reach in zip(shape[self.outer :], window.shape[-2:], strict=False)]
        if min(sizes) < 1:
            raise ArgumentValueError(f"the window of {window.shape[-2:]} doesn't fit into the sample of {tuple(shape)}")
        return (*shape[: self.outer], *sizes, *shape[self.outer + 2 :])

    def windows(self, given: Array, shape: Sequence[int]) -> list[Array]:
        """Return a window for each picture of a sample."""
        count = math.prod(shape[: self.outer])
        if given.dtype != np.float32:
            raise ArgumentValueError(f"windows must be float32, not {given.dtype}")
        if given.ndim == 2:
            return [given] * count
        if given.ndim != 3 or not self.outer or len(given) != shape[0]:
            raise ArgumentValueError(f"windows of shape {given.shape} don't fit a sample of {tuple(shape)}")
        return [window for window in given for _ in range(count // len(given))]

    def fills(self, given: Array | None, shape: Sequence[int]) -> list[float]:
        """Return what stands outside, for each picture of a sample."""
        count = math.prod(shape[: self.outer])
        if given is None:
            return [0.0] * count
        values = np.ravel(given).astype(np.float64).tolist()
        if len(values) != 1 and (not self.outer or len(values) != shape[0]):
            raise ArgumentValueError(f"{len(values)} fill values don't fit a sample of {tuple(shape)}")
        return [value for value in values for _ in range(count // len(values))]


def _dtype(node: GraphNode, source: np.dtype[Any]) -> np.dtype[Any]:
    check_samples(source, _DTYPES)
    wanted = node.argument("dtype")
    if wanted is None:
        return source
    if wanted != FLOAT and to_numpy_type(wanted) != source:
        raise ArgumentValueError(f"argument 'dtype' must be FLOAT or the input's dtype, {source}, not {wanted!r}")
    return to_numpy_type(wanted)


@implements(FILTER, "cpu")
@implements(EXPERIMENTAL_FILTER, "cpu")
class FilterCpu(SampleOperator[_Filtering]):
    """A picture at a time."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_Filtering, Sequence[OutputSpec]]:
        data = inputs[0]
        known = known_extents(batch, self.node, inputs)
        filtering = _Filtering.of(batch, self.node, data.layout, None if known is None else len(known))
        dtype = None if data.dtype is None else _dtype(self.node, data.dtype)
        if filtering.valid and known is not None:
            known = tuple(
                None if filtering.outer <= axis < filtering.outer + 2 else extent for axis, extent in enumerate(known)
            )
        return filtering, [describe(data.layout, known, dtype)]

    def run(self, state: _Filtering, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        data, window = inputs[0], inputs[1]
        windows = state.windows(window, data.shape)
        fills = state.fills(inputs[2] if len(inputs) > 2 else None, data.shape)
        if out is None:
            out = np.empty(state.shape(data.shape, window), _dtype(self.node, data.dtype))
        if not data.size:
            return out
        for number, index in enumerate(np.ndindex(*data.shape[: state.outer])):
            picture, target = data[index], out[index]
            if picture.ndim == 2:
                picture, target = picture[:, :, None], target[:, :, None]
            anchor = state.anchor(sample, windows[number])
            filter2d(picture, windows[number], anchor, target, state.border, fills[number])
        return out


@implements(FILTER, "gpu")
@implements(EXPERIMENTAL_FILTER, "gpu")
class FilterGpu(GpuOperator):
    """One launch a batch. Windows that are on the GPU are waited for."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = self.contiguous(inputs[0], batch.stream)
        source = samples_of(data)
        dtype = _dtype(self.node, source.dtype)
        filtering = _Filtering.of(batch, self.node, data.layout(), data.ndim)
        given, filled = (_on_host(value, batch) for value in (*inputs[1:], None)[:2])
        windows: list[Array] = []
        anchors: list[tuple[int, int]] = []
        fills: list[float] = []
        shapes = source.shapes.copy()
        failures: list[tuple[int, PipelineError]] = []
        for sample, shape in enumerate(source.shapes.tolist()):
            try:
                own = filtering.windows(given[sample], shape)
                shapes[sample] = filtering.shape(shape, given[sample])
                anchors += [filtering.anchor(sample, window) for window in own]
                fills += filtering.fills(filled[sample] if filled else None, shape)
                windows += own
            except PipelineError as error:
                failures.append((sample, error))
        fail(failures)
        made, target = allocate(shapes, dtype, data.layout())
        pictures, _ = frames(source, filtering.outer)
        targets, _ = frames(target, filtering.outer)
        if len(pictures):
            filter_images(
                self.kernels,
                batch.stream,
                pictures,
                targets,
                windows=windows,
                anchors=np.array(anchors, np.int64),
                border=filtering.border,
                fills=fills,
            )
        return [made]


def _on_host(data: Any, batch: Batch) -> Sequence[Array]:
    if data is None:
        return ()
    return [sample.get(stream=batch.stream) if hasattr(sample, "get") else sample for sample in data.samples]
