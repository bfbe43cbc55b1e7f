"""`SourceGroup`: all sources of a pipeline, and the processes that run its functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dali_proxy.pipeline._concurrency.interrupts import is_interrupt
from dali_proxy.pipeline._declaration.schema import Role
from dali_proxy.pipeline._definition.arguments import PipelineArguments
from dali_proxy.pipeline._definition.server_process import in_server_process
from dali_proxy.pipeline._external_source.data import check_batch
from dali_proxy.pipeline._external_source.device import take_over
from dali_proxy.pipeline._external_source.parallel.functions import FunctionPool
from dali_proxy.pipeline._external_source.parallel.pool import WorkerPool
from dali_proxy.pipeline._external_source.parallel.source import ParallelSource
from dali_proxy.pipeline._external_source.source import SerialSource, Source, SourceSeeds
from dali_proxy.pipeline._external_source.spec import SourceSpec
from dali_proxy.pipeline._graph.graph import Graph, GraphNode
from dali_proxy.pipeline._graph.location import warn_caller
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._rng import BatchKey
from dali_proxy.pipeline._user_functions.call import function_nodes
from dali_proxy.pipeline.errors import InputError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU


@dataclass(frozen=True)
class _Member:
    """A source, and the operators that receive its outputs (only operators that the graph needs)."""

    spec: SourceSpec
    source: Source
    nodes: Sequence[GraphNode]


class SourceGroup:
    """The sources of a graph, and its worker processes for sources and functions of the user; `close` ends them.

    Raises:
        WorkerError: the workers could not be started.
    """

    def __init__(self, graph: Graph, arguments: PipelineArguments) -> None:
        self._max_batch_size = max_batch_size = arguments.batch_size
        self._seed = arguments.drawn_seed
        num_workers, start_method, pickler = arguments.py_num_workers, arguments.py_start_method, arguments.pickler
        self._pool: WorkerPool | None = None
        by_spec: dict[SourceSpec, list[GraphNode]] = {}
        for node in graph.find(Role.EXTERNAL_SOURCE):
            source = node.argument("source")
            if source is not None:
                by_spec.setdefault(source.spec, []).append(node)
        parallel = [spec for spec in by_spec if spec.parallel and num_workers > 0]
        if parallel:
            sent = parallel
            if pickler is not None:
                sent = [replace(spec, source=pickler.pickled(spec.source)) for spec in parallel]
            self._pool = WorkerPool(sent, max_batch_size, num_workers, start_method)
        self._members = [
            _Member(spec, self._create(spec, parallel, nodes[0]), nodes) for spec, nodes in by_spec.items()
        ]
        self.functions: FunctionPool | None = None
        try:
            self.functions = _start_functions(graph, arguments)
        except BaseException:
            self.close()
            raise

    def _create(self, spec: SourceSpec, parallel: Sequence[SourceSpec], node: GraphNode) -> Source:
        # Elsewhere, sources share the generators with the user's script, which may have seeded them.
        seeded = spec.numbered and (spec.parallel or in_server_process())
        seeds = SourceSeeds(self._seed if seeded else None, node.random_stream)
        if spec not in parallel:
            return SerialSource(spec, node, self._max_batch_size, seeds)
        assert self._pool is not None
        return ParallelSource(spec, node, self._pool, parallel.index(spec), seeds)

    def __len__(self) -> int:
        return len(self._members)

    @property
    def shared_memory(self) -> tuple[Sequence[int], int]:
        """Sizes of the workers' segments of shared memory, and how many samples of a batch a worker reads at most."""
        if self._pool is None:
            return (), 1
        return self._pool.segment_sizes, max(1, -(-self._max_batch_size // len(self._pool.pids)))

    def next_batch(
        self, key: BatchKey, batch_size: int, copy: Callable[[TensorListCPU, GraphNode], TensorListCPU]
    ) -> dict[str, TensorList]:
        """Return the next batch of every source, by the names of the operators.

        Reads all sources, even if one of them fails, so that they stay in step.

        Raises:
            EndOfData: a source has no more data in this epoch.
            PipelineError: a source failed, or its data doesn't match the operator's declaration.
            BaseException: a signal interrupted a source.
        """
        batches: dict[str, TensorList] = {}
        failure: BaseException | None = None
        for member in self._members:
            try:
                batches.update(self._read(member, key, batch_size, copy))
            except BaseException as error:  # noqa: BLE001 - raised below, after the other sources were read
                if failure is None or is_interrupt(error):
                    failure = error
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # its traceback references this frame: a cycle
        return batches

    def _read(
        self,
        member: _Member,
        key: BatchKey,
        batch_size: int,
        copy: Callable[[TensorListCPU, GraphNode], TensorListCPU],
    ) -> dict[str, TensorList]:
        outputs = member.source.next_batch(key, batch_size)
        batches = {}
        for node in member.nodes:
            try:
                batch = check_batch(outputs[node.argument("source").output], node, self._max_batch_size)
            except InputError as error:
                raise InputError(f"{error}\n  in source {member.spec.display}\n  at {node.location}") from None
            if not isinstance(member.source, ParallelSource):
                batch = take_over(batch, node, copy)
            batches[node.name] = batch
        return batches

    def positions(self, epoch: int) -> dict[str, int]:
        """Return each iterable source's position in its pass, in an epoch, by operator: for a checkpoint."""
        return {each.nodes[0].name: each.source.position(epoch) for each in self._members if each.spec.iterable}

    def warn_about_checkpoints(self) -> None:
        """Warn about each source whose state a checkpoint can't contain. DALI's warning begins with the same words."""
        for member in self._members:
            if member.spec.numbered:
                continue
            node = member.nodes[0]
            resumed = (
                "After a checkpoint, it is read again up to its position, so it must return the same items"
                if member.spec.iterable
                else "After a checkpoint, it starts from its beginning"
            )
            warn_caller(
                f"DALI doesn't capture state of such 'source'. {resumed}: {member.spec.display} of {node.display}. A "
                "source that takes a SampleInfo, a BatchInfo or the number of the iteration continues exactly"
                + (f"\n  at {node.location}" if node.location.line else "")
            )

    def skip(self, positions: Mapping[str, int], epoch: int) -> None:
        """Resume at positions that `positions` returned, in an epoch."""
        for member in self._members:
            if member.spec.iterable:
                member.source.skip(positions.get(member.nodes[0].name, 0), epoch)

    def close(self) -> None:
        """End the worker processes."""
        for pool in (self._pool, self.functions):
            if pool is not None:
                pool.close()


def _start_functions(graph: Graph, arguments: PipelineArguments) -> FunctionPool | None:
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
