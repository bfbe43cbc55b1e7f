"""Readers of data sets as iterables."""

from __future__ import annotations

import json
import queue
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, ClassVar

from dali_proxy.pipeline._concurrency.finalizers import Finalizer
from dali_proxy.pipeline._declaration.names import class_name
from dali_proxy.pipeline._declaration.schema import OperatorSchema
from dali_proxy.pipeline._dynamic.arrays import Batch, Tensor
from dali_proxy.pipeline._dynamic.calling import prepare_arguments
from dali_proxy.pipeline._dynamic.context import EvalContext
from dali_proxy.pipeline._dynamic.randomness import get_default_rng
from dali_proxy.pipeline._dynamic.values import Value, evaluation_error
from dali_proxy.pipeline._executor.executor import Executor
from dali_proxy.pipeline._graph.current import no_builder
from dali_proxy.pipeline._graph.input_sets import call_operator
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline._graph.subgraph import Subgraph
from dali_proxy.pipeline._operator_api.reader import ReaderMeta, ReaderPosition
from dali_proxy.pipeline._operator_api.request import BatchRequest, BatchResult, ExecutorConfig, TensorList
from dali_proxy.pipeline._rng import BatchKey
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError, SerializationError
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

#: Number of batches that are read before they are needed.
_AHEAD = 2


