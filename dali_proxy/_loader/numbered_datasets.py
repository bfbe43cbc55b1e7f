"""Numbers batches on their way through torch's loader: samplers and datasets that wrap the user's.

Random numbers, errors and cancellation need to know which batch of which epoch a sample belongs to. torch hands a
worker nothing but indices, so the sampler wraps these into a `NumberedIndices`, and the dataset, in the worker, takes
them out again and notes them in the `BatchContext` of its thread, where the proxy finds them.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from torch.utils.data import Dataset, get_worker_info

from dali_proxy._loader.batches import NumberedIndices, Unmade
from dali_proxy._worker.batch_context import BatchContext, set_context
from pipeline._ipc.signals import deferred_signals

__all__ = [
    "NumberedDataset",
    "NumberedItems",
    "NumberedSampler",
    "SamplerStart",
    "WorkerInit",
    "WrapsDataset",
    "batch_number",
    "last_drawn",
    "session_of",
]


def session_of(first: int, epoch: int) -> int:
    """Return the number of the session of an epoch.

    Each has its own. If persistent workers kept one, the message that ends an epoch's session, which comes from the
    training process, could overtake what they submit for the next.
    """
    return (first + epoch) % (1 << 63) or 1


def batch_number(made: int) -> int:
    """Return the number of the batch that this process makes after `made` others: no two workers use one number."""
    worker = get_worker_info()
    return made if worker is None else worker.id + made * worker.num_workers


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

    Attributes:
        last: what was drawn last; None before that.
    """

    last: NumberedIndices | None = None

    def __init__(
        self, items: Iterator[Any], epoch: int, start: SamplerStart, take: Callable[[int], None] | None
    ) -> None:
        if take is not None:
            items = _told(items, start.first_drawn, take)
        self._numbered = self._number(items, epoch, start)
        self._drawn: deque[NumberedIndices] = deque()
        self._begun = False

    @staticmethod
    def _number(items: Iterator[Any], epoch: int, start: SamplerStart) -> Iterator[NumberedIndices]:
        items = islice(items, start.batches - start.first_drawn, None)
        for batch, indices in enumerate(items, start.batches):
            if batch not in start.done:
                yield NumberedIndices(epoch, batch, indices)

    def begin(self) -> None:
        """Draw the first item, if that has not been done: samplers draw their random numbers with it."""
        if not self._begun:
            self._drawn.extend(islice(self._numbered, 1))
            self._begun = True

    def __next__(self) -> NumberedIndices:
        self._begun = True
        with deferred_signals:  # a generator in which a handler raised would say that it has ended
            self.last = self._drawn.popleft() if self._drawn else next(self._numbered)
        return self.last


def _told(items: Iterator[Any], number: int, take: Callable[[int], None]) -> Iterator[Any]:
    for following, item in enumerate(items, number + 1):
        take(following)
        yield item


class WrapsDataset:
    """What wraps the user's dataset, which is its attribute `dataset`."""

    dataset: Any


class NumberedDataset(WrapsDataset, Dataset[Any]):
    """Wraps a map-style dataset; takes `NumberedIndices`, so it works with a `NumberedSampler` only.

    Args:
        dataset: the user's.
        first_session: session of epoch 0.
        catch: exceptions that the training process deals with: an `Unmade` is returned for them.
    """

    def __init__(self, dataset: Any, first_session: int, catch: tuple[type[Exception], ...] = ()) -> None:
        self.dataset = dataset
        self.first_session = first_session
        self.catch = catch

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, numbered: NumberedIndices) -> Any:
        return self._caught(numbered, self._one)

    def __getitems__(self, numbered: NumberedIndices) -> Any:
        return self._caught(numbered, self._batch)

    def _caught(self, numbered: NumberedIndices, make: Callable[[Any, BatchContext], Any]) -> Any:
        session = session_of(self.first_session, numbered.epoch)
        context = BatchContext(session, numbered.epoch, numbered.batch, numbered.indices)
        set_context(context)
        try:
            return make(numbered.indices, context)
        except self.catch as error:
            return Unmade.of(numbered, error, "" if context.index is None else str(context.index))

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
    """

    def __init__(self, user_init: Callable[[int], None] | None) -> None:
        self.user_init = user_init

    def __call__(self, worker_id: int) -> None:
        gc.freeze()
        info = get_worker_info()
        if info is not None and isinstance(info.dataset, WrapsDataset):
            object.__setattr__(info, "dataset", info.dataset.dataset)  # torch declares it frozen
        if self.user_init is not None:
            self.user_init(worker_id)
