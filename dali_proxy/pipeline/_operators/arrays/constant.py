"""Constants of a graph: all samples of all batches are the same array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Kind, Role, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import convert
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._operator_api.batch import ArgumentCache, Batch
from dali_proxy.pipeline._operator_api.operator import BatchOperator, Setup
from dali_proxy.pipeline._operators.arrays.filled_samples import LAYOUT, check_layout
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU
from dali_proxy.pipeline.types import FLOAT, INT32, to_numpy_type

CONSTANT = declare_operator(
    name="constant",
    doc="Returns the same sample in every batch. A plain number or array can be used instead, as any input.",
    arguments=(
        Argument("fdata", Kind.FLOATS, "Values: one for all elements, or one for each."),
        Argument("idata", Kind.INTS, "Integer values, instead of `fdata`."),
        Argument("shape", Kind.INTS, "Shape of the samples; 1-D by default."),
        Argument("dtype", Kind.DTYPE, "Dtype of the samples; by default FLOAT for `fdata`, INT32 for `idata`."),
        LAYOUT,
    ),
    devices=("cpu", "gpu"),
)

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


def _value(node: GraphNode) -> Array:
    if node.operator == CONSTANT_VALUE.name:
        return node.argument("value")
    reals, integers = node.argument("fdata"), node.argument("idata")
    if (reals is None) == (integers is None):
        raise ArgumentValueError("one of the arguments 'fdata' and 'idata' is required, but not both")
    values = np.array(reals, np.float32) if integers is None else np.array(integers, np.int64)
    dtype = node.argument("dtype")  # UINT8 is 0, so compare with None
    if dtype is None:
        dtype = FLOAT if integers is None else INT32
    values = convert(values, to_numpy_type(dtype))
    shape = values.shape if node.argument("shape") is None else tuple(node.argument("shape"))
    check_layout(node.argument("layout") or "", len(shape))
    if values.size not in (1, np.prod(shape, dtype=np.int64)) or any(extent < 0 for extent in shape):
        raise ArgumentValueError(f"{values.size} values can't fill the shape {shape}")
    return np.full(shape, values[0]) if values.size == 1 else values.reshape(shape)


@implements(CONSTANT, "cpu")
@implements(CONSTANT_VALUE, "cpu")
class ConstantCpu(BatchOperator):
    """One array, repeated for all samples without a copy."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        array = _value(node)
        self._repeated = ArgumentCache(node, lambda batch: np.broadcast_to(array, (batch.size, *array.shape)))

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        return [TensorListCPU(self._repeated.get(batch), self.node.argument("layout") or "")]


@implements(CONSTANT, "gpu")
@implements(CONSTANT_VALUE, "gpu")
class ConstantGpu(BatchOperator):
    """One array on the GPU, uploaded once and repeated for all samples without a copy."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        import cupy

        with cupy.cuda.Device(setup.device_id):
            self._value = cupy.asarray(_value(node))
            cupy.cuda.get_current_stream().synchronize()  # once, when the pipeline is built
        only = Samples.from_arrays([self._value])
        self._repeated = ArgumentCache(node, lambda batch: only.take(np.zeros(batch.size, np.int64)))

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        layout = self.node.argument("layout") or ""
        return [TensorListGPU.from_table(self._repeated.get(batch), self._value, int(self._value.device.id), layout)]
