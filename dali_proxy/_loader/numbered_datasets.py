"""Wrappers of the user's samplers and datasets, which number batches on their way through torch's loader.

Random numbers, errors and cancellation depend on the batch and the epoch that a sample belongs to. torch sends a worker
only indices, so the sampler wraps these in a `NumberedIndices`. In the worker, the dataset unwraps them and stores the
numbers in the `BatchContext` of its thread, where the proxy finds them.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from torch.utils.data import Dataset, get_worker_info

from dali_proxy._common.batch_reading import BatchRequest
from dali_proxy._common.bound_process import unblock_interrupts
from dali_proxy._loader.batches import Chunk, CollatedBatch, FailedBatch, NumberedIndices, Pause
from dali_proxy._loader.generators import DrawWatch
from dali_proxy._loader.own_worker import OwnWorker, mark_signal_exits
from dali_proxy._worker.batch_context import BatchContext, this_thread
from dali_proxy._worker.placeholders import SampleRef
from dali_proxy.pipeline._ipc.pickling import for_spawned
from dali_proxy.pipeline._ipc.signals import deferred_signals
from dali_proxy.pipeline._secrets import redacted


def session_of(first: int, epoch: int) -> int:
    """Return the session number of an epoch.

    Each epoch has its own session. If persistent workers used one session for all epochs, the message from the training
    process that closes it could arrive after the first requests of the next epoch.
    """
    return (first + epoch) % (1 << 63) or 1


@dataclass(frozen=True)
class SamplerStart:
    """The position at which a sampler resumes.

    Attributes:
        batches: number of items to skip at the beginning.
        done: numbers of later items to skip.
        load: function that restores the sampler's state before the last skipped item; if None, all skipped items are
            drawn and dropped. Unless `exact`, the last skipped item is drawn again, because samplers differ in their
            behaviour and state at the end of an epoch.
        exact: whether `load` restores the state after the last skipped item.
    """

    batches: int = 0
    done: frozenset[int] = frozenset()
    load: Callable[[], None] | None = None
    exact: bool = False

    @property
    def first_drawn(self) -> int:
        """Number of the first item to draw."""
        return 0 if self.load is None else last_drawn(self.batches, self.exact)


def last_drawn(batches: int, exact: bool = False) -> int:
    """Return the number of the first item to draw from a sampler's restored state after `batches` items are done.

    It is the last item that is done, unless that is the epoch's first one: before the first item, a sampler's state may
    be the state at the end of the previous epoch. A `RankBatchSampler` is restored exactly after that item: the
    next number of ranks may differ, and the item with it.
    """
    return batches if exact or batches <= 1 else batches - 1


class NumberedSampler:
    """Wraps a sampler or batch sampler in the training process.

    Args:
        sampler: the user's sampler.
        take: function that is called with an item's number before the sampler yields the item.
        watch: watches the sampler's draws; None for no watch.

    Attributes:
        epoch: epoch number of the iterators that start from now on.
        rank: rank of this process in these epochs.
        keeps_inputs: whether the pipeline's inputs are kept with each batch.
        start: their starting position.
        items: items of the latest epoch.
    """

    def __init__(
        self, sampler: Iterable[Any], take: Callable[[int], None] | None = None, watch: DrawWatch | None = None
    ) -> None:
        self.sampler = sampler
        self.watch = watch
        self.epoch = 0
        self.rank = 0
        self.keeps_inputs = False
        self.start = SamplerStart()
        self.items: NumberedItems | None = None
        self._take = take
        #: Number of batches in a chunk, and number of workers that take turns.
        self.chunk = 1
        self.workers = 1

    def __iter__(self) -> NumberedItems:
        start = self.start  # for every call: torch creates two iterators for an epoch and uses the second one
        if start.load is not None:
            start.load()
        if self._take is not None:
            self._take(start.first_drawn)
        # The user's sampler starts now rather than at the first `next`, as in torch's loader.
        self.items = NumberedItems(iter(self.sampler), self.epoch, start, self._take, self)
        return self.items

    def __len__(self) -> int:
        return len(self.sampler)  # type: ignore[arg-type]


class NumberedItems(Iterator["NumberedIndices | Chunk"]):
    """One epoch of a `NumberedSampler`.

    If the sampler asks for chunks, each worker gets the same batches as without chunks: in a round, worker w of n gets
    the batches w, w + n, w + 2n and so on of the round.

    torch draws from a sampler while it holds a batch for the training loop, and would lose that batch if the sampler
    raised. So `failures` stores the sampler's exceptions, and a `Pause` replaces the item.

    Attributes:
        last: item that was drawn last; None before the first one.
        rounds: rounds of chunks whose batches the training loop hasn't received yet, in order.
        failures: exceptions of the sampler that the training loop hasn't received yet, in order.
    """

    last: NumberedIndices | None = None

    def __init__(
        self,
        items: Iterator[Any],
        epoch: int,
        start: SamplerStart,
        take: Callable[[int], None] | None,
        sampler: NumberedSampler,
    ) -> None:
        self.failures: deque[BaseException] = deque()
        self.rounds: deque[tuple[Chunk, ...]] = deque()
        self._sampler = sampler
        self._chunks: deque[Chunk] = deque()  # those of the last round that torch hasn't drawn
        self._turn = 0  # number of the worker that gets the next item
        self._items = items
        self._epoch, self._rank = epoch, sampler.rank
        self._start = start
        self._take = take
        self._first = self._number = start.first_drawn  # number of the next item
        self._begun: deque[NumberedIndices] | None = None

    def begin(self) -> None:
        """Draw the first item unless it is drawn already: samplers draw their random numbers with it."""
        if self._begun is None:
            self._begun = deque()
            with suppress(StopIteration):
                self._begun.append(self._draw())

    def __next__(self) -> NumberedIndices | Chunk:
        with deferred_signals:  # a generator in which a handler raised would end
            if not self._chunks and self._turn == 0 and self._sampler.chunk > 1:
                self._draw_round()
            if self._chunks:
                return self._chunks.popleft()
            self.last = self._begun.popleft() if self._begun else self._draw()
            self._turn = (self._turn + 1) % self._sampler.workers
        return self.last

    def _draw_round(self) -> None:
        workers = self._sampler.workers
        drawn: list[NumberedIndices] = []
        with suppress(StopIteration):
            while len(drawn) < workers * self._sampler.chunk:
                drawn.append(self._begun.popleft() if self._begun else self._draw())
        if drawn:
            self.rounds.append(tuple([Chunk(tuple(drawn[each::workers])) for each in range(min(workers, len(drawn)))]))
            self._chunks.extend(self.rounds[-1])

    def _draw(self) -> NumberedIndices:
        try:
            while True:
                watch = None if self._number == self._first else self._sampler.watch
                indices = next(self._items) if watch is None else watch.next(self._items)
                number, self._number = self._number, self._number + 1
                if self._take is not None:
                    self._save_state(self._take)
                if number >= self._start.batches and number not in self._start.done:
                    return NumberedIndices(self._epoch, number, indices, self._rank, self._sampler.keeps_inputs)
        except StopIteration:
            raise
        except BaseException as error:  # noqa: BLE001  # raised later, in the training loop
            self.failures.append(error)
            return NumberedIndices(self._epoch, self._number, Pause())

    def _save_state(self, take: Callable[[int], None]) -> None:
        try:
            take(self._number)
        except StopIteration as stop:
            what = "StopIteration was raised by the sampler's state_dict"
            raise RuntimeError(f"{what}, which would end the epoch") from stop


class WrapsDataset:
    """Base class of the wrappers of the user's dataset. The attribute `dataset` is the user's dataset."""

    dataset: Any

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "dataset": for_spawned(self.dataset)}

    def __repr__(self) -> str:  # in torch's warnings
        return repr(self.dataset)


class NumberedDataset(WrapsDataset, Dataset[Any]):
    """Wraps a map-style dataset. Its indices are `NumberedIndices`, so it requires a `NumberedSampler`.

    Args:
        dataset: the user's dataset.
        first_session: session number of epoch 0.
        own: this process's role in the loader.

    Attributes:
        request: in a process that reads for other processes: the request that it reads. Else None.
    """

    request: BatchRequest | None = None

    def __init__(self, dataset: Any, first_session: int, own: OwnWorker) -> None:
        self.dataset = dataset
        self.first_session = first_session
        self.own = own

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, numbered: NumberedIndices | Chunk) -> Any:
        if isinstance(numbered, Chunk):  # its batches are read and collated in turn
            return replace(numbered, read=self.__getitem__)
        return self._caught(numbered, self._one)

    def __getitems__(self, numbered: NumberedIndices | Chunk) -> Any:
        if isinstance(numbered, Chunk):
            return replace(numbered, read=self.__getitems__)
        return self._caught(numbered, self._batch)

    def _caught(self, numbered: NumberedIndices, make: Callable[[Any, BatchContext], Any]) -> Any:
        if isinstance(numbered.indices, Pause):
            return Pause()
        request = self.request
        session = session_of(self.first_session, numbered.epoch) if request is None else request.session
        numbers = session, numbered.epoch, numbered.batch, numbered.indices
        context = BatchContext(*numbers, rank=numbered.rank, keeps_inputs=numbered.keeps_inputs)
        this_thread.context = context
        try:
            return make(numbered.indices, context)
        except BaseException as error:
            if self.own.is_interrupted_by(error):
                raise
            return FailedBatch.from_error(numbered, error, context.index, self.own)

    def _one(self, index: Any, context: BatchContext) -> Any:
        return self._read([index], context)[0]

    def _batch(self, indices: Any, context: BatchContext) -> Any:
        get_all = getattr(self.dataset, "__getitems__", None)
        if get_all:
            return get_all(indices)
        return self._read(indices, context)

    def _read(self, indices: Iterable[Any], context: BatchContext) -> list[Any]:
        samples: list[Any] = []
        longest, slowest = 0.0, (None, None)
        before = time.perf_counter()
        for index in indices:
            context.index = index
            samples.append(self.dataset[index])
            now = time.perf_counter()
            context.seconds.append(now - before)
            if now - before > longest:
                longest, slowest = now - before, (index, samples[-1])
            before = now
        context.slowest = _named(*slowest), longest
        return samples


def _named(index: Any, sample: Any) -> Any:
    """Return the dataset index of a sample, with the name that the dataset gave it for the proxy, if any."""
    for part in sample if isinstance(sample, tuple | list) else (sample,):
        if isinstance(part, SampleRef) and part.sample.name:
            return f"{index} ({redacted(part.sample.name)})"
    return index


class WorkerInit:
    """The `worker_init_fn` of the inner loader.

    It exposes the user's dataset in `get_worker_info()`, then calls the user's function.

    Ctrl-C reaches all processes of a terminal or a notebook. It is blocked until torch's loop runs, which then ends the
    worker: one that ended earlier would be an error in the process that iterates, instead of a KeyboardInterrupt.

    A forked worker never collects inherited objects: it must not finalize garbage of the training process. For example,
    an iterator that torch created fails when a worker finalizes it.

    Args:
        user_init: the user's function, or None.
        own: role of this process, which the call sets in the worker.
    """

    def __init__(self, user_init: Callable[[int], None] | None, own: OwnWorker) -> None:
        self.user_init = user_init
        self.own = own

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "user_init": for_spawned(self.user_init)}

    def __call__(self, worker_id: int) -> None:
        unblock_interrupts()
        gc.freeze()
        info = get_worker_info()
        assert info is not None  # torch calls this in workers only
        self.own.id, self.own.count = info.id, info.num_workers
        if isinstance(info.dataset, WrapsDataset):
            object.__setattr__(info, "dataset", info.dataset.dataset)  # torch makes it immutable
        try:
            if self.user_init is not None:
                self.user_init(worker_id)
        except BaseException as error:
            if self.own.is_interrupted_by(error):
                raise
            self.own.init_error = error  # raised for each batch of this worker; torch reports it only for the first one
        mark_signal_exits()


def create_batch(
    dataset: NumberedDataset, collate: Callable[[Any], Any], has_batches: bool, numbered: NumberedIndices
) -> CollatedBatch | FailedBatch:
    """Compute a batch in this process.

    Args:
        dataset: the wrapped dataset.
        collate: the wrapped collate function.
        has_batches: whether `numbered` has the indices of a batch, and not a single one.
        numbered: number and indices of the batch.
    """
    batch: CollatedBatch | FailedBatch = collate(dataset.__getitems__(numbered) if has_batches else dataset[numbered])
    return batch
