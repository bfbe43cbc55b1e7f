"""`DebugPipeline`: a pipeline whose operators run when the graph function calls them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._concurrency.finalizers import Finalizer
from dali_proxy.pipeline._definition.cpu_only import warn_of_move
from dali_proxy.pipeline._definition.debug_builder import DebugBuilder
from dali_proxy.pipeline._definition.pipeline import Pipeline
from dali_proxy.pipeline._external_source.data import own_copy, to_batch
from dali_proxy.pipeline._external_source.reader import EndOfData
from dali_proxy.pipeline._graph import DataNode
from dali_proxy.pipeline._operator_api.reader import ReaderMeta
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._operator_api.waiting import check_stream, waited_by
from dali_proxy.pipeline._ranks import current_ranks
from dali_proxy.pipeline._rng import BatchKey, global_batch
from dali_proxy.pipeline.errors import GraphError, PipelineError
from dali_proxy.pipeline.tensors.moved import as_on_gpu

Outputs = tuple[TensorList, ...]


class DebugPipeline(Pipeline):
    """Calls the graph function for every batch. `pipeline_def` creates it for ``debug=True``.

    The graph function can print and inspect the data of its nodes, and an operator that fails raises its error where
    it is called. The results are those of the same pipeline without ``debug=True``, unless the graph function calls
    operators with random numbers that no output needs. There is no graph: such a pipeline can't be serialized, drawn,
    checkpointed or used by a server.

    Args:
        function: the graph function without its arguments.
        named: the function as the user wrote it, for messages.
        conditional: whether the function was rewritten for `if` on data nodes.
        **arguments: arguments of `Pipeline`.
    """

    def __init__(
        self, function: Callable[[], Any], named: Callable[..., Any], conditional: bool, **arguments: Any
    ) -> None:
        super().__init__(**arguments)
        self._function = function
        self._named = named
        self._conditional = conditional
        self._ahead: deque[Outputs | BaseException] = deque()
        self._key = BatchKey()
        self._ended = False

    @cached_property
    def _builder(self) -> DebugBuilder:
        builder = DebugBuilder(self._internals.arguments, self._conditional, self._internals.on_cpu)
        self._finalizer = Finalizer(self, builder.close)
        return builder

    def define_graph(self) -> Any:
        """Raise a `GraphError`: there is no graph."""
        raise GraphError("a pipeline with debug=True has no graph: it calls the graph function for every batch")

    def build(self, define_graph: Callable[[], Any] | None = None) -> None:
        """Check the arguments. The operators are created by the first batch."""
        _ = self._builder

    def close(self) -> None:
        """End all threads. The pipeline can't run afterwards."""
        if "_builder" in vars(self):
            self._finalizer.run()

    def run(self, cuda_stream: Any = None, /, **inputs: Any) -> Outputs:
        """Call the graph function for one batch, and return its outputs. Has the arguments of `Pipeline.run`."""
        check_stream(cuda_stream)
        self._internals.use_api("BASIC")
        for name, data in inputs.items():
            self.feed_input(name, data)
        return waited_by(cuda_stream, self._take() if self._ahead else self._run_one())

    def schedule_run(self) -> None:
        """Call the graph function for one batch; take the outputs or its error with `share_outputs`."""
        self._internals.use_api("SCHEDULED")
        self._schedule()

    def share_outputs(self, cuda_stream: Any = None) -> Outputs:
        """Return the outputs of the oldest batch. Has the arguments and errors of `Pipeline.share_outputs`."""
        self._internals.use_api("SCHEDULED")
        if not self._ahead:
            raise StopIteration("no batch was scheduled: call schedule_run() or run() first")
        return waited_by(cuda_stream, self._take())

    def feed_input(
        self,
        data_node: DataNode | str,
        data: Any,
        layout: str | None = None,
        cuda_stream: Any = None,
        use_copy_kernel: bool = False,
    ) -> None:
        """Queue a batch for an `external_source`. Has the arguments of `Pipeline.feed_input`."""
        name = data_node if isinstance(data_node, str) else data_node.name
        batch = own_copy(to_batch(data, layout or None, f"input {name!r}"))
        self._builder.fed.setdefault(name, deque()).append(batch)

    def input_feed_count(self, name: str) -> int:
        """Return 1: batches don't overlap."""
        return 1

    def reset(self) -> None:
        """Begin the next epoch if the data has ended; otherwise do nothing."""
        if self._ended:
            self._ended = False
            self._key = BatchKey(self._key.epoch + 1)
            self._ahead.clear()

    def empty(self) -> bool:
        """Return whether no batch was scheduled."""
        return not self._ahead

    def checkpoint(self, *_: Any, **__: Any) -> bytes:
        """Raise a `PipelineError`: there are no checkpoints."""
        raise PipelineError("a pipeline with debug=True has no checkpoints")

    def _reader_metas(self) -> Mapping[str, ReaderMeta]:
        if not self._builder.kept:
            self._schedule()  # the first batch creates the readers
        return {name: meta for kept in self._builder.kept for name, meta in kept.executor.readers.metas.items()}

    def executor_statistics(self) -> dict[str, dict[str, list[int]]]:
        """Return an empty dict: debug mode records no sizes."""
        return {}

    def _schedule(self) -> None:
        try:
            self._ahead.append(self._run_one())
        except Exception as error:  # noqa: BLE001 - an error belongs to its batch
            self._ahead.append(error)

    def _take(self) -> Outputs:
        outputs = self._ahead.popleft()
        if isinstance(outputs, BaseException):
            raise outputs
        return outputs

    def _run_one(self) -> Outputs:
        if self._ended:
            raise StopIteration
        key = replace(self._key, global_batch=global_batch(current_ranks().rank, self._key.iteration))
        first = not self._builder.kept
        try:
            outputs = self._builder.run(self._function, self._named, key)
            if first and self._internals.on_cpu and self._builder.moved.report():
                device_id = self._internals.declared_arguments.device_id
                warn_of_move(self._builder.moved, self._named.__qualname__, device_id)
        except (EndOfData, StopIteration):
            self._ended = True
            raise StopIteration from None
        finally:
            self._key = BatchKey(key.epoch, key.iteration + 1)
        return as_on_gpu(outputs, self._builder.moved.outputs if self._internals.on_cpu else ())
