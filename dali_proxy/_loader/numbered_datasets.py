"""Numbers batches on their way through torch's loader: samplers and datasets that wrap the user's.

Random numbers, errors and cancellation need to know which batch of which epoch a sample belongs to. torch hands a
worker nothing but indices, so the sampler wraps these into a `NumberedIndices`, and the dataset, in the worker, takes
them out again and notes them in the `BatchContext` of its thread, where the proxy finds them.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from torch.utils.data import Dataset, get_worker_info

from dali_proxy._loader.batches import NumberedIndices, Pause, Unmade
from dali_proxy._loader.own_worker import OwnWorker, mark_signal_exits
from dali_proxy._worker.batch_context import BatchContext, set_context
from pipeline._ipc.signals import deferred_signals

__all__ = [
    "NumberedDataset",
    "NumberedItems",
    "NumberedSampler",
    "SamplerStart",
    "WorkerInit",
    "WrapsDataset",
    "last_drawn",
    "session_of",
]


def session_of(first: int, epoch: int) -> int:
    """Return the number of the session of an epoch.

    Each has its own. If persistent workers kept one, the message that ends an epoch's session, which comes from the
    training process, could overtake what they submit for the next.
    """
    return (first + epoch) % (1 << 63) or 1


@dataclass(frozen=True)
class SamplerStart:
    """Where a sampler goes on.

    Attributes:
        batches: how many items of it are left out.
        done: numbers of later ones that are left out, too.
        load: brings the sampler itself to where it was before the last item that is left out; if None, all of them are
            drawn and dropped. That last one is drawn again in any case: how a sampler behaves at its end, and what its
            state is then, is its own matter.
    """

    batches: int = 0
    done: frozenset[int] = frozenset()
    load: Callable[[], None] | None = None

    @property
    def first_drawn(self) -> int:
        """Number of the first item that is drawn."""
        return 0 if self.load is None else last_drawn(self.batches)


def last_drawn(batches: int) -> int:
    """Return the number of the item that is drawn first, from a sampler's state, where so many are done.

    It is the last of those, except the first: before an epoch's first item, a sampler's state may be that of the end of
    the epoch before.
    """
    return batches if batches <= 1 else batches - 1


class NumberedSampler:
    """Wraps a sampler or batch sampler; runs in the training process.

    Args:
        sampler: the user's.
        take: called whenever the sampler is about to give an item, with the number of that item.

    Attributes:
        epoch: number given to the epochs that start from now on.
        start: where they start.
        items: those of the epoch that started last.
    """

    def __init__(self, sampler: Iterable[Any], take: Callable[[int], None] | None = None) -> None:
        self.sampler = sampler
        self.epoch = 0
        self.start = SamplerStart()
        self.items: NumberedItems | None = None
        self._take = take

    def __iter__(self) -> NumberedItems:
        start = self.start  # for every call: torch makes two iterators for an epoch, and uses the second one
        if start.load is not None:
            start.load()
        if self._take is not None:
            self._take(start.first_drawn)
        # The user's sampler starts here and now, not at the first `next`, as it does without us.
        self.items = NumberedItems(iter(self.sampler), self.epoch, start, self._take)
        return self.items

    def __len__(self) -> int:
        return len(self.sampler)  # type: ignore[arg-type]


class NumberedItems(Iterator[NumberedIndices]):
    """One epoch of a `NumberedSampler`.

    torch draws from a sampler while it holds a batch for the training loop, and would lose that batch if the sampler
    raised. So `failures` keeps what the sampler raises, and a `Pause` takes the item's place.

    Attributes:
        last: the item that was drawn last; None before that.
        failures: exceptions of the sampler that the training loop hasn't got yet, in order.
    """

    last: NumberedIndices | None = None

    def __init__(
        self, items: Iterator[Any], epoch: int, start: SamplerStart, take: Callable[[int], None] | None
    ) -> None:
        self.failures: deque[BaseException] = deque()
        self._items = items
        self._epoch = epoch
        self._start = start
        self._take = take
        self._number = start.first_drawn  # of the next item
        self._begun: deque[NumberedIndices] | None = None

    def begin(self) -> None:
        """Draw the first item, if that has not been done: samplers draw their random numbers with it."""
        if self._begun is None:
            self._begun = deque()
            with suppress(StopIteration):
                self._begun.append(self._draw())

    def __next__(self) -> NumberedIndices:
        with deferred_signals:  # a generator in which a handler raised would say that it has ended
            if self._begun is None:
                self._begun = deque()
            self.last = self._begun.popleft() if self._begun else self._draw()
        return self.last

    def _draw(self) -> NumberedIndices:
        try:
            while True:
                indices = next(self._items)
                number, self._number = self._number, self._number + 1
                if self._take is not None:
                    self._take(self._number)
                if number >= self._start.batches and number not in self._start.done:
                    return NumberedIndices(self._epoch, number, indices)
        except StopIteration:
            raise
        except BaseException as error:  # noqa: BLE001  # the training loop gets it
            self.failures.append(error)
            return NumberedIndices(self._epoch, self._number, Pause())


class WrapsDataset:
    """What wraps the user's dataset, which is its attribute `dataset`."""

    dataset: Any


