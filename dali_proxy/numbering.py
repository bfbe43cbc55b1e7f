"""Numbers batches on their way through torch's loader: samplers and datasets that wrap the user's.

Random numbers, errors and cancellation need to know which batch of which epoch a sample belongs to. torch hands a
worker nothing but indices, so the sampler wraps these into a `NumberedIndices`, and the dataset, in the worker, takes
them out again and notes them in the `BatchContext` of its thread, where the proxy finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch.utils.data import Dataset, IterableDataset, get_worker_info

from dali_proxy.batches import NumberedIndices, Unmade
from dali_proxy.context import BatchContext, set_context

__all__ = [
    "NumberedDataset",
    "NumberedIterableDataset",
    "NumberedSampler",
    "WorkerInit",
    "batch_number",
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


class NumberedSampler:
    """Wraps a sampler or batch sampler; runs in the training process.

    Attributes:
        epoch: number given to the epochs that start from now on.
    """

    def __init__(self, sampler: Iterable[Any]) -> None:
        self.sampler = sampler
        self.epoch = 0

    def __iter__(self) -> Iterator[NumberedIndices]:
        # The user's sampler starts here and now, not at the first `next`, as it does without us.
        return self._number(iter(self.sampler), self.epoch)

    @staticmethod
    def _number(items: Iterator[Any], epoch: int) -> Iterator[NumberedIndices]:
        for batch, indices in enumerate(items):
            yield NumberedIndices(epoch, batch, indices)

    def __len__(self) -> int:
        return len(self.sampler)  # type: ignore[arg-type]


class NumberedDataset(Dataset[Any]):
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
            return Unmade.of(numbered, error, context.index)

    def _one(self, index: Any, context: BatchContext) -> Any:
        context.index = str(index)
        return self.dataset[index]

    def _batch(self, indices: Any, context: BatchContext) -> Any:
        get_all = getattr(self.dataset, "__getitems__", None)
        if get_all:
            return get_all(indices)
        samples = []
        for index in indices:
            context.index = str(index)
            samples.append(self.dataset[index])
        return samples


class NumberedIterableDataset(IterableDataset[Any]):
    """Wraps an iterable dataset. Each worker numbers its own batches."""

    def __init__(self, dataset: Any, first_session: int, epoch: int, batch_size: int | None) -> None:
        self.dataset = dataset
        self.first_session = first_session
        self.epoch = epoch  # of the next iteration; persistent workers keep this object and count on
        self.batch_size = batch_size or 1

    def __iter__(self) -> Iterator[Any]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        return self._number(iter(self.dataset), epoch)

    def _number(self, samples: Iterator[Any], epoch: int) -> Iterator[Any]:
        worker = get_worker_info()
        ordinal = 0
        context = BatchContext()
        while True:
            if ordinal % self.batch_size == 0:
                number = batch_number(ordinal // self.batch_size)
                context = BatchContext(session_of(self.first_session, epoch), epoch, number)
            context.index = f"sample {ordinal} of worker {worker.id}" if worker else f"sample {ordinal}"
            set_context(context)  # every time: iterators of one thread may take turns
            try:
                sample = next(samples)
            except StopIteration:
                return
            ordinal += 1
            yield sample


class WorkerInit:
    """The `worker_init_fn` of the inner loader: shows the user's dataset in `get_worker_info()`, then calls theirs."""

    def __init__(self, user_init: Callable[[int], None] | None) -> None:
        self.user_init = user_init

    def __call__(self, worker_id: int) -> None:
        info = get_worker_info()
        if info is not None and isinstance(info.dataset, NumberedDataset | NumberedIterableDataset):
            object.__setattr__(info, "dataset", info.dataset.dataset)  # torch declares it frozen
        if self.user_init is not None:
            self.user_init(worker_id)
