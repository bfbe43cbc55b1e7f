"""`segmentation.random_mask_pixel`: random pixels of masks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array

# Number of pixels from which a mask is divided in order to find one of them.
_FEW = 4096

RANDOM_MASK_PIXEL = declare_operator(
    name="segmentation.random_mask_pixel",
    random=True,
    draws=("pixel",),
    doc="""Draws a pixel of a mask: one of the foreground, or any.

The output is the position of the pixel, INT64, with an index for each dimension of the mask. All pixels of the
foreground have the same probability; if there are none, all pixels of the mask.""",
    inputs=(Input("mask", "Masks of any shape."),),
    arguments=(
        Argument("foreground", Kind.INT, "Nonzero draws from the foreground; 0 from all pixels.", 0, per_sample=True),
        Argument("threshold", Kind.FLOAT, "The foreground has values above it.", 0.0, per_sample=True),
        Argument(
            "value",
            Kind.INT,
            "The foreground has this value; can't be used together with `threshold`.",
            None,
            per_sample=True,
        ),
    ),
)


@implements(RANDOM_MASK_PIXEL, "cpu")
class RandomMaskPixel(SampleOperator[Any]):
    """Draws one number for each sample, and selects the pixel by it."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        names = {*node.arguments, *node.argument_inputs}
        if {"threshold", "value"} <= names:
            raise ArgumentValueError("Arguments ``value`` and ``threshold`` can not be provided together")

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[Any, Sequence[OutputSpec]]:
        arguments = batch.arguments(self.node)
        columns = [arguments.optional(arguments.scalars, name) for name in ("foreground", "threshold", "value")]
        return (columns, batch.random_numbers(self.node).uniform(batch.size)), [OutputSpec(dtype=np.dtype(np.int64))]

    def run(self, state: Any, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (mask,) = inputs
        (foreground, threshold, value), numbers = state
        if not mask.size:
            raise PipelineError(f"the mask of shape {mask.shape} has no pixels")
        number = float(numbers[sample])
        if foreground[sample]:
            inside = np.ravel(mask == value[sample] if value is not None else _exceeds(mask, float(threshold[sample])))
            count = int(np.count_nonzero(inside))
            if count:
                chosen = _find(inside, int(number * count))
                return np.array(np.unravel_index(chosen, mask.shape), np.int64)
        return np.array(np.unravel_index(int(number * mask.size), mask.shape), np.int64)


def _exceeds(mask: Array, threshold: float) -> Array:
    """Return ``mask > threshold``, without a conversion of integers to floats."""
    if mask.dtype.kind in "iu" and math.isfinite(threshold):
        limits = np.iinfo(mask.dtype)
        if limits.min <= math.floor(threshold) <= limits.max:
            return mask > mask.dtype.type(math.floor(threshold))
    return np.asarray(mask > np.float64(threshold))


def _find(mask: Array, number: int) -> int:
    """Return the position of a pixel of a mask: that of pixel 0, 1, ... of those that are True."""
    low, high = 0, len(mask)
    while high - low > _FEW:  # counting is faster than listing positions
        middle = (low + high) // 2
        count = int(np.count_nonzero(mask[low:middle]))
        if number < count:
            high = middle
        else:
            low, number = middle, number - count
    return low + int(np.flatnonzero(mask[low:high])[number])
