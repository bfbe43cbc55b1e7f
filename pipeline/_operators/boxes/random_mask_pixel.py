"""`segmentation.random_mask_pixel`: random pixels of masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from pipeline.errors import ArgumentValueError, PipelineError
from pipeline.tensors.cpu import Array

__all__ = ["RANDOM_MASK_PIXEL"]

RANDOM_MASK_PIXEL = register(
    OperatorSchema(
        name="segmentation.random_mask_pixel",
        random=True,
        doc="""Draws a pixel of a mask: one of the foreground, or any.

The output is the position of the pixel, INT64, with an index for each dimension of the mask. All pixels of the
foreground have the same probability; if there are none, all pixels of the mask.""",
        inputs=(Input("mask", "Masks of any shape."),),
        arguments=(
            Argument(
                "foreground", Kind.INT, "Nonzero draws from the foreground; 0 from all pixels.", 0, per_sample=True
            ),
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
        columns = [arguments.scalars(name) for name in ("foreground", "threshold", "value")]
        return (columns, batch.generator(self.node).random(batch.size)), [OutputSpec(dtype=np.dtype(np.int64))]

    def run(self, state: Any, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (mask,) = inputs
        (foreground, threshold, value), numbers = state
        if not mask.size:
            raise PipelineError(f"the mask of shape {mask.shape} has no pixels")
        number = float(numbers[sample])
        if foreground[sample]:
            inside = np.ravel(mask == value[sample] if value is not None else mask > threshold[sample])
            count = int(np.count_nonzero(inside))
            if count:
                chosen = np.flatnonzero(inside)[int(number * count)]
                return np.array(np.unravel_index(chosen, mask.shape), np.int64)
        return np.array(np.unravel_index(int(number * mask.size), mask.shape), np.int64)
