"""Constants of a graph: all samples of all batches are the same array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Kind, Role, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._operator_api.batch import ArgumentCache, Batch
from dali_proxy.pipeline._operator_api.operator import BatchOperator, Setup
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

CONSTANT_VALUE = declare_operator(
    name="constant_value",
    role=Role.CONSTANT,
    doc="Returns the same array for every sample of every batch.",
    arguments=(
        Argument("value", Kind.OBJECT, "The array.", REQUIRED),
        Argument("layout", Kind.LAYOUT, "Layout of the array."),
    ),
    devices=("cpu", "gpu"),
    hidden=True,
)


@implements(CONSTANT_VALUE, "cpu")
class ConstantValueCpu(BatchOperator):
    """One array, repeated for all samples without a copy: the argument `value`, unless the caller passes another."""

    def __init__(self, node: GraphNode, setup: Setup, value: Array | None = None) -> None:
        super().__init__(node, setup)
        array: Array = node.argument("value") if value is None else value
        self._repeated = ArgumentCache(node, lambda batch: np.broadcast_to(array, (batch.size, *array.shape)))

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        return [TensorListCPU(self._repeated.get(batch), self.node.argument("layout") or "")]


@implements(CONSTANT_VALUE, "gpu")
class ConstantValueGpu(BatchOperator):
    """One array on the GPU, uploaded once and repeated for all samples without a copy."""

    def __init__(self, node: GraphNode, setup: Setup, value: Array | None = None) -> None:
        super().__init__(node, setup)
        import cupy

        with cupy.cuda.Device(setup.device_id):
            self._value = cupy.asarray(node.argument("value") if value is None else value)
            cupy.cuda.get_current_stream().synchronize()  # once, when the pipeline is built
        only = Samples.from_arrays([self._value])
        self._repeated = ArgumentCache(node, lambda batch: only.take(np.zeros(batch.size, np.int64)))

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        layout = self.node.argument("layout") or ""
        return [TensorListGPU.from_table(self._repeated.get(batch), self._value, int(self._value.device.id), layout)]
