"""The torch loader inside our loader, and the loop over it: workers or this process make batches of placeholders."""

from __future__ import annotations

import errno
import inspect
import multiprocessing
import os
import queue
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

import torch.utils.data

from dali_proxy._common.in_flight import InFlight
from dali_proxy._common.process_exit import EndedWorkers
from dali_proxy._loader.batches import Chunk, CollatedBatch, FailedBatch, NumberedIndices, Pause
from dali_proxy._loader.flight import Flight
from dali_proxy._loader.generators import copy_of
from dali_proxy._loader.numbered_datasets import NumberedDataset, NumberedItems, NumberedSampler, create_batch
from dali_proxy._loader.queues import get_in_turns
from dali_proxy._loader.resume import LoaderState, SamplerState
from dali_proxy._worker.batch_context import this_thread
from dali_proxy.errors import ProxyError
from dali_proxy.pipeline._concurrency.forking import keep_in_child, no_forks
from dali_proxy.pipeline._concurrency.interrupts import is_interrupt
from dali_proxy.pipeline._ipc.signals import Interrupted, deferred_signals, let_through

T = TypeVar("T")

_MISSING = {
    errno.ENOSPC: "/dev/shm has no space for the semaphores of their queues",
    errno.EAGAIN: "the limit of processes is reached (ulimit -u, or pids.max of the container)",
}


class InnerLoader(torch.utils.data.DataLoader[Any]):
    """A torch `DataLoader` over wrapped datasets and samplers."""

    def check_worker_number_rationality(self) -> None:
        """Do nothing: the outer loader has already warned."""

    @property
    def reads_here(self) -> bool:
        """Whether this process reads the samples."""
        return self.num_workers == 0

    @property
    def stays(self) -> str | None:
        """Why this process reads all samples, of a loader whose server may change that; else empty or None.

        It is empty if workers may read them, and None if the server doesn't decide.
        """
        return None

    def modules(self) -> tuple[str, ...]:
        """Return the names of the modules of the user's dataset and its parts: other processes need them to read.

        This calls no code of the user: a ``__getattr__`` may raise anything.
        """
        dataset = getattr(self.dataset, "dataset", self.dataset)
        parts = [dataset]
        with suppress(AttributeError):  # it has slots
            parts += object.__getattribute__(dataset, "__dict__").values()
        owners = [part if inspect.isclass(part) or inspect.isroutine(part) else type(part) for part in parts]
        names = {str(owner.__module__) for owner in owners}
        return tuple(sorted(names - {"__main__", "__mp_main__", "builtins"}))

    @property
    def readers(self) -> int:
        """Number of processes that read the samples; 0 if this process does."""
        return self.num_workers

    @property
    def in_flight(self) -> InFlight:
        """Number of batches that workers have got, and the loop hasn't, at most."""
        return InFlight(max(self.num_workers, 1) * (self.prefetch_factor or 1), "prefetch_factor")

    def note_wait(self, seconds: float) -> None:
        """Record for how many seconds the loop has waited for a result."""

    def make(self, numbered: NumberedIndices) -> CollatedBatch | FailedBatch:
        """Compute a batch in this process. Only datasets with indices allow that."""
        assert isinstance(self.dataset, NumberedDataset)
        return create_batch(self.dataset, self.collate_fn, self.batch_sampler is not None, numbered)


