"""`constant`: the same sample in every batch, from numbers."""

from __future__ import annotations

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import convert
from dali_proxy.pipeline._operator_api.operator import Setup
from dali_proxy.pipeline._operators.arrays.constant_value import ConstantValueCpu, ConstantValueGpu
from dali_proxy.pipeline._operators.arrays.filled_samples import LAYOUT, check_layout
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array
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


def _value(node: GraphNode) -> Array:
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
class ConstantCpu(ConstantValueCpu):
    """One array, repeated for all samples of the batch without a copy."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup, _value(node))


@implements(CONSTANT, "gpu")
class ConstantGpu(ConstantValueGpu):
    """One array on the GPU, uploaded once."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup, _value(node))
