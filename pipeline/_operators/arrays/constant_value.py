"""Constants of a graph: every sample of every batch is the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import REQUIRED, Argument, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.operator import BatchOperator, Setup
from pipeline.tensors.cpu import Array, TensorListCPU
from pipeline.tensors.gpu import TensorListGPU

CONSTANT = register(
    OperatorSchema(
        name="constant_value",
        doc="A constant: every sample of every batch is the same array.",
        arguments=(
            Argument("value", Kind.OBJECT, "The array.", REQUIRED),
            Argument("layout", Kind.LAYOUT, "Layout of the array."),
        ),
        devices=("cpu", "gpu"),
        hidden=True,
    )
)


@implements(CONSTANT, "cpu")
class ConstantCpu(BatchOperator):
    """One array, seen as many times as the batch has samples: the argument "value", unless it is given."""

    def __init__(self, node: GraphNode, setup: Setup, value: Array | None = None) -> None:
        super().__init__(node, setup)
        self._value: Array = node.argument("value") if value is None else value

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        seen = np.broadcast_to(self._value, (batch.size, *self._value.shape))
        return [TensorListCPU(seen, self.node.argument("layout") or "")]


@implements(CONSTANT, "gpu")
class ConstantGpu(BatchOperator):
    """One array on the GPU, uploaded once, seen as many times as the batch has samples."""

    def __init__(self, node: GraphNode, setup: Setup, value: Array | None = None) -> None:
        super().__init__(node, setup)
        import cupy

        with cupy.cuda.Device(setup.device_id):
            self._value = cupy.asarray(node.argument("value") if value is None else value)
            cupy.cuda.get_current_stream().synchronize()  # once, when the pipeline is built

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        return [TensorListGPU([self._value] * batch.size, self.node.argument("layout") or "")]
