"""`permute_batch` and `batch_permutation`: samples in a different order, and random orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.branch_batches import take_samples
from dali_proxy.pipeline._operator_api.operator import BatchOperator
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

PERMUTE_BATCH = declare_operator(
    name="permute_batch",
    doc="Returns the samples of the batch in the order of indices, which may repeat and omit samples.",
    inputs=(Input("data", "Samples of any shape."),),
    arguments=(
        Argument(
            "indices",
            Kind.INTS,
            "Index of the sample at each position: a list as long as the batch, or one number per sample.",
            REQUIRED,
            per_sample=True,
        ),
    ),
    devices=("cpu", "gpu"),
    keeps_order=False,
)

BATCH_PERMUTATION = declare_operator(
    name="batch_permutation",
    random=True,
    draws=("index",),
    doc="Draws a random order of the batch: one number per sample, for the argument `indices` of `permute_batch`.",
    arguments=(
        Argument("allow_repetitions", Kind.BOOL, "Draw the numbers independently of each other.", False),
        Argument(
            "no_fixed_points", Kind.BOOL, "Move all samples to other positions, in batches of two or more.", False
        ),
    ),
    keeps_order=False,
)


def _indices(node: GraphNode, batch: Batch) -> Array:
    arguments = batch.arguments(node)
    rows = arguments.table("indices", np.int64)
    if not arguments.per_sample("indices"):
        indices = rows[0]
    else:
        indices = rows.reshape(-1) if isinstance(rows, np.ndarray) else np.concatenate(rows)
    if len(indices) != batch.size:
        raise ArgumentValueError(
            f"The number of sample indices {len(indices)} does not match the current batch size, which is {batch.size}"
        )
    wrong = (indices < 0) | (indices >= batch.size)
    if wrong.any():
        raise ArgumentValueError(
            f"Sample index out of range. {indices[wrong][0]} is not a valid index for an input batch of {batch.size} "
            "tensors."
        )
    return indices


@implements(PERMUTE_BATCH, "cpu")
class PermuteBatchCpu(BatchOperator):
    """Returns the samples of the input; small batches are copied."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        return [take_samples(inputs[0], _indices(self.node, batch))]


@implements(PERMUTE_BATCH, "gpu")
class PermuteBatchGpu(PixelOperator):
    """Returns the samples of the input."""

    traits = replace(PixelOperator.traits, elementwise=True, per_sample=False)

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        # In memory, the samples are views.
        return None if pixels.in_memory else pixels.take(_indices(self.node, batch))

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        """Return views of samples in memory, so that nothing is copied."""
        return [take_samples(inputs[0], _indices(self.node, batch))]


@implements(BATCH_PERMUTATION, "cpu")
class BatchPermutation(BatchOperator):
    """Draws orders. For orders without fixed points, it repeats the draw: about every third order has none."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        generator, count = batch.generator(self.node), batch.size
        moved = self.node.argument("no_fixed_points") and count > 1
        drawn: Int64s
        if self.node.argument("allow_repetitions"):
            drawn = generator.integers(0, count - 1 if moved else count, count)
            drawn += moved & (drawn >= np.arange(count))  # all numbers except the sample's own, with equal probability
        else:
            drawn = generator.permutation(count)
            while moved and (drawn == np.arange(count)).any():
                drawn = generator.permutation(count)
        return [TensorListCPU(drawn.astype(np.int32))]
