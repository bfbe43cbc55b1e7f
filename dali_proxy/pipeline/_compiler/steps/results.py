"""Check the results of operators: their memory becomes the user's data, so an error must not stay undetected."""

from __future__ import annotations

from typing import Any

import numpy as np

from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.operator import OutputSpec
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline.errors import PipelineError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

_BATCHES = (TensorListCPU, TensorListGPU)


def check_count(node: GraphNode, returned: Any, what: str) -> None:
    """Check that an operator returned one item for each of its outputs.

    Args:
        node: the operator.
        returned: the returned items.
        what: source of the items for error messages, such as "start() described".

    Raises:
        PipelineError: the number of items is wrong.
    """
    count = len(returned) if hasattr(returned, "__len__") else None
    if count != node.output_count:
        found = type(returned).__name__ if count is None else f"{count} outputs"
        raise PipelineError(f"the operator's {what} {found}, but it has {node.output_count}")


def check_batches(node: GraphNode, returned: Any, size: int) -> list[TensorList]:
    """Check and return the results of a `BatchOperator`.

    Raises:
        PipelineError: the results aren't one batch of that size for each output.
    """
    batches: Any = list(returned) if hasattr(returned, "__iter__") else returned
    if not isinstance(batches, list) or len(batches) != node.output_count:
        check_count(node, batches, "run() returned")
    for number, batch in enumerate(batches):
        if not isinstance(batch, _BATCHES):
            raise PipelineError(f"the operator's run() returned {type(batch).__name__} as output {number}, not a batch")
        if len(batch) != size:
            raise PipelineError(
                f"the operator's run() returned {len(batch)} samples as output {number}, but the batch has {size}"
            )
    checked: list[TensorList] = batches
    return checked


def check_sample(returned: Any, spec: OutputSpec) -> Array:
    """Check and return a sample that a `SampleOperator` computed.

    Raises:
        PipelineError: the sample isn't an array of the shape and dtype that `start` described.
    """
    if isinstance(returned, np.generic):
        returned = np.asarray(returned)
    if not isinstance(returned, np.ndarray):
        raise PipelineError(f"the operator's run() returned {type(returned).__name__}, not a NumPy array")
    if spec.dtype is not None and returned.dtype != spec.dtype:
        raise PipelineError(f"the operator's run() returned {returned.dtype}, but its start() described {spec.dtype}")
    if spec.shape is not None and returned.shape != tuple(spec.shape):
        raise PipelineError(
            f"the operator's run() returned the shape {returned.shape}, but its start() described {spec.shape}"
        )
    return returned
