"""Filters images with arbitrary windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging.filter2d import BORDERS, Border, filter2d
from dali_proxy.pipeline._kernels.filter import plan_filter_images
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate, fail, samples_of
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_dtype import check_samples, own_or_float
from dali_proxy.pipeline._operator_api.output_specs import describe, known_extents
from dali_proxy.pipeline._operator_api.upload import upload
from dali_proxy.pipeline._operators.geometry.resize_launches import frames
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.tensors.gpu import TensorListGPU
from dali_proxy.pipeline.types import FLOAT, FLOAT16, INT8, INT16, UINT8, UINT16

_LAYOUTS = ("HW", "HWC", "CHW", "FHW", "FHWC", "FCHW")
_DTYPES = (UINT8, INT8, UINT16, INT16, FLOAT16, FLOAT)


FILTER = declare_operator(
    name="filter",
    doc="Correlates images with windows, in float32. Unlike in a convolution, the windows aren't flipped.",
    inputs=(
        Input("data", f"Images or sequences, of one of the layouts {', '.join(_LAYOUTS)}."),
        Input("filter", "Windows: float32 of shape (rows, columns), or one per frame.", any_device=True),
        Input("fill_value", "Values outside of the image for a constant border: scalars.", True, True),
    ),
    arguments=(
        Argument(
            "anchor",
            Kind.INTS,
            "Row and column of the window that are aligned with the output's pixel; -1 for the middle.",
            (-1,),
            per_sample=True,
        ),
        Argument(
            "border",
            Kind.STRING,
            "Values outside of the image.",
            "reflect_101",
            choices=tuple(BORDERS),
            unknown="Unknown ``border_type`` was provided: ``{}``.",
        ),
        Argument(
            "mode",
            Kind.STRING,
            '"same" keeps the size; "valid" computes only pixels whose window lies inside of the image.',
            "same",
            choices=("same", "valid"),
            unknown="Unknown ``mode`` was provided: ``{}``.",
        ),
        Argument("dtype", Kind.DTYPE, "Dtype of the output: FLOAT, or None for the input's."),
    ),
    devices=("cpu", "gpu"),
)


@dataclass(frozen=True)
class _FilterSettings:
    """Settings of a batch.

    Attributes:
        outer: number of dimensions before the images.
        anchors: anchors of the windows, (batch, 2); -1 for the middle.
        border: values outside of the image.
        valid: whether the window must lie inside of the image.
    """

    outer: int
    anchors: Array
    border: Border
    valid: bool

    @classmethod
    def from_batch(cls, batch: Batch, node: GraphNode, layout: str, ndim: int | None) -> _FilterSettings:
        layout = layout or {2: "HW", None: "HWC", 3: "HWC"}.get(ndim, "")
        if layout not in _LAYOUTS:
            name = f"the layout {layout!r}" if layout else f"{ndim} dimensions without a layout"
            raise ArgumentValueError(
                f"can't filter samples with {name}; the layout must be one of {', '.join(_LAYOUTS)}"
            )
        anchors = batch.arguments(node).vectors("anchor", 2, np.int64)
        border = BORDERS[node.argument("border")]
        return cls(layout.index("H"), anchors, border, node.argument("mode") == "valid")

    def anchor(self, sample: int, size: Sequence[int]) -> tuple[int, int]:
        """Return row and column of a window of a size that are aligned with the output's pixel."""
        rows, columns = size
        if self.valid:
            return 0, 0
        row, column = self.anchors[sample].tolist()
        row, column = (rows // 2 if row == -1 else row), (columns // 2 if column == -1 else column)
        if not (0 <= row < rows and 0 <= column < columns):
            raise ArgumentValueError(
                f"argument 'anchor' ({row}, {column}) is outside of the window of shape {tuple(size)}"
            )
        return row, column

    def shape(self, shape: Sequence[int], size: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of a sample's output, for a window of a size."""
        if not self.valid:
            return tuple(shape)
        sizes = [extent - length + 1 for extent, length in zip(shape[self.outer :], size, strict=False)]
        if min(sizes) < 1:
            raise ArgumentValueError(
                f"the window of shape {tuple(size)} doesn't fit into the sample of shape {tuple(shape)}"
            )
        return (*shape[: self.outer], *sizes, *shape[self.outer + 2 :])

    def place_all(self, shapes: Array, sizes: Array) -> tuple[Array, Array]:
        """Return `anchor` of all samples, (N, 2), and `shape`, (N, ndim), for windows of `sizes`, (N, 2).

        Raises:
            OperatorError: a window doesn't fit its sample, or an anchor its window.
        """
        results = shapes.copy()
        if self.valid:
            anchors = np.zeros_like(sizes)
            results[:, self.outer : self.outer + 2] -= sizes - 1
            bad = (results[:, self.outer : self.outer + 2] < 1).any(axis=1)
        else:
            anchors = np.where(self.anchors == -1, sizes // 2, self.anchors)
            bad = ((anchors < 0) | (anchors >= sizes)).any(axis=1)
        failures: list[tuple[int, PipelineError]] = []
        for sample in np.flatnonzero(bad).tolist():
            try:
                self.anchor(sample, sizes[sample].tolist())
                self.shape(shapes[sample].tolist(), sizes[sample].tolist())
            except PipelineError as error:
                failures.append((sample, error))
        fail(failures)
        return anchors, results

    def windows(self, windows: Array, shape: Sequence[int]) -> list[Array]:
        """Return a window for each image of a sample; the second input has one window, or one for each frame."""
        count = math.prod(shape[: self.outer])
        if windows.dtype != np.float32:
            raise ArgumentValueError(f"windows must be float32, not {windows.dtype}")
        if windows.ndim == 2:
            return [windows] * count
        if windows.ndim != 3 or not self.outer or len(windows) != shape[0]:
            raise _unfit(windows.shape, shape)
        return [window for window in windows for _ in range(count // len(windows))]

    def fills(self, fill: Array | None, shape: Sequence[int]) -> list[float]:
        """Return the value outside of each image of a sample."""
        count = math.prod(shape[: self.outer])
        if fill is None:
            return [0.0] * count
        values = np.ravel(fill).astype(np.float64).tolist()
        if len(values) != 1 and (not self.outer or len(values) != shape[0]):
            raise ArgumentValueError(f"{len(values)} fill values don't fit a sample of shape {tuple(shape)}")
        return [value for value in values for _ in range(count // len(values))]


def _unfit(windows: Sequence[int], shape: Sequence[int]) -> ArgumentValueError:
    return ArgumentValueError(f"windows of shape {tuple(windows)} don't fit a sample of shape {tuple(shape)}")


def _dtype(node: GraphNode, source: np.dtype[Any]) -> np.dtype[Any]:
    check_samples(source, _DTYPES)
    return own_or_float(node, source)


@implements(FILTER, "cpu")
class FilterCpu(SampleOperator[_FilterSettings]):
    """Filters one image at a time."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_FilterSettings, Sequence[OutputSpec]]:
        data = inputs[0]
        known = known_extents(batch, self.node, inputs)
        settings = _FilterSettings.from_batch(batch, self.node, data.layout, None if known is None else len(known))
        dtype = None if data.dtype is None else _dtype(self.node, data.dtype)
        if settings.valid and known is not None:
            known = tuple(
                None if settings.outer <= axis < settings.outer + 2 else extent for axis, extent in enumerate(known)
            )
        return settings, [describe(data.layout, known, dtype)]

    def run(self, state: _FilterSettings, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        data, window = inputs[0], inputs[1]
        windows = state.windows(window, data.shape)
        fills = state.fills(inputs[2] if len(inputs) > 2 else None, data.shape)
        if out is None:
            out = np.empty(state.shape(data.shape, window.shape[-2:]), _dtype(self.node, data.dtype))
        if not data.size:
            return out
        for number, index in enumerate(np.ndindex(*data.shape[: state.outer])):
            image, target = data[index], out[index]
            if image.ndim == 2:
                image, target = image[:, :, None], target[:, :, None]
            anchor = state.anchor(sample, windows[number].shape)
            filter2d(image, windows[number], anchor, target, state.border, fills[number])
        return out


@implements(FILTER, "gpu")
class FilterGpu(GpuOperator):
    """One launch per batch. Waits for fill values on the GPU."""

    traits = replace(GpuOperator.traits, per_sample=True)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = self.contiguous(inputs[0], batch.stream)
        source = samples_of(data)
        dtype = _dtype(self.node, source.dtype)
        settings = _FilterSettings.from_batch(batch, self.node, data.layout(), data.ndim)
        images, owners = frames(source, settings.outer)
        windows = self._windows(batch, inputs[1], source, settings.outer)
        anchors, shapes = settings.place_all(source.shapes, samples_of(inputs[1]).shapes[:, -2:])
        fills: list[float] = []
        if len(inputs) > 2:
            values, extents = self.on_host(inputs[2], batch), source.shapes.tolist()
            fills = [
                fill for value, shape in zip(values, extents, strict=True) for fill in settings.fills(value, shape)
            ]
        output, target = allocate(shapes, dtype, data.layout())
        targets, _ = frames(target, settings.outer)
        if len(images):
            options: dict[str, Any] = {"anchors": anchors[owners], "border": settings.border, "fills": fills or 0.0}
            self.launch(plan_filter_images(images, targets, windows=windows, **options), batch)
        return [output]

    def _windows(self, batch: Batch, data: Any, source: Samples, outer: int) -> Samples:
        """Return a window on the GPU for each image."""
        held = self.contiguous(data if isinstance(data, TensorListGPU) else upload(batch, data), batch.stream)
        batch.keep_alive.append(held)
        windows = samples_of(held)
        if windows.dtype != np.float32:
            raise ArgumentValueError(f"windows must be float32, not {windows.dtype}")
        counts = np.prod(source.shapes[:, :outer], axis=1, dtype=np.int64)
        if windows.ndim == 2:
            return windows.take(np.repeat(np.arange(len(windows)), counts))
        by_frame = windows.ndim == 3 and outer > 0
        unfit = windows.shapes[:, 0] != source.shapes[:, 0] if by_frame else np.ones(len(windows), bool)
        pairs = zip(windows.shapes.tolist(), source.shapes.tolist(), unfit.tolist(), strict=True)
        fail([(sample, _unfit(size, shape)) for sample, (size, shape, is_unfit) in enumerate(pairs) if is_unfit])
        each, owners = frames(windows, 1)
        images = np.repeat(np.arange(len(each)), counts[owners] // windows.shapes[owners, 0])
        return Samples(each.pointers, each.shapes[:, :2], each.strides[:, :2], each.dtype).take(images)
