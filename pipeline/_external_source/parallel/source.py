"""A source that worker processes read: asks for batches ahead, and puts their parts together in order."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import pairwise

from pipeline._external_source.parallel.pool import Part, RemoteFailure, WorkerPool
from pipeline._external_source.parallel.protocol import Failed
from pipeline._external_source.parallel.remote import RemoteTraceback, find_type
from pipeline._external_source.source import Source, source_error
from pipeline._external_source.spec import Cycle, SourceSpec
from pipeline._graph.graph import GraphNode
from pipeline._operator_api.request import TensorList
from pipeline.errors import SourceError, WorkerError
from pipeline.tensors.cpu import TensorListCPU
from pipeline.types import BatchInfo

__all__ = ["ParallelSource"]

_PARTS_PER_WORKER = 4  # of a batch, so that workers with quick samples can help out those with slow ones


@dataclass(frozen=True)
class _Ahead:
    """A batch that was asked for: its parts, in order."""

    info: BatchInfo
    size: int
    parts: list[Future[Part]]


class ParallelSource(Source):
    """A source that worker processes read.

    Args:
        spec: the source.
        node: the operator, for messages.
        pool: the workers.
        number: of the source in the pool.
    """

    def __init__(self, spec: SourceSpec, node: GraphNode, pool: WorkerPool, number: int) -> None:
        self._spec = spec
        self._node = node
        self._pool = pool
        self._number = number
        self._ahead: deque[_Ahead] = deque()
        self._skip = 0
        self._position = (0, 0)  # epoch, and items of this pass up to the last batch that was handed out

    def next_batch(self, info: BatchInfo, batch_size: int) -> list[TensorList]:
        if self._ahead and not self._is_wanted(self._ahead[0], info, batch_size):
            self._drop_ahead()
        while len(self._ahead) <= self._spec.prefetch_queue_depth:
            self._ask(BatchInfo(info.iteration + len(self._ahead), info.epoch_idx), batch_size)
        wanted = self._ahead.popleft()
        try:
            parts = [part.result() for part in wanted.parts]
        except RemoteFailure as failure:
            cause = RemoteTraceback(failure.worker, failure.failed.traceback)
            raise self._error(failure.failed, cause) from cause
        except WorkerError as error:
            at = f"\n  at {self._node.location}" if self._node.location.line else ""
            raise WorkerError(f"{self._node.display} failed: {error}\n  in source {self._spec.display}{at}") from None
        self._position = (info.epoch_idx, parts[-1].position)
        return [_join([part.batches[output] for part in parts]) for output in range(len(parts[0].batches))]

    def position(self, epoch: int) -> int:
        of_epoch, position = self._position
        return 0 if self._spec.cycle is Cycle.RAISE and of_epoch != epoch else position

    def skip(self, items: int, epoch: int) -> None:
        self._drop_ahead()
        self._skip = items
        self._position = (epoch, items)

    def _is_wanted(self, ahead: _Ahead, info: BatchInfo, batch_size: int) -> bool:
        """Tell whether what was asked for ahead is what is wanted now: not after the end of an epoch, for one."""
        if self._spec.iterable:  # whatever comes next, unless the source has to begin again
            return self._spec.cycle is not Cycle.RAISE or ahead.info.epoch_idx == info.epoch_idx
        return ahead.info == info and (self._spec.batch or ahead.size == batch_size)

    def _drop_ahead(self) -> None:
        for ahead in self._ahead:
            for part in ahead.parts:
                part.cancel()
        self._ahead.clear()

    def _ask(self, info: BatchInfo, batch_size: int) -> None:
        pool, number = self._pool, self._number
        if self._spec.batch:
            worker = number % pool.size if self._spec.iterable else None
            parts = [pool.submit(number, info, 0, batch_size, worker=worker, skip=self._skip)]
            self._skip = 0
        else:
            count = min(batch_size, pool.size * _PARTS_PER_WORKER if pool.size > 1 else 1)
            bounds = [batch_size * part // count for part in range(count + 1)]
            parts = [pool.submit(number, info, first, last - first) for first, last in pairwise(bounds)]
        self._ahead.append(_Ahead(info, batch_size, parts))

    def _error(self, failed: Failed, cause: RemoteTraceback) -> SourceError:
        made = source_error(self._node, self._spec, failed.wanted, failed.sample, cause, failed.reason)
        return made.like(find_type(failed.type_name))


def _join(parts: list[TensorListCPU]) -> TensorListCPU:
    if len(parts) == 1:
        return parts[0]
    return TensorListCPU([sample for part in parts for sample in part.samples], parts[0].layout())