class NumberedDataset(WrapsDataset, Dataset[Any]):
    """Wraps a map-style dataset; takes `NumberedIndices`, so it works with a `NumberedSampler` only.

    Args:
        dataset: the user's.
        first_session: session of epoch 0.
        own: which worker this process is.
    """

    def __init__(self, dataset: Any, first_session: int, own: OwnWorker) -> None:
        self.dataset = dataset
        self.first_session = first_session
        self.own = own

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, numbered: NumberedIndices) -> Any:
        return self._caught(numbered, self._one)

    def __getitems__(self, numbered: NumberedIndices) -> Any:
        return self._caught(numbered, self._batch)

    def _caught(self, numbered: NumberedIndices, make: Callable[[Any, BatchContext], Any]) -> Any:
        if isinstance(numbered.indices, Pause):
            return Pause()
        session = session_of(self.first_session, numbered.epoch)
        context = BatchContext(session, numbered.epoch, numbered.batch, numbered.indices)
        set_context(context)
        try:
            return make(numbered.indices, context)
        except BaseException as error:
            if self.own.is_interrupted_by(error):
                raise
            return Unmade.of(numbered, error, context.index, self.own)

    def _one(self, index: Any, context: BatchContext) -> Any:
        context.index = index
        return self.dataset[index]

    def _batch(self, indices: Any, context: BatchContext) -> Any:
        get_all = getattr(self.dataset, "__getitems__", None)
        if get_all:
            return get_all(indices)
        samples = []
        for index in indices:
            context.index = index
            samples.append(self.dataset[index])
        return samples


class WorkerInit:
    """The `worker_init_fn` of the inner loader: shows the user's dataset in `get_worker_info()`, then calls theirs.

    What a forked worker inherits it never collects: garbage of the training process isn't its own to end. An iterator
    of torch's, for one, fails when it is.

    Args:
        user_init: the user's function, or None.
        own: filled in, in the worker.
    """

    def __init__(self, user_init: Callable[[int], None] | None, own: OwnWorker) -> None:
        self.user_init = user_init
        self.own = own

    def __call__(self, worker_id: int) -> None:
        gc.freeze()
        info = get_worker_info()
        assert info is not None  # torch calls this in workers only
        self.own.id, self.own.count = info.id, info.num_workers
        if isinstance(info.dataset, WrapsDataset):
            object.__setattr__(info, "dataset", info.dataset.dataset)  # torch declares it frozen
        try:
            if self.user_init is not None:
                self.user_init(worker_id)
        except BaseException as error:
            if self.own.is_interrupted_by(error):
                raise
            self.own.init_error = error  # each batch of this worker has it: torch reports it for the first one only
        mark_signal_exits()
