"""`sequence_rearrange`: the frames of sequences in a different order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import REQUIRED, Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._kernels import Samples, strided_copy
from pipeline._operator_api.arguments import map_once
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import GpuOperator, allocate, fail, samples_of
from pipeline._operator_api.operator import OutputSpec, SampleOperator
from pipeline._operator_api.output_specs import describe, known_extents
from pipeline.errors import ArgumentValueError, PipelineError
from pipeline.tensors.cpu import Array

__all__ = ["SEQUENCE_REARRANGE"]

SEQUENCE_REARRANGE = register(
    OperatorSchema(
        name="sequence_rearrange",
        doc="Selects frames of sequences, in any order: frame `i` of the output is frame `new_order[i]` of the input.",
        inputs=(Input("data", 'Sequences, whose layout is empty or begins with "F".'),),
        arguments=(
            Argument(
                "new_order",
                Kind.INTS,
                "Numbers of the frames, from 0. They may be repeated or omitted.",
                REQUIRED,
                per_sample=True,
            ),
        ),
        devices=("cpu", "gpu"),
    )
)


def _orders(node: GraphNode, batch: Batch, layout: str, ndim: int | None) -> list[Array]:
    """Return the order of each sample."""
    if layout[:1] not in ("", "F") or (ndim is not None and ndim < 2):
        raise ArgumentValueError(
            "Expected sequence as the input, where outermost dimension represents frames dimension `F`, got data with "
            f'layout = "{layout}"; the number of dimensions is {ndim}'
        )
    values = batch.arguments(node).arrays("new_order", np.int64)
    assert values is not None
    return map_once(np.atleast_1d, values)


def _check(order: Array, count: int, sample: int) -> None:
    if order.ndim != 1:
        raise ArgumentValueError(f"`new_order`: Input with dimension {order.ndim} cannot be converted to dimension 1")
    if not len(order):
        raise ArgumentValueError(
            f"Empty result sequences are not allowed. Empty `new_order` for sample {sample} is not allowed"
        )
    (wrong,) = np.nonzero((order < 0) | (order >= count))
    if len(wrong):
        raise ArgumentValueError(
            f"new_order[{wrong[0]}] must be between 0 and input_sequence_length = {count} for sample {sample}, but it "
            f"is: {order[wrong[0]]}"
        )


@implements(SEQUENCE_REARRANGE, "cpu")
class SequenceRearrangeCpu(SampleOperator[list[Array]]):
    """Copies the frames."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[list[Array], Sequence[OutputSpec]]:
        (data,) = inputs
        known = known_extents(batch, self.node, inputs)
        orders = _orders(self.node, batch, data.layout, None if known is None else len(known))
        lengths = {order.size for order in orders}
        extents = None if known is None else (lengths.pop() if len(lengths) == 1 else None, *known[1:])
        return orders, [describe(data.layout, extents, data.dtype)]

    def run(self, state: list[Array], sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        order = state[sample]
        _check(order, len(data), sample)
        return np.take(data, order, axis=0, out=out, mode="clip")


@implements(SEQUENCE_REARRANGE, "gpu")
class SequenceRearrangeGpu(GpuOperator):
    """One launch per batch, which copies each frame."""

    only_launches = True

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        source = samples_of(data)
        orders = _orders(self.node, batch, data.layout(), data.ndim)
        sizes = np.array([order.size for order in orders])
        owners = np.repeat(np.arange(len(orders)), sizes)
        chosen = np.concatenate([order.ravel() for order in orders])
        wrong = (chosen < 0) | (chosen >= source.shapes[owners, 0])
        if wrong.any() or not sizes.all() or any(order.ndim != 1 for order in orders):
            self._fail(orders, source.shapes[:, 0].tolist())
        shapes = source.shapes.copy()
        shapes[:, 0] = sizes
        output, target = allocate(shapes, source.dtype, data.layout())
        numbers = np.arange(len(owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        picked, written = _frames(source, owners, chosen), _frames(target, owners, numbers)
        strided_copy(self.kernels, batch.stream, picked, written)
        return [output]

    @staticmethod
    def _fail(orders: Sequence[Array], counts: Sequence[int]) -> None:
        """Raise the error of orders of which at least one is wrong."""
        failures: list[tuple[int, PipelineError]] = []
        for sample, (order, count) in enumerate(zip(orders, counts, strict=True)):
            try:
                _check(order, count, sample)
            except PipelineError as error:
                failures.append((sample, error))
        fail(failures)


def _frames(samples: Samples, owners: Array, numbers: Array) -> Samples:
    """Return frames, given the samples that they belong to and their numbers there."""
    pointers = samples.pointers[owners] + numbers * samples.strides[owners, 0]
    return Samples(pointers, samples.shapes[owners, 1:], samples.strides[owners, 1:], samples.dtype)
