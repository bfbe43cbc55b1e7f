"""The description of a pipeline: the nodes that users create, and the frozen graph."""

from dali_proxy.pipeline._graph.graph import Edge, Graph, GraphNode
from dali_proxy.pipeline._graph.indexing import newaxis
from dali_proxy.pipeline._graph.location import SourceLocation
from dali_proxy.pipeline._graph.nodes import DataNode, OperatorCall, apply_operator, as_node

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
