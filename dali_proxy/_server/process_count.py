"""The number of processes of a server that share its batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dali_proxy.pipeline._compiler.order_keeper import order_keeper
from dali_proxy.pipeline.errors import ArgumentMismatchError, ArgumentValueError

if TYPE_CHECKING:
    from dali_proxy.pipeline import Pipeline

_MOST = 64


def only_process(mode: str, in_cluster: bool, has_name: bool, placement: str) -> str:
    """Return the reason in a server's arguments for only one process; empty if there is none."""
    reasons = {
        'mode="thread" runs the pipeline in this process': mode == "thread",
        "a cluster has several servers already, see RayCluster": in_cluster,
        "a server with a name is one process, which jobs share": has_name,
        'placement="auto" measures one process: choose a placement': placement == "auto",
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def process_count(wanted: Any, pipeline: Pipeline, obstacle: str, ranks: int) -> tuple[int, str]:
    """Return the number of processes of a server, and the reason for one that "auto" has chosen.

    Args:
        wanted: a number, or "auto".
        pipeline: the pipeline, with its number of threads.
        obstacle: reason in the server's arguments for only one process; empty if there is none.
        ranks: number of ranks that use the server.

    Raises:
        ArgumentValueError: the argument is invalid.
        ArgumentMismatchError: the server can't have several processes.
    """
    if wanted != "auto" and not (isinstance(wanted, int) and 1 <= wanted <= _MOST):
        raise ArgumentValueError(f'DALIServer: num_processes must be 1 to {_MOST}, or "auto", not {wanted!r}')
    if wanted == 1:
        return 1, ""
    reason = obstacle or _obstacle(pipeline)
    if wanted != "auto":
        if reason:
            raise ArgumentMismatchError(f"DALIServer: num_processes={wanted} isn't possible: {reason}")
        return wanted, ""
    if reason or ranks == 1:
        return 1, reason or "one rank uses the server"
    count = min(ranks, pipeline.num_threads)
    return count, f"{ranks} ranks use the server" if count == ranks else f"num_threads={pipeline.num_threads}"


def _obstacle(pipeline: Pipeline) -> str:
    """Return the reason why only one process can run a pipeline; empty if several can."""
    keeper, arguments = order_keeper(pipeline._internals.graph), pipeline._internals.arguments
    if keeper is not None:
        return f"{keeper} depends on earlier batches, or on their order, which only one process knows"
    if arguments.cache:
        return "the cache of decoded samples is in one process"
    if arguments.set_affinity:
        return "set_affinity=True would bind the threads of all processes to the same cores"
    return ""
