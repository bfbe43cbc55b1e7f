"""Places cropping windows at random positions around regions of interest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.batch import ArgumentCache, Batch
from dali_proxy.pipeline._operator_api.gpu_operator import fail
from dali_proxy.pipeline._operator_api.operator import BatchOperator, Setup
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

ROI_RANDOM_CROP = declare_operator(
    name="roi_random_crop",
    random=True,
    draws=("anchor",),
    doc="""Draws the position of a window of a given shape that contains as much as possible of a region.

A region smaller than the window lies inside of it; otherwise the window lies inside of the region. With an input or
`in_shape`, the window also lies inside of the data. The output is the first element of the window, INT64, with an index
for each axis of `crop_shape`.""",
    inputs=(Input("data", "Samples that will be cropped, of which only the shape is read.", optional=True),),
    arguments=(
        Argument("crop_shape", Kind.INTS, "Extents of the window.", REQUIRED, per_sample=True),
        Argument("roi_start", Kind.INTS, "First element of the region.", REQUIRED, per_sample=True),
        Argument("roi_end", Kind.INTS, "End of the region.", None, per_sample=True),
        Argument("roi_shape", Kind.INTS, "Extents of the region; instead of `roi_end`.", None, per_sample=True),
        Argument("in_shape", Kind.INTS, "Extents of the data; can't be used together with an input.", None, True),
    ),
)


@implements(ROI_RANDOM_CROP, "cpu")
class RoiRandomCrop(BatchOperator):
    """Draws the positions of all windows together."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        names = {*node.arguments, *node.argument_inputs}
        if ("roi_end" in names) == ("roi_shape" in names):
            raise ArgumentValueError("Either ROI end or ROI shape should be defined, but not both")
        if "in_shape" in names and node.inputs:
            raise ArgumentValueError("``in_shape`` argument is incompatible with providing an input.")

        self._ranges = ArgumentCache(node, self._read_ranges)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        low, counts = self._ranges.get(batch) if not inputs else self._read_ranges(batch, inputs)
        numbers = batch.random_numbers(self.node).uniform(low.shape)
        return [TensorListCPU(low + np.floor(numbers * counts).astype(np.int64))]

    def _read_ranges(self, batch: Batch, inputs: Sequence[Any] = ()) -> tuple[Array, Array]:
        """Return the lowest first element of each window, and the number of choices, both (N, axes)."""
        arguments = batch.arguments(self.node)
        crop = arguments.vectors("crop_shape", None, np.int64)
        axes = crop.shape[1]
        start = arguments.vectors("roi_start", axes, np.int64)
        end = arguments.optional(arguments.vectors, "roi_end", axes, np.int64)
        if end is None:
            end = start + arguments.vectors("roi_shape", axes, np.int64)
        low, high = np.minimum(start, end - crop), np.maximum(start, end - crop)
        limits = self._limits(arguments, inputs, axes)
        failures: list[tuple[int, PipelineError]] = []
        if limits is not None:
            wrong = ((limits < 0) | (crop > limits) | (start < 0) | (end > limits)).any(axis=1)
            for sample in np.flatnonzero(wrong).tolist():
                error = _misfit(*(each[sample].tolist() for each in (limits, crop, start, end)))
                failures.append((sample, ArgumentValueError(error)))
            low, high = np.maximum(low, 0), np.minimum(high, limits - crop)
        negative = np.flatnonzero((crop < 0).any(axis=1)).tolist()
        message = "Crop shape can't be negative: {}"
        failures += [(sample, ArgumentValueError(message.format(crop[sample].tolist()))) for sample in negative]
        fail(failures)
        return low, high - low + 1

    def _limits(self, arguments: Arguments, inputs: Sequence[Any], axes: int) -> Array | None:
        """Return the extents of the data of each sample, (N, axes), or None if they aren't known."""
        if not inputs:
            return arguments.optional(arguments.vectors, "in_shape", axes, np.int64)
        shapes = inputs[0].shape()
        if inputs[0].ndim < axes:
            raise ArgumentValueError(f"argument 'crop_shape' has {axes} values for samples of {inputs[0].ndim} axes")
        return np.array([shape[:axes] for shape in shapes], np.int64)


def _misfit(shape: list[int], crop: list[int], start: list[int], end: list[int]) -> str:
    """Return what is wrong with a window or a region of data of some shape; empty if they fit."""
    if min(shape) < 0:
        return f"Input shape can't be negative. Got {shape}"
    if any(map(int.__gt__, crop, shape)):
        return f"Cropping shape can't be bigger than the input shape. Got a window of {crop} for data of {shape}"
    if min(start) < 0 or any(map(int.__gt__, end, shape)):
        return f"ROI can't be out of bounds. Got a region from {start} to {end} for data of {shape}"
    return ""
