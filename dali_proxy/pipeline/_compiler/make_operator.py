"""Create the implementation of a node."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from dali_proxy.pipeline._cuda.errors import cuda_call
from dali_proxy.pipeline._declaration.registry import implementation
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.operator import Setup
from dali_proxy.pipeline.errors import BuildError, GraphError, PipelineError


def make_operator(node: GraphNode, setup: Setup) -> Any:
    """Create the implementation of a node. Errors name the operator and the user's line.

    Raises:
        BuildError: the operator can't be created here.
        GraphError: the operator doesn't fit the graph.
    """
    try:
        with nullcontext() if setup.kernels is None else cuda_call("creating the operator"):
            return implementation(node.operator, node.device)(node, setup)
    except PipelineError as error:
        kind = type(error) if isinstance(error, GraphError | BuildError) else BuildError
        at = f"\n  at {node.location}" if node.location.line else ""
        raise kind(f"{node.display}: {error}{at}") from error
