"""Splits a batch by a condition, and the functions of `fn._conditional` for graphs without `if`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dali_proxy.pipeline._declaration import Input, declare_operator, implements
from dali_proxy.pipeline._graph.branches import branch
from dali_proxy.pipeline._graph.conditions import truth
from dali_proxy.pipeline._graph.nodes import DataNode, apply_operator, as_node
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import BatchOperator

SPLIT = declare_operator(
    name="split",
    doc="Returns the samples of its branch. Operators that read them belong to this branch, too.",
    inputs=(Input("data", "Samples of any shape."),),
    devices=("cpu", "gpu"),
    hidden=True,
)


@implements(SPLIT, "cpu", "gpu")
class Split(BatchOperator):
    """Returns the samples that the executor selected for the branch, without a copy."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        return [data.with_layout(data.layout())]


def split(data: Any, *, predicate: Any) -> tuple[DataNode, DataNode]:
    """Split a batch into the samples for which a condition is true, and the other ones.

    Args:
        data: the batch.
        predicate: one number per sample, on the CPU.

    Returns:
        Two nodes. Operators that read them process these samples only; `merge` makes one batch of the results.
    """
    node, selector = as_node(data, "data"), _selector(predicate)
    true, false = (_part(node, selector, value) for value in (1, 0))
    return true, false


def merge(true_branch: Any, false_branch: Any, *, predicate: Any) -> DataNode:
    """Merge two batches that `split` returned, or results of operators on them.

    Args:
        true_branch: the samples for which the condition is true.
        false_branch: the other samples.
        predicate: the condition that was passed to `split`.
    """
    selector = _selector(predicate)
    nodes = []
    for value, each in enumerate((false_branch, true_branch)):
        with branch(selector, value):
            nodes.append(as_node(each, "an input of merge"))
    result = apply_operator("merge", nodes, {"selector": selector})
    assert isinstance(result, DataNode)
    return result


def not_(data: Any) -> DataNode:
    """Return whether each sample, one number, is zero."""
    return truth(data, "not")


def _part(node: DataNode, selector: DataNode, value: int) -> DataNode:
    with branch(selector, value):
        result = apply_operator("split", (node,), {})
    assert isinstance(result, DataNode)
    return result


def _selector(predicate: Any) -> DataNode:
    """Return the selector of a condition: one for all its uses, because branches are compared by their selectors."""
    node = as_node(predicate, "predicate")
    if node.selector is None:
        node.selector = truth(node)
    return node.selector
