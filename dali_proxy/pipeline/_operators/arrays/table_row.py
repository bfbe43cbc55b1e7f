"""Rows of a constant table, one for each sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, Role, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import BatchOperator, Setup
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

TABLE_ROW = declare_operator(
    name="table_row",
    role=Role.TABLE_ROW,
    doc="Returns a row of a table for each sample.",
    inputs=(Input("index", "Index of the row, an integer."),),
    arguments=(
        Argument("table", Kind.OBJECT, "The table.", REQUIRED),
        Argument("layout", Kind.LAYOUT, "Layout of a row.", ""),
    ),
    hidden=True,
)


@implements(TABLE_ROW, "cpu")
class TableRow(BatchOperator):
    """Indexes the table once per batch."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._table: Array = np.asarray(node.argument("table"))
        self._layout: str = node.argument("layout")

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        table = self._table
        array = inputs[0].small_array()
        if array is None:
            array = np.array([np.asarray(sample).item() for sample in inputs[0].samples])
        index = array.reshape(batch.size).astype(np.int64, copy=False)
        if index.min() < 0 or index.max() >= len(table):
            raise ArgumentValueError(f"the indices {index.tolist()} must be between 0 and {len(table) - 1}")
        return [TensorListCPU.from_dense(table[index], self._layout)]
