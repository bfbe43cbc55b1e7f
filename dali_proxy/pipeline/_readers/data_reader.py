"""The reader that all formats share: it builds batches from the entries that a `Loader` reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._declaration import OperatorSchema, implements, register
from dali_proxy.pipeline._graph.graph import Edge, GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import OutputSpec, Setup
from dali_proxy.pipeline._operator_api.reader import ReaderMeta, ReaderOperator, ReaderPosition
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._operator_api.upload import upload
from dali_proxy.pipeline._readers.arguments import ReaderArguments
from dali_proxy.pipeline._readers.loader import Column, Loader
from dali_proxy.pipeline._readers.order import BufferShuffled, EpochShuffled, FilesShuffled, Order, Sequential
from dali_proxy.pipeline._readers.reading_ahead import ReadAhead, Reading
from dali_proxy.pipeline._readers.sharding import Cursor, Sharding
from dali_proxy.pipeline._remote.request_limit import MOST_REQUESTS
from dali_proxy.pipeline.errors import SerializationError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

_MOST_THREADS = 8


class DataReader(ReaderOperator):
    """Reads a dataset ahead of the pipeline, on separate threads.

    Reading waits for disks and networks, so it must not block the threads of the CPU stage.
    """

    #: The class that knows the format.
    loader: ClassVar[type[Loader]]

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._arguments = ReaderArguments.from_node(node, shuffles_files=not self.loader.random_access)
        self._loader = self.loader(node, setup)
        self._lock = new_lock(Level.READER, "reader")  # guards `_open`: any thread may read `meta`
        self._opened: tuple[Sharding, ReadAhead] | None = None
        self._restored = ReaderPosition()  # where to begin when it is opened
        if not self._arguments.lazy_init:
            self._open()

    @property
    def meta(self) -> ReaderMeta:
        sharding, _ = self._open()
        return ReaderMeta(
            sharding.entries,
            sharding.num_shards,
            sharding.shard_id,
            sharding.pad_last_batch,
            sharding.stick_to_shard,
        )

    def begin(self, batch_size: int) -> Reading:
        return self._open()[1].next(batch_size)

    def skip(self, batch_size: int) -> None:
        self._open()[1].skip(batch_size)

    @property
    def position(self) -> ReaderPosition:
        if self._opened is None:
            return self._restored
        sharding, ahead = self._opened
        return ReaderPosition(ahead.cursor.epoch, ahead.cursor.offset, sharding.entries, sharding.num_shards)

    def restore(self, position: ReaderPosition) -> None:
        self._restored = position
        if self._opened is not None:
            self._seek(*self._opened)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        reading = batch.reads.by_reader[self.node.index]
        assert isinstance(reading, Reading)
        columns = reading.wait()
        outputs = [
            self._gather(batch, number, spec, column)
            for number, (spec, column) in enumerate(zip(self._loader.outputs, columns, strict=True))
        ]
        if self.node.device == "cpu":
            return outputs
        return [upload(batch, each) if isinstance(each, TensorListCPU) else each for each in outputs]

    def close(self) -> None:
        """End the threads. The executor calls this after the last batch."""
        if self._opened is not None:
            self._opened[1].close()
        self._loader.close()

    def _gather(self, batch: Batch, number: int, spec: OutputSpec, column: Column) -> TensorList:
        if isinstance(column, TensorListCPU):
            return column.with_layout(spec.layout) if spec.layout else column
        if not isinstance(column[0], np.ndarray):  # on the GPU: complete, but allocated on another stream
            batch.keep_alive.extend(column)
            return TensorListGPU(column, spec.layout)
        if spec.shape is None or spec.dtype is None:
            return TensorListCPU(column, spec.layout)
        array, owner = batch.allocate(Edge(self.node.index, number), (batch.size, *spec.shape), spec.dtype)
        if isinstance(column, np.ndarray):
            np.copyto(array, column)
        else:
            np.stack(column, out=array)
        tensors = TensorListCPU(array, spec.layout)
        tensors.owner = owner
        return tensors

    def _open(self) -> tuple[Sharding, ReadAhead]:
        """List the dataset on the first call."""
        with self._lock:
            if self._opened is None:
                arguments = self._arguments
                sharding = Sharding(
                    self._list_entries(),
                    arguments.shard_id,
                    arguments.num_shards,
                    arguments.stick_to_shard or arguments.shuffle_after_epoch,
                    arguments.pad_last_batch,
                )
                ahead = ReadAhead(
                    sharding,
                    self._order(sharding),
                    self._loader,
                    arguments.prefetch_queue_depth,
                    MOST_REQUESTS if self._loader.remote else min(max(2, self.setup.num_threads), _MOST_THREADS),
                    f"{THREAD_PREFIX}{self.node.name}",
                )
                self._seek(sharding, ahead)
                self._opened = sharding, ahead
            return self._opened

    def _list_entries(self) -> int:
        try:
            return self._loader.open()
        except BaseException:
            self._loader.close()  # `close` isn't called for a reader that couldn't be created
            raise

    def _order(self, sharding: Sharding) -> Order:
        arguments, sizes = self._arguments, self._loader.file_sizes
        own = self.node.own_seed
        seed, stream = (self.setup.seed, self.node.random_stream) if own is None else (own, 0)
        if arguments.shuffle_after_epoch and sizes is not None:
            buffer = arguments.initial_fill if arguments.random_shuffle else 1
            return FilesShuffled(sharding, sizes, arguments.shuffle_after_epoch_seed, buffer, seed, stream)
        if arguments.shuffle_after_epoch:
            return EpochShuffled(sharding, arguments.shuffle_after_epoch_seed)
        if arguments.random_shuffle:
            return BufferShuffled(sharding, arguments.initial_fill, seed, stream, self._loader.random_access)
        return Sequential(sharding)

    def _seek(self, sharding: Sharding, ahead: ReadAhead) -> None:
        position = self._restored
        if position.entries not in (0, sharding.entries):
            raise SerializationError(
                f"{self.node.display}: the checkpoint belongs to a dataset of {position.entries} entries, but this "
                f"dataset has {sharding.entries}"
            )
        cursor = Cursor(position.epoch, position.offset)
        if position.num_shards not in (0, sharding.num_shards):
            if 0 < cursor.offset < -(-sharding.entries // position.num_shards):
                raise SerializationError(
                    f"{self.node.display}: the checkpoint belongs to {position.num_shards} shards, but this reader has "
                    f"num_shards={sharding.num_shards}: only a checkpoint of the end of an epoch fits another number"
                )
            cursor = Cursor(cursor.epoch + (cursor.offset > 0))
        ahead.seek(cursor)


def reads(schema: OperatorSchema) -> Callable[[type[Loader]], type[Loader]]:
    """Class decorator for a `Loader`: declare a reader and implement it with this loader."""
    register(schema)

    def add(loader: type[Loader]) -> type[Loader]:
        name = loader.__name__.replace("Loader", "Reader")
        reader = type(name, (DataReader,), {"loader": loader, "__module__": loader.__module__})
        implements(schema, *schema.devices)(reader)
        return loader

    return add