class InnerLoop:
    """A loop over the inner loader.

    It may run in the same thread as another loop, while that loop reads a sample, so it leaves the other loop's context
    unchanged. No batch is lost when a signal handler raises: callers run `next` and `make` inside `deferred_signals`,
    and handlers run only while the loop waits or while the user's code runs.

    Args:
        loader: the inner loader.
        sampler: sampler that numbers the batches; None if the dataset numbers them.
        sampler_state: states of the user's sampler.

    Attributes:
        make: function that repeats a batch in this process; None if that is impossible.
        num_workers: number of processes that read the samples; 0 if this process does.
        timeout: seconds that a worker may take for a batch; 0 for no limit.
        in_order: whether the numbers of batches grow.
        chunk: number of batches that a worker gets at once.
        batches: torch's iterator of the epoch; None if no epoch has begun, or it has ended.
    """

    make: Callable[[NumberedIndices], CollatedBatch | FailedBatch] | None

    def __init__(self, loader: InnerLoader, sampler: NumberedSampler | None, sampler_state: SamplerState) -> None:
        self.num_workers, self.timeout = loader.readers, loader.timeout
        self.in_order = sampler is not None and getattr(loader, "in_order", True)
        self._reads_here = loader.reads_here
        self._result_size = 0
        self._ended_workers = EndedWorkers()
        self._loader = loader
        self._sampler = sampler
        self._sampler_state = sampler_state
        self.chunk = 1
        self.batches: Iterator[Any] | None = None
        self._items: NumberedItems | None = None  # those that torch draws in the epoch
        self._begun_in = 0  # process that has started the workers
        self._held: CollatedBatch | FailedBatch | Pause | None = None  # arrived when the sampler raised
        self._round: _Round | None = None  # chunks that have arrived, and their batches that `next` hasn't returned
        self._flight = Flight(max(loader.num_workers, 1), loader.prefetch_factor or 1) if _chunks(loader) else None
        #: Without workers: the indices of a batch that a signal handler interrupted.
        self._interrupted: NumberedIndices | None = None
        has_indices = isinstance(loader.dataset, NumberedDataset)
        self.make = (lambda numbered: _with_handlers(loader.make, numbered)) if has_indices else None

    def __len__(self) -> int:
        return len(self._loader)

    @property
    def workers(self) -> Sequence[BaseProcess]:
        """The worker processes."""
        workers: Sequence[BaseProcess] = getattr(self.batches, "_workers", ())  # torch has no public name for it
        return workers

    @property
    def has_ended_worker(self) -> bool:
        """Whether any worker process has ended."""
        return self._ended_workers.any_of(self.workers)

    @property
    def in_flight(self) -> InFlight:
        """Number of batches that workers have got, and the loop hasn't, at most."""
        if self._flight is not None:
            return self._flight.in_flight
        return self._loader.in_flight

    def note_result(self, nbytes: int, waited: float, on_gpu: bool) -> None:
        """Record the size of a result, and for how many seconds the loop has waited for it."""
        self._result_size = nbytes
        self._loader.note_wait(waited)
        if self._flight is not None:
            self._flight.note_wait(waited if on_gpu else 0.0)  # the training needs the host's memory

    def begin(self, start: LoaderState, resumes: bool) -> None:
        """Begin an epoch. The arguments are those of `LoaderIterator`."""
        self._held = self._interrupted = None
        self._round = None
        self._ended_workers = EndedWorkers()
        if self._sampler is not None:
            if self._flight is not None:
                self.chunk = self._sampler.chunk = self._flight.restart()
            self._sampler.workers = max(self._loader.num_workers, 1)
            self._sampler.epoch, self._sampler.rank = start.epoch, start.rank or 0
            self._sampler.start = self._sampler_state.start(start, resumes)
        generator = self._loader.generator
        if not start.seeded and start.kind != "datapipe":
            self._loader.generator = copy_of(generator)  # a new iterator draws a seed, which isn't part of the order
        batches: Any = None
        try:
            # A thread that draws random numbers holds the generator's lock, and workers take this lock when they
            # start: a worker that another thread forks at that moment would wait for it forever.
            with no_forks, deferred_signals:  # Python drops exceptions that handlers raise in its fork hooks
                batches = self._begin_batches()
                self._loader.generator = generator
                self._items = None if self._sampler is None else self._sampler.items
                if self._items is not None:
                    self._items.begin()  # draws random numbers now instead of at the first `next`
            if start.kind == "datapipe":  # pipes can't seek: start over and skip
                with deferred_signals:
                    _with_handlers(_skip, batches, start.batches)
        except BaseException:
            batches = None  # a notebook keeps the exception and this frame, which would keep the workers
            raise
        pinned = getattr(batches, "_data_queue", None)  # torch has no public name for it
        if isinstance(pinned, queue.Queue) and "get" not in vars(pinned):
            get_in_turns(pinned)
        if self._loader.num_workers:  # torch's finalizer would take locks of these workers' queues in other children
            keep_in_child(batches)
        self.batches, self._begun_in = batches, os.getpid()

    def next(self) -> CollatedBatch | FailedBatch:
        """Wait for the next batch.

        Raises:
            StopIteration: the epoch has ended.
            Interrupted: a signal handler raised. The next call returns the batch.
            BaseException: the sampler raised it. The next call returns the next batch.
        """
        while True:
            items = self._items
            if items is not None and items.failures:
                raise items.failures.popleft()
            batch, self._held = self._held or self._next_in_order(), None
            if items is not None and items.failures:
                self._held = batch
            elif not isinstance(batch, Pause):
                if self._flight is not None and self._sampler is not None and isinstance(batch, CollatedBatch):
                    self.chunk = self._sampler.chunk = self._flight.observe(batch, self._result_size)
                return batch

    @deferred_signals  # Python discards the exception of a handler that it calls while an object is freed
    def end(self) -> None:
        """Drop the epoch and end its workers."""
        self.batches = self._held = self._interrupted = self._round = None
        self._ended_workers = EndedWorkers()

    def leave(self) -> None:
        """Do the same in a finalizer. Handlers may interrupt the wait for workers, which are then terminated."""
        shut_down = getattr(self.batches, "_shutdown_workers", None)  # torch has no public name for it
        try:
            if shut_down is not None and self._begun_in == os.getpid():  # a forked child must not end them
                let_through(shut_down)
        finally:
            self.end()

    def _next_in_order(self) -> CollatedBatch | FailedBatch | Pause:
        """Wait for the next message of a worker, unless its batch is in a chunk that has arrived."""
        while True:
            if self._round is None:
                arrived = self._next()
                if not isinstance(arrived, list):
                    single: CollatedBatch | FailedBatch | Pause = arrived
                    return single
                assert self._items is not None  # only its sampler makes chunks
                self._round = _Round(self._items.rounds.popleft(), arrived)
            batch = self._round.next(self._next)
            if batch is not None:
                return batch
            self._round = None

    def _next(self) -> Any:
        batches, items = self.batches, self._items
        assert batches is not None
        if not self._reads_here:
            return _without_context(next, batches)
        before = None if items is None else items.last
        try:
            if self._interrupted is not None and self.make is not None:
                batch = self.make(self._interrupted)
            else:
                batch = _without_context(let_through, next, batches)
        except Interrupted as interrupted:  # by an exception of the dataset, or by a handler while the dataset was read
            if is_interrupt(interrupted.args[0]):
                if items is not None and items.last is not before:
                    self._interrupted = items.last
                raise
            error: BaseException = interrupted.args[0]
        else:
            self._interrupted = None
            return batch
        self._interrupted = None
        try:
            raise error  # outside of the `except` block, else `interrupted` would become its __context__
        finally:  # its traceback refers to this frame and to the caller's frame, which holds tensors
            del error

    def _begin_batches(self) -> Iterator[Any]:
        try:
            return _without_context(iter, self._loader)
        except OSError as error:
            missing = _MISSING.get(error.errno or 0)
            if missing is None or error.filename:
                raise
            raise OSError(error.errno, f"the loader's workers can't be started: {missing}") from error
        except AssertionError as error:
            if not (self._loader.num_workers > 0 and multiprocessing.current_process().daemon):
                raise
            raise ProxyError(
                f"a loader with num_workers={self._loader.num_workers} can't start workers in this process, which is a "
                "loader's worker or another daemonic process: Python doesn't let these have children. Use "
                "num_workers=0 for a loop inside a worker"
            ) from error


