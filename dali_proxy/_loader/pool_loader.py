"""The inner loader of a server that reads the batches itself: in a cluster, or with its pool of dataset workers.

If the number of these workers changes while the loop runs, it begins with 0: then this process reads the batches, with
the same random numbers.
"""

from __future__ import annotations

import heapq
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import _BaseDataLoaderIter

from dali_proxy._common.batch_reading import BatchRequest
from dali_proxy._common.in_flight import InFlight
from dali_proxy._common.run_delay import run_delay
from dali_proxy._consumer.pending_requests import Deadline
from dali_proxy._loader.batch_reader import BatchReader
from dali_proxy._loader.batch_transform import seeded
from dali_proxy._loader.batches import CollatedBatch, FailedBatch, NumberedIndices, Pause, with_run_delay
from dali_proxy._loader.collate import Collate
from dali_proxy._loader.inner_loop import InnerLoader
from dali_proxy._loader.numbered_datasets import NumberedDataset, session_of
from dali_proxy._loader.own_worker import OwnWorker
from dali_proxy._loader.rescue import LOST
from dali_proxy._loader.sample_costs import SampleCosts
from dali_proxy._transport.endpoint import without_rank
from dali_proxy.errors import WorkerDiedError
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
_MOST = 16  # ... while the loop waits for the pipeline, or for a batch that takes so long that the others are done
_AT_ONCE = 2  # batches that keep a worker busy: one is read, and another one waits
_WAITS = 0.1  # part of its time in which a loop waits for results, from which more batches may help
_CALM = 8  # times as many batches as are in flight, without a wait, after which fewer are enough
_SLOW = 1.0  # batches that a batch must begin earlier, from which no other waits behind it
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