class Reader:
    """A reader of a data set: each call of `next_epoch` iterates over it once.

    Args:
        max_batch_size: batch size of `next_epoch` if it is called without one; None for single samples.
        name: name in messages.
        device: "cpu" or "gpu".
        enable_checkpointing: accepted for compatibility: states are always available.
        **arguments: arguments of the reader.

    Raises:
        GraphError: an argument is wrong; the message names the user's line.
    """

    _declared: ClassVar[OperatorSchema]

    def __init__(
        self,
        max_batch_size: int | None = None,
        name: str | None = None,
        device: Any = None,
        *,
        enable_checkpointing: bool = False,
        **arguments: Any,
    ) -> None:
        self._default_size = max_batch_size
        keywords = prepare_arguments(self._declared, {**arguments, "device": device, "name": name})
        with no_builder():
            self._described = call_operator(self._declared, (), keywords)
        self._seed = get_default_rng()()
        self._executor: Executor | None = None
        self._positions: dict[str, ReaderPosition] = {}
        self._epoch = 0
        self._shard: int | None = None
        self._finalizer: Finalizer | None = None
        #: The positions and results of batches that were started and not returned yet.
        self._started: deque[tuple[dict[str, ReaderPosition], queue.SimpleQueue[BatchResult]]] = deque()
        self._left = 0  # batches of the present epoch that were not returned yet
        self._resumed = False  # whether the next epoch is the rest of one

    def next_epoch(
        self, batch_size: int | None = None, ctx: EvalContext | None = None, capture: bool = False
    ) -> Iterator[Any]:
        """Return an iterator over the data set, or over the shard of this reader.

        Each item is a tuple with the outputs of the reader, or a dictionary for `TFRecord`. The last batch is filled
        with samples of the next pass, or with repeated samples if the reader has ``pad_last_batch=True``. Exhaust the
        iterator before the next call.

        Args:
            batch_size: number of samples of a batch; without one, and without `max_batch_size`, the items are tensors.
            ctx: context whose threads and GPU are used; by default the current one.
            capture: accepted for compatibility.

        Raises:
            PipelineError: the data set can't be read.
        """
        size = batch_size if batch_size is not None else self._default_size
        _check_size(size)
        return self._batches(size, ctx)

    def __call__(self, *, batch_size: int | None = None) -> Any:
        """Return the next outputs: batches, or tensors without a batch size.

        The result is a tuple, a dictionary for `TFRecord`, or the only output.
        """
        size = batch_size if batch_size is not None else self._default_size
        _check_size(size)
        executor = self._open(size or 1, None)
        results = self._results(executor.run(self._request(size or 1)), size)
        return results[0] if isinstance(self._described, DataNode) else results

    def get_metadata(self) -> dict[str, int]:
        """Return the size of the data set and the shard, as `Pipeline.reader_meta` does."""
        return self._meta(self._open(self._default_size or 1, None)).as_dict()

    def get_state(self, *, cuda_stream: Any = None) -> str:
        """Return the position in the data set, as text, for `set_state`.

        Args:
            cuda_stream: accepted for compatibility.
        """
        positions = self._positions if self._executor is None else self._executor.readers.positions
        if self._started:
            positions = self._started[0][0]
        state = {
            "readers": {name: asdict(position) for name, position in positions.items()},
            "epoch": self._epoch,
            "shard": self._shard,
            "seed": self._seed,
            "left": self._left,
        }
        return json.dumps(state)

    def set_state(self, state: str) -> None:
        """Resume at a position.

        Raises:
            SerializationError: the text isn't the state of a reader.
        """
        try:
            loaded = json.loads(state)
            self._close()
            self._positions = {name: ReaderPosition(**each) for name, each in loaded["readers"].items()}
            self._epoch, self._shard, self._seed = loaded["epoch"], loaded["shard"], loaded["seed"]
            self._left = loaded["left"]
            self._resumed = self._left > 0
            self._started.clear()
        except (KeyError, TypeError, ValueError) as error:
            raise SerializationError(f"this isn't the state of a reader: {error}") from error

    def _batches(self, size: int | None, ctx: EvalContext | None) -> Iterator[Any]:
        executor = self._open(size or 1, ctx)
        self._started.clear()
        started = self._started
        resumed, self._resumed = self._resumed, False
        if not resumed:
            self._left = -(-self._shard_size(self._meta(executor)) // (size or 1))
        while self._left:
            while len(started) < min(_AHEAD, self._left):
                done: queue.SimpleQueue[BatchResult] = queue.SimpleQueue()
                positions = executor.readers.positions
                executor.submit(self._request(size or 1), done.put)
                started.append((positions, done))
            result = started.popleft()[1].get()
            self._left -= 1
            if result.error is not None:
                raise evaluation_error(result.error)
            if not self._left:
                self._epoch += 1
            yield self._results(result.outputs, size)

    def _results(self, outputs: tuple[TensorList, ...], size: int | None) -> Any:
        kind = Tensor if size is None else Batch
        values = [Value("gpu" if isinstance(each, TensorListGPU) else "cpu", each) for each in outputs]
        for value in values:
            value.owned = True
        results = tuple(kind.from_value(value) for value in values)
        return dict(zip(self._described, results, strict=True)) if isinstance(self._described, dict) else results

    def _request(self, size: int) -> BatchRequest:
        return BatchRequest(size, key=BatchKey(self._epoch))

    def _meta(self, executor: Executor) -> ReaderMeta:
        return next(iter(executor.readers.metas.values()))

    def _shard_size(self, meta: ReaderMeta) -> int:
        """Return the number of samples of the next epoch, and advance to the next shard."""
        shards = meta.number_of_shards
        shard = meta.shard_id if self._shard is None else self._shard
        self._shard = shard if meta.stick_to_shard else (shard + 1) % shards
        if meta.pad_last_batch:
            return -(-meta.epoch_size // shards)
        return meta.epoch_size * (shard + 1) // shards - meta.epoch_size * shard // shards

    def _open(self, size: int, ctx: EvalContext | None) -> Executor:
        """Return the executor, with room for batches of a size."""
        executor = self._executor
        if executor is not None and executor.config.max_batch_size >= size:
            return executor
        if executor is not None:
            self._positions = executor.readers.positions
            self._close()
        context = ctx or EvalContext.current()
        nodes = self._nodes()
        subgraph = Subgraph([node.source for node in nodes if node.source is not None], lambda _: False)
        device_id = None if all(call.device == "cpu" for call in subgraph.calls) else context.device_id
        config = ExecutorConfig(size, context.num_threads, device_id, self._seed, _AHEAD, _AHEAD, 1)
        executor = Executor(subgraph.graph([subgraph.edge(node) for node in nodes]), config)
        if self._positions:
            executor.readers.restore(self._positions)
        self._executor = executor
        self._finalizer = Finalizer(self, executor.close)
        return executor

    def _nodes(self) -> list[DataNode]:
        """Return the outputs in the graph of the reader."""
        described = self._described
        if isinstance(described, DataNode):
            return [described]
        return list(described.values() if isinstance(described, dict) else described)

    def _close(self) -> None:
        if self._finalizer is not None:
            self._finalizer.run()
        self._executor = self._finalizer = None

    def close(self) -> None:
        """End the threads of the reader. The next epoch starts them again, where the reader stopped."""
        if self._executor is not None:
            self._positions = self._executor.readers.positions
        self._close()


def _check_size(size: Any) -> None:
    if size is None:
        return
    if isinstance(size, bool) or not isinstance(size, int):
        raise ArgumentTypeError(f"batch_size must be an int, not {type(size).__name__}")
    if size < 1:
        raise ArgumentValueError(f"batch_size must be 1 or more, not {size}")


def make_reader(schema: OperatorSchema) -> type[Reader]:
    """Return the class of a reader."""
    doc = f"{schema.doc.strip()}\n\n{Reader.__doc__}"
    return type(class_name(schema.name), (Reader,), {"_declared": schema, "__doc__": doc})
