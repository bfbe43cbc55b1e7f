"""Decides which functions of the user run in worker processes, and starts these."""

from __future__ import annotations

from dali_proxy.pipeline._definition.arguments import PipelineArguments
from dali_proxy.pipeline._definition.server_process import in_server_process
from dali_proxy.pipeline._external_source.parallel.functions import FunctionPool
from dali_proxy.pipeline._graph.graph import Graph, GraphNode
from dali_proxy.pipeline._user_functions.call import function_nodes


def start_functions(graph: Graph, arguments: PipelineArguments) -> FunctionPool | None:
    """Start worker processes for the functions of a graph; return None if all of them run in this process.

    Raises:
        WorkerError: the processes couldn't be started.
    """
    if arguments.py_num_workers == 0:
        return None
    workers = max(arguments.py_num_workers, arguments.num_threads)
    # The process of a server belongs to its pipeline. Elsewhere, functions may share objects with the user's script.
    automatic = in_server_process() and workers > 1 and arguments.py_start_method == "fork"
    nodes = [node for node in function_nodes(graph) if _may_run_in_processes(node, automatic)]
    if not nodes:
        return None
    return FunctionPool(nodes, arguments.batch_size, workers, arguments.py_start_method, arguments.pickler)


def _may_run_in_processes(node: GraphNode, automatic: bool) -> bool:
    wanted = node.argument("parallel")
    if node.device != "cpu" or not callable(node.argument("function")):
        return False
    if wanted is not None:
        return bool(wanted)
    # Functions without outputs have side effects, and functions of batches often keep a state between their calls.
    return automatic and int(node.argument("num_outputs")) > 0 and not node.argument("batch_processing")