class PoolLoader(InnerLoader):
    """An inner loader whose batches other processes read: the servers of a cluster, or the server's dataset workers.

    Args:
        server: handle of the server.
        dataset: the wrapped dataset.
        costs: what is known of the dataset's samples.
        **options: as for `InnerLoader`. `num_workers` has no meaning, and `worker_init_fn` refers to these processes.
    """

    def __init__(self, server: DALIServer, dataset: NumberedDataset, costs: SampleCosts, **options: Any) -> None:
        self._server, self._costs = server, costs
        prefetch_factor = options.pop("prefetch_factor", None)
        self._each = prefetch_factor or _EACH
        self._most = prefetch_factor or _MOST
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
        self._inputs = 0  # bytes of the samples of the last batch
        self._waited, self._since, self._count = 0.0, 0.0, 0  # seconds of waiting for so many results, and their begin
        self._calm = 0  # number of batches since the loop has waited for one
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
        readers, limit = self.readers, self.limit
        if not self._size:
            return InFlight(limit, "the first batches")
        if limit < (readers or 1) * self._each:
            return InFlight(limit, "in_flight_bytes")
        of = f"of each {self.pool.member}" if readers else "that this process reads"
        why = ", because the loop waits" if self._each > _EACH and self._most == _MOST else ""
        return InFlight(limit, f"{self._each} {of}{why}")

    @property
    def limit(self) -> int:
        """Number of batches in flight; one for each worker before their size is known."""
        readers = self.readers
        ready = 1 if self._may_read_here and not readers else readers
        return min(ready * self._each, self._bound(readers)) if self._size else ready

    @property
    def bound(self) -> int:
        """Number of batches that may be in flight at all; one for each worker before their size is known."""
        return self._bound(self.readers)

    def _bound(self, readers: int) -> int:
        most = max(readers, 1)
        if not self._size:
            return most
        return max(min(self.pool.in_flight_bytes // (self._size + self._inputs), self._most * most), 1)

    def allow_more(self) -> None:
        """Let more batches be in flight from now on, if their size is known."""
        self._calm = 0
        if self._size:
            self._each = min(self._each + 1, self._most)

    def note_wait(self, seconds: float) -> None:
        # The pipeline runs more batches at once only if more are there, and keeps to that only if it is faster.
        self._waited, self._count, self._calm = self._waited + seconds, self._count + 1, self._calm + 1
        batches = self.limit
        if self._count < batches:
            return
        now = time.monotonic()
        if self._since and self._waited > _WAITS * (now - self._since):
            self.allow_more()
        elif self._calm > _CALM * batches:
            self._each, self._calm = max(self._each - 1, min(_EACH, self._each)), 0
        self._waited, self._since, self._count = 0.0, now, 0

    def note_empty(self) -> None:
        """Record that the loop waits for samples."""
        self._calm = 0

    @property
    def reach(self) -> int:
        """Number of batches that one with slow samples may begin before its turn, at most."""
        if not (self.in_order and self._costs):
            return 0
        readers = self.readers
        return math.ceil(min(self._costs.farthest(readers), self._most * readers))

    def ahead(self, numbered: NumberedIndices) -> float:
        """Return how many batches before its turn a batch begins, because it has slow samples."""
        return self._costs.ahead(numbered.indices, self.readers) if self.in_order and self._costs else 0.0

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
        slow = self.ahead(numbered) > _SLOW
        return self.pool.request(BatchRequest(*self._reader, numbered, seed, session, slow=slow))

    def read_here(self, numbered: NumberedIndices, seed: int) -> CollatedBatch | FailedBatch:
        """Read a batch in this process, with the random numbers that a worker would draw.

        Raises:
            Interrupted: a signal handler raised.
        """
        before = run_delay()
        with seeded(np.random.SeedSequence([seed, numbered.epoch, numbered.number_among_ranks])):
            batch: CollatedBatch | FailedBatch = let_through(super().make, numbered)
        return with_run_delay(batch, before) if isinstance(batch, CollatedBatch) else batch

    def take(self, batch: _Pending) -> Any:
        """Return the batch that has arrived, or raise its error."""
        self._size = batch.nbytes or self._size
        if isinstance(batch, _ReadHere):
            return self._measured(batch.batch)
        try:
            return self._measured(batch.result())
        except (*LOST, WorkerDiedError) as error:
            if self._server.cluster is not None:  # its pool has repeated the batch already
                raise
            return FailedBatch(batch.request.numbered, error.with_traceback(None), None, self.pool.name)

    def _measured(self, batch: Any) -> Any:
        if isinstance(batch, CollatedBatch) and batch.cost is not None:
            self._inputs = batch.cost.nbytes
            seconds = np.frombuffer(batch.cost.samples, np.float32)
            self._costs.note(batch.numbered.indices, seconds, batch.cost.seconds, self.readers)
        return batch

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


@dataclass(eq=False)
class _Drawn:
    """A batch that the sampler has yielded, and that the loop hasn't taken.

    Attributes:
        numbered: its number and indices.
        pending: the batch, once it is requested; or a `Pause` in its place.
    """

    numbered: NumberedIndices
    pending: _Pending | Pause | None = None

    @property
    def waits(self) -> bool:
        """Whether it is requested, and hasn't arrived."""
        return not (self.pending is None or isinstance(self.pending, Pause) or self.pending.done)


class _PoolBatches(_BaseDataLoaderIter):
    """One epoch of a `PoolLoader`.

    As many batches are in flight as the loader allows. A batch with slow samples is requested before those that precede
    it, as early as it must be to arrive in its turn. The loop gets all in order, unless the loader has no order.
    """

    def __init__(self, loader: PoolLoader) -> None:
        super().__init__(loader)
        loader.pool.divide()
        self._loader = loader
        self._drawn: deque[_Drawn] = deque()  # in order
        #: Heap of those that aren't requested: when it is their turn, as a number of batches; their own number.
        self._later: list[tuple[float, int, _Drawn]] = []
        self._taken = 0  # number of batches that the loop has taken
        self._requested = 0  # number of those in flight
        self._drawn_all = False

    def _next_data(self) -> Any:
        if self._requested and not self._loader.asks_workers:  # before a batch is taken: a handler may raise
            for _ in range(_READS):
                self._request_next()
        self._loader.wait(self._has_next)
        if not self._drawn:
            raise StopIteration
        drawn = self._next_done()
        assert drawn is not None  # `_has_next` says so
        self._drawn.remove(drawn)
        self._taken += 1
        if drawn.pending is None or isinstance(drawn.pending, Pause):
            return drawn.pending
        self._requested -= 1
        data = self._loader.take(drawn.pending)
        self._request_more(reads=False)  # a handler that raised would lose this batch
        return pin_memory(data) if self._pin_memory else data  # type: ignore[no-untyped-call]

    def _has_next(self) -> bool:
        if self._next_done() is not None:  # more were requested when the last one was taken
            return True
        self._request_more()
        if self._next_done() is not None or (self._drawn_all and not self._drawn):
            return True
        self._loader.note_empty()
        if self._has_idle_workers():
            self._loader.allow_more()
            self._request_more()
        return False

    def _has_idle_workers(self) -> bool:
        """Return whether workers may have nothing to do, because a slow batch is the next one."""
        if (self._drawn_all and not self._later) or not (self._loader.in_order and self._loader.asks_workers):
            return False
        return sum(drawn.waits for drawn in self._drawn) < _AT_ONCE * self._loader.readers

    def _next_done(self) -> _Drawn | None:
        batches = islice(self._drawn, 1 if self._loader.in_order else None)
        return next((drawn for drawn in batches if drawn.pending is not None and not drawn.waits), None)

    def _request_more(self, reads: bool = True) -> None:
        """Request batches until enough are in flight, or read one, if this process reads and none is in flight."""
        self._loader.pool.handle()
        if not self._loader.asks_workers and (self._requested or not reads):
            return
        while self._request_next() and self._loader.asks_workers:
            pass

    def _request_next(self) -> bool:
        """Request the next batch, unless enough are in flight or the epoch ends. Return whether it did."""
        drawn = self._choose()
        if drawn is None:
            return False
        # A signal handler may raise while this process reads the batch: then it is read again.
        drawn.pending = self._loader.request(drawn.numbered, int(self._base_seed))
        self._requested += 1
        return True

    def _choose(self) -> _Drawn | None:
        """Return the batch to request next; None if enough are in flight."""
        limit = self._loader.limit
        self._draw(limit + self._loader.reach)
        while self._later and self._later[0][-1].pending is not None:
            heapq.heappop(self._later)
        if not self._later:
            return None
        turn, _, drawn = self._later[0]
        if turn - self._taken >= limit:
            return None
        if self._requested < self._loader.bound:
            return drawn
        first = self._drawn[0]  # the loop waits for it
        return first if first.pending is None else None

    def _draw(self, count: int) -> None:
        """Draw batches from the sampler until so many are drawn that the loop hasn't taken."""
        while not self._drawn_all and len(self._drawn) < count:
            try:
                drawn = _Drawn(next(self._sampler_iter))
            except StopIteration:
                self._drawn_all = True
                return
            number = self._taken + len(self._drawn)
            self._drawn.append(drawn)
            if isinstance(drawn.numbered.indices, Pause):
                drawn.pending = drawn.numbered.indices
            else:
                heapq.heappush(self._later, (number - self._loader.ahead(drawn.numbered), number, drawn))

    @finalizer
    def __del__(self) -> None:
        for drawn in self._drawn:
            if drawn.pending is not None and not isinstance(drawn.pending, Pause):
                drawn.pending.drop()
