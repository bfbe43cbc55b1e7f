"""Checks what operators return: their memory becomes the user's data, so that a slip must not go unseen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pipeline._graph.graph import GraphNode
from pipeline._operator_api.operator import OutputSpec
from pipeline._operator_api.request import TensorList
from pipeline.errors import PipelineError
from pipeline.tensors.cpu import Array, TensorListCPU
from pipeline.tensors.gpu import TensorListGPU

__all__ = ["check_count", "check_sample", "made_batches"]


def check_count(node: GraphNode, made: Any, what: str) -> None:
    """Check that an operator gave one thing for each of its outputs.

    Args:
        node: the operator.
        made: what it gave.
        what: how errors call it, such as "start() described".

    Raises:
        PipelineError: it gave another number of things.
    """
    count = len(made) if hasattr(made, "__len__") else None
    if count != node.output_count:
        found = type(made).__name__ if count is None else f"{count} outputs"
        raise PipelineError(f"the operator's {what} {found}, it has {node.output_count}")


def made_batches(node: GraphNode, made: Any, size: int) -> list[TensorList]:
    """Return what a `BatchOperator` made.

    Raises:
        PipelineError: it isn't a batch of that size for each output.
    """
    batches: Any = list(made) if isinstance(made, Iterable) else made
    check_count(node, batches, "run() returned")
    for number, batch in enumerate(batches):
        if not isinstance(batch, TensorListCPU | TensorListGPU):
            raise PipelineError(f"the operator's run() returned {type(batch).__name__} as output {number}, not a batch")
        if len(batch) != size:
            raise PipelineError(
                f"the operator's run() returned {len(batch)} samples as output {number}, the batch has {size}"
            )
    checked: list[TensorList] = batches
    return checked


def check_sample(made: Any, spec: OutputSpec) -> Array:
    """Return a sample that a `SampleOperator` made.

    Raises:
        PipelineError: it isn't an array of the shape and dtype that `start` described.
    """
    if isinstance(made, np.generic):
        made = np.asarray(made)
    if not isinstance(made, np.ndarray):
        raise PipelineError(f"the operator's run() returned {type(made).__name__}, not an array of NumPy")
    if spec.dtype is not None and made.dtype != spec.dtype:
        raise PipelineError(f"the operator's run() returned {made.dtype}, its start() described {spec.dtype}")
    if spec.shape is not None and made.shape != tuple(spec.shape):
        raise PipelineError(f"the operator's run() returned the shape {made.shape}, its start() described {spec.shape}")
    return made
