"""The description of a pipeline: the nodes that users create, and the frozen graph."""

from pipeline._graph.graph import Edge, Graph, GraphNode
from pipeline._graph.indexing import newaxis
from pipeline._graph.location import SourceLocation
from pipeline._graph.nodes import DataNode, OperatorCall, apply_operator, as_node

__all__ = [
    "DataNode",
    "Edge",
    "Graph",
    "GraphNode",
    "OperatorCall",
    "SourceLocation",
    "apply_operator",
    "as_node",
    "newaxis",
]
