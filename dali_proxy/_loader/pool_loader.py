"""The inner loader of a server that reads the batches itself: in a cluster, or with its pool of dataset workers."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from torch.utils.data import _utils
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import _BaseDataLoaderIter

from dali_proxy._common.batch_reading import BatchRequest
from dali_proxy._common.in_flight import InFlight
from dali_proxy._consumer.pending_requests import Deadline
from dali_proxy._loader.batch_transform import seeded
from dali_proxy._loader.batches import CollatedBatch, FailedBatch, NumberedIndices, Pause
from dali_proxy._loader.collate import Collate
from dali_proxy._loader.inner_loader import InnerLoader, create_batch
from dali_proxy._loader.numbered_datasets import NumberedDataset, session_of
from dali_proxy._loader.own_worker import OwnWorker
from dali_proxy._loader.rescue import LOST
from dali_proxy._transport.endpoint import without_rank
from dali_proxy.errors import ServerDiedError, WorkerDiedError
from dali_proxy.pipeline._ipc import pickling
from dali_proxy.pipeline._ipc.interpreter import working_directory
from dali_proxy.pipeline._ipc.signals import deferred_signals, finalizer

if TYPE_CHECKING:
    from dali_proxy._cluster.server_pool import PendingBatch, ServerPool
    from dali_proxy._pool.dataset_pool import DatasetPool, PendingRead
    from dali_proxy._server.server import DALIServer

_EACH = 3  # batches in flight of each server or worker: one is read, one is in the pipeline, one is on its way

_Pending: TypeAlias = "PendingBatch | PendingRead"


@dataclass(eq=False)
class BatchReader:
    """Does the work of a torch worker in another process: reads and collates batches.

    Its pickle is the same for all epochs and ranks, as long as the dataset, the functions and the directory are.

    Attributes:
        dataset: the wrapped dataset.
        collate: the wrapped collate function; it shares the role `own` with the dataset.
        has_batches: whether the indices are those of a batch.
        worker_init_fn: the user's function, or None.
        directory: working directory of the user's process; empty if it has none.
    """

    dataset: NumberedDataset
    collate: Collate
    has_batches: bool
    worker_init_fn: Any
    directory: str

    def begin(self, number: int, count: int, where: str) -> None:
        """Let this process look like a worker to the user's code."""
        self._where = f" on {where}" if where else ""
        own = self.dataset.own
        own.id, own.count = number, count
        self.collate.packs = False  # batches are pickled together with large arrays, or with their results
        worker: Any = _utils.worker  # torch has no public names for these
        self._info = worker.WorkerInfo(id=number, num_workers=count, seed=0, dataset=self.dataset.dataset)
        worker._worker_info = self._info
        if where:  # another machine
            self.directory = ""
        self._enter_directory()
        try:
            if self.worker_init_fn is not None:
                self.worker_init_fn(number)
        except Exception as error:  # noqa: BLE001  # raised for each batch
            own.init_error = error
        self._leave_directory()

    def read(self, request: BatchRequest) -> CollatedBatch | FailedBatch:
        """Return a batch, whose placeholders are submitted.

        Random numbers that the dataset draws depend only on the seed and the batch.

        Raises:
            ServerDiedError: the pipeline's host is gone.
        """
        numbered: NumberedIndices = request.numbered
        worker: Any = _utils.worker
        worker._worker_info, self.dataset.request = self._info, request
        self._enter_directory()
        with seeded(np.random.SeedSequence([request.seed, numbered.epoch, numbered.number_among_ranks])):
            batch = create_batch(self.dataset, self.collate, self.has_batches, numbered)
        self._leave_directory()
        if isinstance(batch, FailedBatch):
            if isinstance(batch.error, BaseException):
                return batch
            if issubclass(batch.error.exc_type, LOST):
                raise ServerDiedError(batch.traceback)
            batch.worker += self._where
            batch.error.where += self._where and f",{self._where}"
        return batch

    def _enter_directory(self) -> None:
        """Let relative paths be those of the user's process. Readers of other loaders may have other directories."""
        if self.directory and self.directory != working_directory():
            with suppress(OSError):  # this process may not enter it
                os.chdir(self.directory)

    def _leave_directory(self) -> None:
        self.directory = self.directory and working_directory()  # the user's code may have changed it


