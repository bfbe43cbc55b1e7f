"""Graphs of tests."""

from __future__ import annotations

from collections.abc import Sequence

from dali_proxy.pipeline._graph.graph import Graph
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline._graph.numbering import Numbering


def graph_of(outputs: Sequence[DataNode]) -> Graph:
    """Return the graph of the operators on which outputs depend."""
    return Graph.from_numbering(Numbering(outputs), outputs)
