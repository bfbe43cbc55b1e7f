"""The inner loader of a server that reads the batches itself: in a cluster, or with its pool of dataset workers.

If the number of these workers changes while the loop runs, it begins with 0: then this process reads the batches, with
the same random numbers.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias, cast

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
from dali_proxy.pipeline._executor.available_memory import available_memory
from dali_proxy.pipeline._ipc import pickling
from dali_proxy.pipeline._ipc.interpreter import working_directory
from dali_proxy.pipeline._ipc.signals import deferred_signals, finalizer, let_through
from dali_proxy.pipeline.errors import SerializationError

if TYPE_CHECKING:
    from dali_proxy._cluster.server_pool import PendingBatch, ServerPool
    from dali_proxy._consumer.consumer import ConsumerClient
    from dali_proxy._pool.dataset_pool import DatasetPool, PendingRead
    from dali_proxy._server.server import DALIServer

_log = logging.getLogger("dali_proxy")

_EACH = 3  # batches in flight of each server or worker: one is read, one is in the pipeline, one is on its way

_PART = 4  # the part of the available memory that a pickled dataset may take: one of so many
_READS = 2  # batches that this process reads in each step of the loop, at most

_Pending: TypeAlias = "PendingBatch | PendingRead | _ReadHere"


class _ReadHere:
    """A batch that this process has read."""

    done = True

    def __init__(self, batch: CollatedBatch | FailedBatch, nbytes: int) -> None:
        self.batch, self.nbytes = batch, nbytes

    def drop(self) -> None:
        """Do nothing: the batch belongs to a session that ends."""


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
        self._may_read_here = server.num_workers == "auto"
        self._stays = ""  # reason why only this process reads
        if self._may_read_here and self._init is not None:
            self._stay("the loader has a worker_init_fn, for which it needs num_workers=1 or more")
        self._is_published = False  # whether the pickle is that of the current epoch
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
    def stays(self) -> str | None:
        return self._stays if self._may_read_here else None

    @property
    def readers(self) -> int:
        return 0 if self._stays else self.pool.ready

    @property
    def reads_now(self) -> bool:
        """Whether this process reads the next batch, because no workers are running."""
        return self._may_read_here and not self.readers

    @property
    def asks_workers(self) -> bool:
        """Whether `request` surely reads nothing in this process."""
        return not self._may_read_here or (self._is_published and self.readers > 0)

    @property
    def in_flight(self) -> InFlight:
        ready, of = (1, "that this process reads") if self.reads_now else (self.readers, f"of each {self.pool.member}")
        if not self._size:
            return InFlight(ready, "the first batches")
        bound = max(self.pool.in_flight_bytes // self._size, 1)
        if bound < ready * self._each:
            return InFlight(bound, "in_flight_bytes")
        return InFlight(ready * self._each, f"{self._each} {of}")

    def _get_iterator(self) -> Any:
        if self._may_read_here:
            self._is_published = False  # when workers read the first batch of the epoch
        else:
            self._publish()
        return _PoolBatches(self)

    def request(self, numbered: NumberedIndices, seed: int) -> _Pending:
        """Request a batch, or read it."""
        self._seed = seed
        reads = self.reads_now or not (self._is_published or self._publish())
        assert isinstance(self.dataset, NumberedDataset)
        session = session_of(self.dataset.first_session, numbered.epoch)
        if reads:
            batch = self.read_here(numbered, seed)
            return _ReadHere(batch, cast("ConsumerClient", self._server.consumer).result_size(session))
        assert self._reader is not None
        return self.pool.request(BatchRequest(*self._reader, numbered, seed, session))

    def read_here(self, numbered: NumberedIndices, seed: int) -> CollatedBatch | FailedBatch:
        """Read a batch in this process, with the random numbers that a worker would draw.

        Raises:
            Interrupted: a signal handler raised.
        """
        with seeded(np.random.SeedSequence([seed, numbered.epoch, numbered.number_among_ranks])):
            batch: CollatedBatch | FailedBatch = let_through(super().make, numbered)
            return batch

    def take(self, batch: _Pending) -> Any:
        """Return the batch that has arrived, or raise its error."""
        self._size = batch.nbytes or self._size
        if isinstance(batch, _ReadHere):
            return batch.batch
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

    def _stay(self, reason: str) -> None:
        self._stays = reason
        _log.warning("this process reads the samples of %s: %s", type(self._user_dataset).__name__, reason)

    @property
    def _user_dataset(self) -> Any:
        assert isinstance(self.dataset, NumberedDataset)
        return self.dataset.dataset

    def _publish(self) -> bool:
        """Pickle the dataset as it is now, like torch, which starts workers for each epoch.

        If this process may read instead, return whether the dataset can be pickled.
        """
        self._is_published = True
        if self._reader is not None and self._reads_once:
            return True
        assert isinstance(self.collate_fn, Collate)
        own = OwnWorker()
        dataset, collate = self._user_dataset, self.collate_fn.collate_fn
        reader = BatchReader(
            NumberedDataset(dataset, 0, own),
            Collate(collate, own),
            self.batch_sampler is not None,
            self._init,
            working_directory(),
        )
        with without_rank():
            parts = {"the dataset": dataset, "collate_fn": collate, "worker_init_fn": self._init}
            try:
                data = pickling.dumps(reader, parts, available_memory() // _PART if self._may_read_here else None)
            except SerializationError as error:
                if not self._may_read_here:
                    raise
                self._stay(str(error))
                return False
        identity = blake2b(data, digest_size=16).digest()
        if self._reader is None or self._reader[0] != identity:
            self._reader = identity, self.pool.put(data)
        return True


class _PoolBatches(_BaseDataLoaderIter):
    """One epoch of a `PoolLoader`."""

    def __init__(self, loader: PoolLoader) -> None:
        super().__init__(loader)
        loader.pool.divide()
        self._loader = loader
        self._in_flight: deque[_Pending | Pause] = deque()
        self._drawn_all = False
        self._unread: NumberedIndices | None = None  # a signal handler raised while this process read it

    def _next_data(self) -> Any:
        if not self._loader.asks_workers and self._in_flight:  # before a batch leaves the queue: a handler may raise
            for _ in range(_READS):
                self._request_next()
        self._loader.wait(self._has_next)
        if not self._in_flight:
            raise StopIteration
        batch = self._next_done()
        self._in_flight.remove(batch)
        if isinstance(batch, Pause):
            return batch
        data = self._loader.take(batch)
        self._request_more(reads=False)  # a handler that raised would lose this batch
        return pin_memory(data) if self._pin_memory else data  # type: ignore[no-untyped-call]

    def _has_next(self) -> bool:
        self._request_more()
        return self._next_done() is not None or (self._drawn_all and not self._in_flight)

    def _next_done(self) -> Any:
        batches = self._in_flight if not self._loader.in_order else list(self._in_flight)[:1]
        return next((batch for batch in batches if isinstance(batch, Pause) or batch.done), None)

    def _request_more(self, reads: bool = True) -> None:
        """Request batches until enough are in flight, or read one, if this process reads and none is in flight."""
        self._loader.pool.handle()
        if not self._loader.asks_workers and (self._in_flight or not reads):
            return
        while self._request_next() and self._loader.asks_workers:
            pass

    def _request_next(self) -> bool:
        """Request the next batch, unless enough are in flight or the epoch ends. Return whether it did."""
        if self._drawn_all or len(self._in_flight) >= self._loader.in_flight.batches:
            return False
        if self._unread is None:
            try:
                self._unread = next(self._sampler_iter)
            except StopIteration:
                self._drawn_all = True
                return False
        numbered = self._unread
        if isinstance(numbered.indices, Pause):
            self._in_flight.append(numbered.indices)
        else:
            self._in_flight.append(self._loader.request(numbered, int(self._base_seed)))
        self._unread = None
        return True

    @finalizer
    def __del__(self) -> None:
        for batch in self._in_flight:
            if not isinstance(batch, Pause):
                batch.drop()
