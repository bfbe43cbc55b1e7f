"""Rows of tables are computed when they are read: tabulated operators don't need them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from dali_proxy.pipeline._compiler.rules.scope import Scope, replaced
from dali_proxy.pipeline._compiler.rules.tabulated_operators import is_tabulated
from dali_proxy.pipeline._compiler.steps.step import FusedStep, OperatorStep, Step
from dali_proxy.pipeline._graph.graph import Edge, GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.branch_batches import take_samples
from dali_proxy.pipeline._operator_api.error_context import error_context
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._operators.arrays.table_row import TableRow


class PostponedRows(FusedStep):
    """Computes rows of a table only if something reads them."""

    title = "rows of a table"

    def __init__(self, step: OperatorStep) -> None:
        super().__init__([step])
        self._step = step

    def run_as_one(self, batch: Batch) -> bool:
        step, (source,) = self._step, self._step.node.inputs
        if source not in batch.outputs:  # no sample takes its branch
            return True
        index: Any = batch.outputs[source]

        def compute() -> TensorList | None:
            branch = step.batch_of(batch)
            if branch is None:
                return None
            chosen = branch.indices_in(source)
            with error_context(step.node, branch):
                (rows,) = step.operator.run(branch, [index if chosen is None else take_samples(index, chosen)])
            return rows  # type: ignore[no-any-return]

        batch.outputs.postpone_rows(Edge(step.node.index), source, index, compute)
        return True


def postpone_rows(steps: list[Step], scope: Scope) -> list[Step]:
    """Postpone the rows that nothing but tabulated operators reads."""
    rows = [step for step in steps if isinstance(step, OperatorStep) and isinstance(step.operator, TableRow)]
    if not rows or scope.kernels is None:
        return steps
    readers: dict[int, list[GraphNode]] = defaultdict(list)
    for node in scope.graph.nodes:
        for edge in node.sources:
            readers[edge.node].append(node)
    outputs = {edge.node for edge in scope.graph.outputs}
    unread = [
        step
        for step in rows
        if step.node.index not in outputs
        and all(is_tabulated(scope.operators[node.index], scope) for node in readers[step.node.index])
    ]
    if len(unread) < len(rows):
        scope.note(PostponedRows, "the rows are returned, or read by operators without tables of arguments")
    return replaced(steps, scope, [PostponedRows(step) for step in unread])