class PoolLoader(InnerLoader):
    """An inner loader whose batches other processes read: the servers of a cluster, or the server's dataset workers.

    Args:
        server: handle of the server.
        dataset: the wrapped dataset.
        **options: as for `InnerLoader`. `num_workers` has no meaning, and `worker_init_fn` refers to these processes.
    """

    def __init__(self, server: DALIServer, dataset: NumberedDataset, **options: Any) -> None:
        self._server = server
        self._each = options.pop("prefetch_factor", None) or _EACH
        self._reads_once = bool(options.pop("persistent_workers", False))
        self._init = options.pop("worker_init_fn", None)
        for name in ("num_workers", "multiprocessing_context", "pin_memory_device"):
            options.pop(name, None)
        super().__init__(dataset, **options)
        self._reader: tuple[bytes, Any] | None = None
        self._size = 0  # bytes of the last result
        self._seed = 0

    @property
    def pool(self) -> ServerPool | DatasetPool:
        """The processes that read.

        Raises:
            ServerClosedError: the server was stopped.
        """
        return self._server.pool

    @property
    def reads_here(self) -> bool:
        return False

    @property
    def readers(self) -> int:
        return self.pool.ready

    @property
    def in_flight(self) -> InFlight:
        ready = self.pool.ready
        if not self._size:
            return InFlight(ready, "the first batches")
        bound = max(self.pool.in_flight_bytes // self._size, 1)
        if bound < ready * self._each:
            return InFlight(bound, "in_flight_bytes")
        return InFlight(ready * self._each, f"{self._each} of each {self.pool.member}")

    def _get_iterator(self) -> Any:
        self._publish()
        return _PoolBatches(self)

    def request(self, numbered: NumberedIndices, seed: int) -> _Pending:
        """Request a batch."""
        if self._reader is None:
            self._publish()
        assert self._reader is not None
        assert isinstance(self.dataset, NumberedDataset)
        self._seed = seed
        session = session_of(self.dataset.first_session, numbered.epoch)
        return self.pool.request(BatchRequest(*self._reader, numbered, seed, session))

    def take(self, batch: _Pending) -> Any:
        """Return the batch that has arrived, or raise its error."""
        self._size = batch.nbytes or self._size
        try:
            return batch.result()
        except (*LOST, WorkerDiedError) as error:
            if self._server.cluster is not None:  # its pool has repeated the batch already
                raise
            return FailedBatch(batch.request.numbered, error.with_traceback(None), None, self.pool.name)

    @deferred_signals
    def make(self, numbered: NumberedIndices) -> CollatedBatch | FailedBatch:
        """Compute a batch and wait for it: one that failed, without its bad samples."""
        batch = self.request(numbered, self._seed)
        try:
            self.wait(lambda: batch.done)
        except BaseException:  # also a signal handler's
            batch.drop()
            raise
        result: CollatedBatch | FailedBatch = self.take(batch)
        return result

    def wait(self, is_done: Callable[[], bool]) -> None:
        """Wait for something that the other processes do.

        Raises:
            ServerClosedError: the server was stopped.
            ServerDiedError: there is no server.
            ProxyError: it takes longer than the limits of the loader and the server.
        """
        deadline = Deadline(self._server.endpoint.timeout, self.pool.name, self.timeout)
        while not is_done():
            self.pool.wait()
            deadline.check()

    def _publish(self) -> None:
        """Pickle the dataset as it is now, like torch, which starts workers for each epoch."""
        if self._reader is not None and self._reads_once:
            return
        assert isinstance(self.dataset, NumberedDataset)
        assert isinstance(self.collate_fn, Collate)
        own = OwnWorker()
        dataset, collate = self.dataset.dataset, self.collate_fn.collate_fn
        reader = BatchReader(
            NumberedDataset(dataset, 0, own),
            Collate(collate, own),
            self.batch_sampler is not None,
            self._init,
            working_directory(),
        )
        with without_rank():
            parts = {"the dataset": dataset, "collate_fn": collate, "worker_init_fn": self._init}
            data = pickling.dumps(reader, parts)
        identity = blake2b(data, digest_size=16).digest()
        if self._reader is None or self._reader[0] != identity:
            self._reader = identity, self.pool.put(data)


class _PoolBatches(_BaseDataLoaderIter):
    """One epoch of a `PoolLoader`."""

    def __init__(self, loader: PoolLoader) -> None:
        super().__init__(loader)
        loader.pool.divide()
        self._loader = loader
        self._in_flight: deque[_Pending | Pause] = deque()
        self._drawn_all = False

    def _next_data(self) -> Any:
        self._loader.wait(self._has_next)
        if not self._in_flight:
            raise StopIteration
        batch = self._next_done()
        self._in_flight.remove(batch)
        if isinstance(batch, Pause):
            return batch
        data = self._loader.take(batch)
        self._request_more()
        return pin_memory(data) if self._pin_memory else data  # type: ignore[no-untyped-call]

    def _has_next(self) -> bool:
        self._request_more()
        return self._next_done() is not None or (self._drawn_all and not self._in_flight)

    def _next_done(self) -> Any:
        batches = self._in_flight if not self._loader.in_order else list(self._in_flight)[:1]
        return next((batch for batch in batches if isinstance(batch, Pause) or batch.done), None)

    def _request_more(self) -> None:
        self._loader.pool.handle()
        while not self._drawn_all and len(self._in_flight) < self._loader.in_flight.batches:
            try:
                numbered = next(self._sampler_iter)
            except StopIteration:
                self._drawn_all = True
                return
            if isinstance(numbered.indices, Pause):
                self._in_flight.append(numbered.indices)
            else:
                self._in_flight.append(self._loader.request(numbered, int(self._base_seed)))

    @finalizer
    def __del__(self) -> None:
        for batch in self._in_flight:
            if not isinstance(batch, Pause):
                batch.drop()
