"""`PipelineInternals`: everything that a pipeline consists of, from the description of its graph until it is closed."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Protocol

from dali_proxy.pipeline._cache.value_cache import ValueCache
from dali_proxy.pipeline._concurrency.finalizers import Finalizer
from dali_proxy.pipeline._declaration.schema import Role
from dali_proxy.pipeline._definition.arguments import PipelineArguments
from dali_proxy.pipeline._definition.checkpoint import Checkpoint
from dali_proxy.pipeline._definition.cpu_only import cpu_is_requested, warn_of_absent_gpu, warn_of_move
from dali_proxy.pipeline._definition.running import PipelineRunner
from dali_proxy.pipeline._definition.server_process import in_server_process
from dali_proxy.pipeline._definition.sources import SourceGroup
from dali_proxy.pipeline._executor.executor import Executor
from dali_proxy.pipeline._external_source.data import check_batch, to_batch
from dali_proxy.pipeline._external_source.device import take_over
from dali_proxy.pipeline._graph import DataNode, Graph, SourceLocation
from dali_proxy.pipeline._graph.builder import GraphBuilder
from dali_proxy.pipeline._graph.on_cpu import MovedGraph, move_to_cpu
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._operators.decoding.input_parts import split_video
from dali_proxy.pipeline.errors import ArgumentTypeError, GraphError, PipelineError
from dali_proxy.pipeline.tensors.moved import as_on_gpu


class Owner(Protocol):
    """The methods of a `Pipeline` that its internals call."""

    def build(self) -> None:
        """Build the pipeline."""

    def define_graph(self) -> Any:
        """Describe the graph."""

    def iter_setup(self) -> None:
        """Feed the inputs of the next batch."""


class PipelineInternals:
    """The state of a `Pipeline`, which keeps it in its only attribute: subclasses may use all other names.

    Args:
        pipeline: the pipeline.
        arguments: its arguments.
        checkpoint: position at which it resumes; None for the start.
        create: returns a pipeline that runs a graph, from the graph and arguments of `Pipeline`.

    Attributes:
        arguments: arguments with which the pipeline runs.
        declared_arguments: arguments that the user passed.
        on_cpu: whether the pipeline runs on the CPU, whatever the devices of its operators and its `device_id`.
        checkpoint: checkpoint from which the pipeline was created, or None.
        builder: builder of the graph.
        checks_api: whether mixing two ways to run batches raises an error.
        cache: has decoded samples. Another pipeline may have it, too, if it is set before the pipeline is built.
    """

    def __init__(
        self,
        pipeline: Owner,
        arguments: PipelineArguments,
        checkpoint: Checkpoint | None = None,
        *,
        create: Callable[[Graph, Mapping[str, Any]], Any],
    ) -> None:
        self.on_cpu = cpu_is_requested()
        self.declare(arguments)
        self.checkpoint = checkpoint
        self._create = create
        self.builder = GraphBuilder(owner=weakref.ref(pipeline))
        self.checks_api = True
        self.cache: ValueCache | None = None
        self._moved: MovedGraph | None = None
        self._checked_gpu = False
        self._api: str | None = None  # the first way of running batches that the user chose
        self._iterator_api = ""  # the way of an iterator while it calls the pipeline's methods
        self._pipeline = weakref.ref(pipeline)  # no cycle: a pipeline must end when its last reference is dropped
        self._sources: SourceGroup | None = None
        self._runner: PipelineRunner | None = None
        self._finalizer: Finalizer | None = None  # closes a pipeline that is dropped without close()

    def declare(self, arguments: PipelineArguments) -> None:
        """Set the arguments of the pipeline, which isn't built yet."""
        self.declared_arguments = arguments
        self.arguments = replace(arguments, device_id=None) if self.on_cpu else arguments

    def run_on_cpu(self) -> None:
        """Make the pipeline, which isn't built yet, run on the CPU."""
        self.on_cpu = True
        self.declare(self.declared_arguments)

    def with_graph(self, graph: Graph, **arguments: Any) -> Any:
        """Return a pipeline that runs another graph with the arguments and the seed of this one, not built yet."""
        return self._create(graph, {**self.fixed_arguments(), **arguments})

    def for_trial(self, batch_size: int) -> Any:
        """Return a copy of the pipeline that runs a few batches, one at a time and without a cache, not built yet."""
        threads = self.arguments.num_threads
        return self.with_graph(
            self.graph,
            batch_size=batch_size,
            num_threads=threads if threads > 0 else os.cpu_count() or 1,
            prefetch_queue_depth=1,
            enable_checkpointing=False,
            cache=0,
        )

    def fixed_arguments(self) -> dict[str, Any]:
        """Return the arguments of `Pipeline`, with the seed that was drawn."""
        return {**self.arguments.by_name, "seed": self.arguments.drawn_seed}

    @property
    def graph(self) -> Graph:
        """The graph that runs: the declared one, or the same on the CPU. Reading this ends the description.

        Raises:
            DeviceError: the pipeline runs on the CPU, but an operator exists only on the GPU.
        """
        declared = self.declared_graph
        if not self.on_cpu:
            return declared
        if self._moved is None:
            self._moved = move_to_cpu(declared)
            if self._moved.graph is not declared:
                warn_of_move(self._moved, self.builder.title, self.declared_arguments.device_id)
        return self._moved.graph

    def as_declared(self, outputs: Sequence[TensorList]) -> tuple[TensorList, ...]:
        """Return outputs with the interfaces of the devices that the user declared, even if they were moved."""
        return as_on_gpu(outputs, () if self._moved is None else self._moved.outputs)

    @property
    def declared_graph(self) -> Graph:
        """The frozen graph, as the user described it. Reading this ends the description."""
        if not self.builder.described:
            self.builder.describe(self._owner().define_graph)
        return self.builder.freeze()

    def describe(self, define_graph: Callable[[], Any], caller: str) -> None:
        """Describe the graph by a function.

        Raises:
            GraphError: the graph is already described; the message begins with `caller`.
        """
        if not callable(define_graph):
            raise ArgumentTypeError(f"define_graph must be callable, not {type(define_graph).__name__}")
        self.builder.refuse_described(caller)
        self.builder.describe(define_graph)

    @property
    def unused_inputs(self) -> Mapping[str, SourceLocation]:
        """The user's lines that declare inputs on which no output depends, by name. Ends the description."""
        _ = self.declared_graph  # decides which inputs it contains
        return self.builder.unused_inputs

    @property
    def checkpoint_notes(self) -> Mapping[str, int]:
        """The notes in the checkpoint; empty without a checkpoint."""
        return {} if self.checkpoint is None else self.checkpoint.notes

    @property
    def runner(self) -> PipelineRunner:
        """The runner. Reading this builds the pipeline."""
        if self._runner is None:
            self._owner().build()
        assert self._runner is not None
        return self._runner

    @property
    def device_id(self) -> int | None:
        """The GPU that the user chose, or else the one that the built pipeline uses; None if there is neither."""
        if self.arguments.device_id not in (None, -1):
            return self.arguments.device_id
        return None if self._runner is None else self._runner.executor.device_id

    @property
    def executor(self) -> Executor | None:
        """What runs the batches; None before the pipeline is built."""
        return None if self._runner is None else self._runner.executor

    @property
    def busy(self) -> bool:
        """Whether batches are in flight."""
        return self._runner is not None and self._runner.busy

    @property
    def summary(self) -> str:
        """The name, the inputs and the outputs in one line, as far as they are known."""
        return self.builder.summary(None if self._moved is None else self._moved.graph)

    @property
    def state(self) -> str:
        """Whether the pipeline is built or closed, in words."""
        if self._finalizer is not None and not self._finalizer.pending:
            return "closed"
        return "not built" if self._runner is None else "built"

    def shared_memory_statistics(self) -> dict[str, list[int]]:
        """Return the sizes of the shared memory of the workers; see `Pipeline.external_source_shm_statistics`."""
        sizes, samples = ((), 1) if self._sources is None else self._sources.shared_memory
        return {"capacities": list(sizes), "per_sample_capacities": [size // samples for size in sizes]}

    def start_workers(self) -> None:
        """Start the worker processes of parallel sources. Does nothing the second time."""
        if self._sources is not None:
            return
        arguments = self.arguments
        arguments.executor_config()  # reports missing arguments before anything starts
        self._sources = SourceGroup(self.graph, arguments)
        self._close_by(self._sources.close)

    def build(self, define_graph: Callable[[], Any] | None, default_setup: Callable[..., None]) -> None:
        """Start everything that runs batches. Does nothing the second time.

        Args:
            define_graph: describes the graph; None if it is described in another way.
            default_setup: the `iter_setup` that isn't called, because it does nothing.
        """
        if self._runner is not None:
            return
        if define_graph is not None:
            if self._sources is not None:
                raise GraphError("build(define_graph=...) is too late: start_py_workers() has already fixed the graph")
            self.describe(define_graph, "build(define_graph=...)")
        if not in_server_process():  # the server has warned already
            self.check_gpu()
        self.start_workers()
        assert self._sources is not None
        if self.arguments.enable_checkpointing:
            self._sources.warn_about_checkpoints()
        ends = ExitStack()
        try:
            setup = self._iter_setup(default_setup)
            if self.cache is None:
                self.cache = ValueCache.from_argument(self.arguments.cache)
                if self.cache is not None:
                    ends.callback(self.cache.close)
            runner = PipelineRunner(self.graph, self.arguments, self._sources, setup, self.cache)
            ends.callback(runner.close)
            self._close_by(ends.close)
            if self.checkpoint is not None:
                runner.restore(self.checkpoint.position)
        except BaseException:
            ends.close()
            self.close()
            self._sources = None
            raise
        self._runner = runner

    def check_gpu(self) -> None:
        """Warn once if the pipeline has a GPU that this machine hasn't, and doesn't use it."""
        if not self._checked_gpu and not self.graph.uses_gpu:
            warn_of_absent_gpu(self.arguments.device_id)
        self._checked_gpu = True

    def feed(
        self, data_node: DataNode | str, data: Any, layout: str | None, cuda_stream: Any, use_copy_kernel: bool
    ) -> None:
        """Queue a batch, or the batches of a video, for an input. Has the arguments of `Pipeline.feed_input`."""
        nodes = self.graph.fed_inputs
        name = self.builder.name_of(data_node)
        if name not in nodes:
            raise self.builder.unknown_input(name)
        node = nodes[name]
        batch = to_batch(data, layout or None, f"input {name!r}")
        inputs, size = self.runner.inputs, self.arguments.batch_size
        if node.schema.role is Role.EXTERNAL_SOURCE:
            batch, copy = check_batch(batch, node, size), self.runner.executor.copy_input
            inputs.feed(name, take_over(batch, node, copy, data, cuda_stream, use_copy_kernel))
        else:
            for chunk in split_video(batch, node, size, self.arguments.device_id):
                inputs.feed(name, chunk)

    def use_api(self, api: str) -> None:
        """Record which way of running batches the user chose: "BASIC", "SCHEDULED" or "ITERATOR".

        Raises:
            PipelineError: the user chose another one before: each would take batches that the other scheduled.
        """
        api = self._iterator_api or api
        if self.checks_api and self._api not in (None, api):
            raise PipelineError(
                f"Mixing pipeline API type. Currently used: PipelineAPIType.{self._api}, but trying to use "
                f"PipelineAPIType.{api}: run() can't be mixed with schedule_run(), share_outputs() and "
                "release_outputs() on one pipeline, nor with an iterator"
            )
        self._api = api

    @contextmanager
    def used_by_iterator(self) -> Iterator[None]:
        """Let calls of the pipeline's methods within a block be those of an iterator."""
        self._iterator_api = "ITERATOR"
        try:
            yield
        finally:
            self._iterator_api = ""

    def close(self) -> None:
        """End all threads and worker processes, and free the device."""
        if self._finalizer is not None:
            self._finalizer.run()

    def _iter_setup(self, default: Callable[..., None]) -> Callable[[], Any] | None:
        if getattr(self._owner().iter_setup, "__func__", None) is default:
            return None
        reference = self._pipeline  # the runner must not keep the pipeline alive

        def setup() -> None:
            pipeline = reference()
            if pipeline is not None:
                pipeline.iter_setup()

        return setup

    def _close_by(self, close: Callable[[], None]) -> None:
        if self._finalizer is not None:
            self._finalizer.cancel()
        self._finalizer = Finalizer(self, close)

    def _owner(self) -> Owner:
        pipeline = self._pipeline()
        assert pipeline is not None  # it owns this object
        return pipeline
