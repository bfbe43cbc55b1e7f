"""Compute functions of rows of constant tables once, for all rows, instead of for the chosen rows of each batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import numpy as np

from dali_proxy.pipeline._compiler.make_operator import make_operator
from dali_proxy.pipeline._declaration.schema import Role
from dali_proxy.pipeline._graph.graph import Edge, Graph, GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import Setup
from dali_proxy.pipeline._operator_api.request import BatchRequest
from dali_proxy.pipeline._operators.arrays.table_row import TABLE_ROW
from dali_proxy.pipeline.errors import PipelineError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU

_LARGEST = 1 << 16  # in bytes


def folded_tables(graph: Graph) -> Graph:
    """Return a graph with the same outputs, in which functions of rows of a table are rows of another table."""
    nodes = list(graph.nodes)
    for node in graph.nodes:
        if node.device == "cpu" and node.schema.role in (Role.ARITHMETIC, Role.TRANSFORM):
            nodes[node.index] = _folded(node, nodes, graph)
    changed = any(node is not other for node, other in zip(nodes, graph.nodes, strict=True))
    return Graph(tuple(nodes), graph.outputs) if changed else graph


def _folded(node: GraphNode, nodes: list[GraphNode], graph: Graph) -> GraphNode:
    """Return the operator that replaces a node: the node itself if it isn't a function of rows of one table."""
    edges = (*node.inputs, *node.argument_inputs.values())
    sources = {edge: nodes[edge.node] for edge in edges}
    tables = {edge: source for edge, source in sources.items() if source.schema.role is Role.TABLE_ROW}
    others = {edge: source for edge, source in sources.items() if edge not in tables}
    index = {(source.inputs, source.branch, len(source.argument("table"))) for source in tables.values()}
    if len(index) != 1 or any(source.schema.role is not Role.CONSTANT or source.branch for source in others.values()):
        return node
    ((inputs, branch, rows),) = index
    if branch != node.branch or sum(source.argument("table").nbytes for source in tables.values()) > _LARGEST:
        return node
    values = {
        edge: TensorListCPU(source.argument("table"), source.argument("layout")) for edge, source in tables.items()
    }
    for edge, source in others.items():
        constant = source.argument("value")
        values[edge] = TensorListCPU(
            np.broadcast_to(constant, (rows, *constant.shape)), source.argument("layout") or ""
        )
    try:
        result = _computed(node, graph, rows, values)
    except PipelineError:  # which only some rows cause
        return node
    if result.dense is None:
        return node
    arguments = {"table": result.dense, "layout": result.layout()}
    return replace(node, operator=TABLE_ROW.name, inputs=inputs, arguments=arguments, argument_inputs={})


def _computed(node: GraphNode, graph: Graph, rows: int, values: Mapping[Edge, TensorListCPU]) -> TensorListCPU:
    batch = Batch.without_executor(BatchRequest(rows), values)
    operator = make_operator(node, Setup(rows, 1, None, 0))
    (result,) = operator.run(batch, [values[edge] for edge in node.inputs])
    return cast("TensorListCPU", result)
