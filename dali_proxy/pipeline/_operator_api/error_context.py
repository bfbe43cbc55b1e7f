"""Errors of operators: the operator that failed, the user's line, the sample."""

from __future__ import annotations

from types import TracebackType

from dali_proxy.pipeline._concurrency.interrupts import is_interrupt
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._graph.reasons import raised_at, said_by
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline.errors import OperatorError, PipelineError, SampleFailure


class error_context:  # used like a function: `with error_context(node, batch):`
    """Adds the operator to errors of a block in which it processes a batch, or the batch of a branch.

    Failures are reported by their positions in the full batch.
    """

    __slots__ = ("_batch", "_node")

    def __init__(self, node: GraphNode, batch: Batch) -> None:
        self._node = node
        self._batch = batch

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            raise_described(self._node, self._batch, error)


def raise_described(node: GraphNode, batch: Batch, error: BaseException) -> None:
    """Raise the error of an operator that failed while it processed a batch, unless it is an interrupt."""
    if isinstance(error, OperatorError):
        failures = batch.in_full_batch(error.failures)
        source = batch.full_batch.source_of(node, failures)
        raise describe_failure(node, error, failures, source) from (error.__cause__ or error)
    if not is_interrupt(error):
        raise describe_failure(node, error) from error


def describe_failure(
    node: GraphNode, error: BaseException, failures: tuple[SampleFailure, ...] = (), source: str = ""
) -> OperatorError:
    """Return the error of a failed operator: what happened, in which operator, at which line, for which sample."""
    ours = isinstance(error, PipelineError)
    reason, raised = (str(error), "") if ours else (said_by(error), raised_at(error))
    where = f" for sample {failures[0].sample}" if failures else ""
    where += f" ({source})" if source else ""
    others = len(failures) - 1
    more = f" (and {others} more sample{'s' * (others > 1)} of this batch)" if others > 0 else ""
    at = f"\n  at {node.location}" if node.location.line else ""
    return OperatorError.type_for(error)(
        f"{node.display} failed{where}: {reason}{more}{raised}{at}",
        operator=node.display,
        location=str(node.location),
        failures=failures,
    )
