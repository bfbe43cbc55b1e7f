"""A source that worker processes read. It requests batches ahead, and joins their chunks in order."""

from __future__ import annotations

import math
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import pairwise

from dali_proxy.pipeline._external_source.parallel.pool import Chunk, RemoteFailure, WorkerPool
from dali_proxy.pipeline._external_source.parallel.protocol import Failed
from dali_proxy.pipeline._external_source.parallel.remote import RemoteTraceback, find_type
from dali_proxy.pipeline._external_source.reader import EndOfData
from dali_proxy.pipeline._external_source.source import Source, SourceSeeds, source_error
from dali_proxy.pipeline._external_source.spec import Cycle, SourceSpec
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._rng import BatchKey
from dali_proxy.pipeline.errors import SourceError, WorkerError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.types import BatchInfo

_CHUNKS_PER_WORKER = 4  # per batch, so that workers with fast samples relieve those with slow ones
_LONGEST = 0.1  # seconds of a chunk that is longer than necessary, to save processor time
_WORTH_SENDING = 0.01  # seconds: sending a chunk there and back takes processes about 0.3 ms of processor time


@dataclass(frozen=True)
class _Ahead:
    """A requested batch: its chunks, in order."""

    key: BatchKey
    size: int
    chunks: list[Future[Chunk]]


class ParallelSource(Source):
    """A source that worker processes read."""

    def __init__(self, spec: SourceSpec, node: GraphNode, pool: WorkerPool, number: int, seeds: SourceSeeds) -> None:
        self._spec = spec
        self._node = node
        self._pool = pool
        self._number = number
        self._seeds = seeds
        self._ahead: deque[_Ahead] = deque()
        self._skip = 0
        self._last: BatchKey | None = None  # key of the last batch
        self._position = (0, 0)  # epoch, and number of calls in this pass over the source

    def next_batch(self, key: BatchKey, batch_size: int) -> list[TensorList]:
        if self._ahead and not self._is_wanted(self._ahead[0], key, batch_size):
            self._drop_ahead()
        step, self._last = _step(self._last, key), key
        while len(self._ahead) <= self._spec.prefetch_queue_depth:
            self._request(_later(key, len(self._ahead), step), batch_size)
        wanted = self._ahead.popleft()
        try:
            chunks = [chunk.result() for chunk in wanted.chunks]
        except EndOfData as end:
            self._position = (key.epoch, end.position)
            if self._spec.iterable:  # what was requested ahead in that epoch has ended, too: the next one asks again
                while self._ahead and self._ahead[0].key.epoch == wanted.key.epoch:
                    self._cancel(self._ahead.popleft())
            raise
        except RemoteFailure as failure:
            cause = RemoteTraceback(failure.worker, failure.failed.traceback)
            raise self._error(failure.failed, cause) from cause
        except WorkerError as error:
            at = f"\n  at {self._node.location}" if self._node.location.line else ""
            raise WorkerError(f"{self._node.display} failed: {error}\n  in source {self._spec.display}{at}") from None
        self._position = (key.epoch, chunks[-1].position)
        return [join([chunk.batches[output] for chunk in chunks]) for output in range(len(chunks[0].batches))]

    def position(self, epoch: int) -> int:
        of_epoch, position = self._position
        return 0 if self._spec.cycle is Cycle.RAISE and of_epoch != epoch else position

    def skip(self, calls: int, epoch: int) -> None:
        self._drop_ahead()
        self._skip = calls
        self._position = (epoch, calls)

    def _is_wanted(self, ahead: _Ahead, key: BatchKey, batch_size: int) -> bool:
        """Return whether a batch that was requested ahead is needed now; after the end of an epoch, it isn't."""
        if self._spec.iterable:  # the next batch fits, unless the source must begin again
            return self._spec.cycle is not Cycle.RAISE or ahead.key.epoch == key.epoch
        return ahead.key == replace(key, view=0) and (self._spec.batch or ahead.size == batch_size)

    def _drop_ahead(self) -> None:
        while self._ahead:
            self._cancel(self._ahead.popleft())

    def _cancel(self, ahead: _Ahead) -> None:
        for chunk in ahead.chunks:
            chunk.cancel()

    def _request(self, key: BatchKey, batch_size: int) -> None:
        pool, number = self._pool, self._number
        info = BatchInfo(key.iteration, key.epoch)
        if self._spec.batch:
            worker = number % pool.size if self._spec.iterable else None
            seeds = self._seeds.of(key, 0, 1)
            chunks = [pool.submit(number, info, 0, batch_size, worker=worker, skip=self._skip, seeds=seeds)]
            self._skip = 0
        else:
            chunks = [
                pool.submit(number, info, first, last - first, seeds=self._seeds.of(key, first, last))
                for first, last in chunk_bounds(batch_size, pool.size)
            ]
        self._ahead.append(_Ahead(key, batch_size, chunks))

    def _error(self, failed: Failed, cause: RemoteTraceback) -> SourceError:
        error = source_error(self._node, self._spec, failed.wanted, failed.sample, cause, failed.reason)
        return error.like(find_type(failed.type_name))


def _step(last: BatchKey | None, key: BatchKey) -> int:
    """Return by how much the numbers of a rank's batches among those of all ranks grow, judging from the last one."""
    if last is None or last.global_batch is None or key.global_batch is None or key.iteration != last.iteration + 1:
        return 1
    return key.global_batch - last.global_batch


def _later(key: BatchKey, batches: int, step: int) -> BatchKey:
    """Return the key of a later batch of the same rank, as far as it is known."""
    number = None if key.global_batch is None else key.global_batch + batches * step
    return BatchKey(key.epoch, key.iteration + batches, global_batch=number)


def chunk_bounds(size: int, workers: int, seconds: float | None = None, ahead: float = 0.0) -> list[tuple[int, int]]:
    """Return the first sample of each chunk of a batch, and the one behind its last.

    Args:
        size: number of samples.
        workers: number of processes.
        seconds: time that a sample takes: if samples take little time, chunks are larger. None if it isn't known.
        ahead: number of samples that each process has to process before these. A chunk may have as many, because no
            process is idle until it ends.
    """
    each = _CHUNKS_PER_WORKER if workers > 1 else 1
    if seconds is not None:
        each = max(1, min(each, math.ceil(size * seconds / workers / _WORTH_SENDING)))
    count = min(size, workers * each)
    if seconds is not None and ahead >= 1:
        count = min(count, max(math.ceil(size / ahead), math.ceil(size * seconds / _LONGEST)))
    return list(pairwise(size * chunk // count for chunk in range(count + 1)))


def join(chunks: list[TensorListCPU]) -> TensorListCPU:
    """Return the samples of several chunks as one batch."""
    if len(chunks) == 1:
        return chunks[0]
    return TensorListCPU([sample for chunk in chunks for sample in chunk.samples], chunks[0].layout())