class _Round:
    """Chunks of all workers, and the order of their batches.

    Args:
        chunks: the chunks, as the workers got them.
        first: batches of the first one, which has arrived.
    """

    def __init__(self, chunks: Sequence[Chunk], first: list[Any]) -> None:
        self._chunks = chunks
        self._arrived = [first]
        self._position = 0

    def next(self, receive: Callable[[], list[Any]]) -> CollatedBatch | FailedBatch | Pause | None:
        """Return the next batch, or None after the last one. Receive the next chunk if the batch is in it."""
        while True:
            number, worker = divmod(self._position, len(self._chunks))
            if number >= len(self._chunks[0].numbered):
                return None
            if worker == len(self._arrived):
                self._arrived.append([])  # if torch raises, it has dropped the chunk
                try:
                    self._arrived[-1] = receive()
                except Interrupted:
                    self._arrived.pop()
                    raise
            self._position += 1
            if number < len(self._arrived[worker]):
                batch: CollatedBatch | FailedBatch | Pause = self._arrived[worker][number]
                self._arrived[worker][number] = None
                if isinstance(batch, CollatedBatch):
                    _, data, position, cost = batch
                    return CollatedBatch(self._chunks[worker].numbered[number], data, position, cost)
                return batch


def _chunks(loader: InnerLoader) -> bool:
    """Return whether a loader's batches may form chunks: its workers take turns, and know nothing of the next batch."""
    return loader.num_workers > 0 and isinstance(loader.dataset, NumberedDataset) and getattr(loader, "in_order", True)


def _without_context(call: Callable[..., T], *args: Any) -> T:
    """Return ``call(*args)``, without a context: a loop inside another loop sets its own contexts."""
    outer, this_thread.context = this_thread.context, None
    try:
        return call(*args)
    finally:
        this_thread.context = outer


def _with_handlers(call: Callable[..., Any], *args: Any) -> Any:
    """Call the user's code without the context of an outer loop; let signal handlers run meanwhile."""
    return _without_context(let_through, call, *args)


def _skip(batches: Iterator[Any], count: int) -> None:
    deque(islice(batches, count), maxlen=0)
