"""Replaces integers by values from a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import convert
from dali_proxy.pipeline._kernels.lookup import plan_look_up
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate, samples_of
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from dali_proxy.pipeline._operator_api.output_dtype import dtype_arguments, output_dtype
from dali_proxy.pipeline._operator_api.output_specs import describe, known_extents
from dali_proxy.pipeline._operator_api.traits import Traits
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import FLOAT

_LARGEST_KEY = 65535
#: Dtypes of tables that OpenCV supports.
_OPENCV = {np.dtype(name) for name in ("uint8", "int8", "uint16", "int16", "int32", "float32", "float64")}

LOOKUP_TABLE = declare_operator(
    name="lookup_table",
    doc="Replaces integers by values from a table.",
    inputs=(Input("data", "Integers, of any shape."),),
    arguments=(
        Argument("keys", Kind.INTS, "Integers from 0 to 65535; the last of repeated keys counts.", ()),
        Argument("values", Kind.FLOATS, "Values of the keys, one per key.", ()),
        Argument("default_value", Kind.FLOAT, "Value of all other integers.", 0.0),
        *dtype_arguments("Dtype of the output; values are rounded and clamped.", FLOAT)[:2],
    ),
    devices=("cpu", "gpu"),
)


def _build_table(node: GraphNode) -> Array:
    """Return the values for 0, 1, ..., followed by the default value."""
    keys, values = node.argument("keys"), node.argument("values")
    if len(keys) != len(values):
        raise ArgumentValueError(f"`keys` size should match `values` size, but there are {len(keys)} and {len(values)}")
    if keys and not (min(keys) >= 0 and max(keys) <= _LARGEST_KEY):
        raise ArgumentValueError(f"argument 'keys' must be from 0 to {_LARGEST_KEY}, not {min(keys)} to {max(keys)}")
    table = np.full(max(keys, default=-1) + 2, node.argument("default_value"), np.float32)
    for key, value in zip(keys, values, strict=True):
        table[key] = value
    dtype = output_dtype(node)
    assert dtype is not None
    return convert(table, dtype)


def _check(dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "iu":
        raise ArgumentValueError(f"the samples must be integers, not {dtype}: use fn.cast")


@implements(LOOKUP_TABLE, "cpu")
class LookupTableCpu(SampleOperator[None]):
    """Uses full tables, built once, for integers of 8 and 16 bits; wider integers take one more comparison."""

    traits = Traits(elementwise=True)

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._table = _build_table(node)
        #: By dtype of 8 or 16 bits: a value for each integer, in the order of the integers reinterpreted as unsigned.
        self._full_tables: dict[np.dtype[Any], Array] = {}

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[None, Sequence[OutputSpec]]:
        return None, [describe(inputs[0].layout, known_extents(batch, self.node, inputs), self._table.dtype)]

    def run(self, state: None, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        _check(data.dtype)
        if out is None:
            out = np.empty(data.shape, self._table.dtype)
        if data.dtype == np.uint8 and out.dtype in _OPENCV and data.size and data.flags.c_contiguous:
            cv2.LUT(data.reshape(1, -1), self._full_table(data.dtype), dst=out.reshape(1, -1))
        elif (
            data.dtype.itemsize == 4
        ):  # negative integers become large; the last value stands for all that are too large
            self._table.take(data.view(np.uint32), out=out, mode="clip")
        elif data.dtype.itemsize > 2:
            self._table.take(self._indices(data), out=out, mode="clip")
        else:
            unsigned = data.view(f"u{data.dtype.itemsize}")
            self._full_table(data.dtype).take(unsigned, out=out, mode="clip")
        return out

    def _full_table(self, dtype: np.dtype[Any]) -> Array:
        table = self._full_tables.get(dtype)
        if table is None:
            numbers = np.arange(1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}").view(dtype)
            table = self._full_tables[dtype] = self._table[self._indices(numbers)]
        return table

    def _indices(self, data: Array) -> Array:
        last = len(self._table) - 1
        return np.where((data >= 0) & (data < last), data.astype(np.intp), last)


@implements(LOOKUP_TABLE, "gpu")
class LookupTableGpu(GpuOperator):
    """One launch per batch."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._table = _build_table(node)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = self.contiguous(inputs[0], batch.stream)
        source = samples_of(data)
        _check(source.dtype)
        output, target = allocate(source.shapes, self._table.dtype, data.layout())
        self.launch(plan_look_up(source, target, self._table), batch)
        return [output]
