"""`sequence_rearrange`: the frames of sequences in a different order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._bulk.gather import copy_ranges
from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import Edge, GraphNode
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.strided_copy import plan_strided_copy
from dali_proxy.pipeline._operator_api.arguments import map_once
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate, each_sample, samples_of
from dali_proxy.pipeline._operator_api.operator import BatchOperator
from dali_proxy.pipeline._operator_api.traits import Traits
from dali_proxy.pipeline._operators.geometry.resize_launches import frames
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

SEQUENCE_REARRANGE = declare_operator(
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


def _orders(node: GraphNode, batch: Batch, layout: str, ndim: int | None) -> Sequence[Array]:
    """Return the order of each sample; the same array for all samples if the argument is constant."""
    if layout[:1] not in ("", "F") or (ndim is not None and ndim < 2):
        raise ArgumentValueError(
            "Expected sequence as the input, where outermost dimension represents frames dimension `F`, got data with "
            f'layout = "{layout}"; the number of dimensions is {ndim}'
        )
    values = batch.arguments(node).arrays("new_order", np.int64)
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


def _pick(source: Samples, orders: Sequence[Array]) -> tuple[Samples, Int64s]:
    """Return the selected frames of all samples, and the shapes of the results.

    Raises:
        OperatorError: an order is wrong.
    """
    counts, sizes = source.shapes[:, 0], np.array([order.size for order in orders])
    numbers = np.concatenate(orders, axis=None)
    regular = 0 not in sizes and all(order.ndim == 1 for order in orders)
    if not regular or numbers.min() < 0 or (numbers >= np.repeat(counts, sizes)).any():
        each_sample(_check, orders, counts.tolist(), range(len(orders)))
    shapes = source.shapes.copy()
    shapes[:, 0] = sizes
    images, _ = frames(source, 1)
    chosen = numbers + np.repeat(np.cumsum(counts) - counts, sizes)
    return Samples(images.pointers[chosen], images.shapes[chosen], images.strides[chosen], images.dtype), shapes


@implements(SEQUENCE_REARRANGE, "cpu")
class SequenceRearrangeCpu(BatchOperator):
    """Copies the frames of all samples."""

    traits = Traits(any_thread=True)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        orders = _orders(self.node, batch, data.layout(), data.ndim)
        if not data.table().is_contiguous():
            data = TensorListCPU([np.ascontiguousarray(sample) for sample in data.samples], data.layout())
        images, shapes = _pick(data.table(), orders)
        target, nbytes = Samples.packed(0, shapes, images.dtype, alignment=1)
        buffer, owner = batch.allocate(Edge(self.node.index), (nbytes,), np.dtype(np.uint8))
        sizes = images.sizes
        copy_ranges(buffer, images.pointers, sizes, np.cumsum(sizes) - sizes, batch.pool)
        if (shapes == shapes[0]).all():
            output = TensorListCPU(buffer.view(images.dtype).reshape(len(shapes), *shapes[0]), data.layout())
        else:
            packed = replace(target, pointers=buffer.ctypes.data + target.pointers)
            output = TensorListCPU.from_table(packed, [buffer], layout=data.layout())
        output.owner = owner
        return [output]


@implements(SEQUENCE_REARRANGE, "gpu")
class SequenceRearrangeGpu(GpuOperator):
    """One launch per batch, which copies each frame."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        images, shapes = _pick(samples_of(data), _orders(self.node, batch, data.layout(), data.ndim))
        output, target = allocate(shapes, images.dtype, data.layout())
        targets, _ = frames(target, 1)
        self.launch(plan_strided_copy(images, targets), batch)
        return [output]
