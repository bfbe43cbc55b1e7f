"""Numbers the batches of iterable datasets, and says where their workers are."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice, repeat
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from dali_proxy._loader.numbered_datasets import WrapsDataset, batch_number, session_of
from dali_proxy._worker.batch_context import BatchContext, set_context

__all__ = ["NumberedIterableDataset", "Pause", "StreamStart", "WorkerPlace"]


@dataclass(frozen=True)
class WorkerPlace:
    """Where a worker of an iterable dataset is.

    Attributes:
        batches: how many it has made.
        dataset: state of its dataset, if that has a `state_dict`.
        iterator: state of the dataset's iterator, if that has one.
        ended: whether the dataset has ended.
    """

    batches: int = 0
    dataset: Any = None
    iterator: Any = None
    ended: bool = False


@dataclass(frozen=True)
class StreamStart:
    """Where the workers of an iterable dataset go on.

    Attributes:
        places: where each worker is; one that isn't there has made nothing.
        last: the worker that made the last batch; -1 for none.
    """

    places: dict[int, WorkerPlace] = field(default_factory=dict)
    last: int = -1


class Pause:
    """In the place of a batch: nothing comes, it is the next worker's turn."""


class NumberedIterableDataset(WrapsDataset, IterableDataset[Any]):
    """Wraps an iterable dataset. Each worker numbers its own batches.

    Args:
        dataset: the user's.
        first_session: see `session_of`.
        epoch: of the next iteration; persistent workers keep this object and count on.
        batch_size: samples a batch.
        start: where the next iteration starts; those after it start at their beginning.
    """

    def __init__(
        self,
        dataset: Any,
        first_session: int,
        epoch: int,
        batch_size: int | None,
        start: StreamStart | None = None,
    ) -> None:
        self.dataset = dataset
        self.first_session = first_session
        self.epoch = epoch
        self.batch_size = batch_size or 1
        self.start = start or StreamStart()

    def __iter__(self) -> Iterator[Any]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        start, self.start = self.start, StreamStart()
        worker = get_worker_info()
        number = 0 if worker is None else worker.id
        place = start.places.get(number, WorkerPlace())
        if place.ended:
            return iter(())
        if place.dataset is not None:
            self.dataset.load_state_dict(place.dataset)
        samples = iter(self.dataset)
        if place.iterator is not None:
            samples.load_state_dict(place.iterator)
        elif place.batches and place.dataset is None:
            samples = islice(samples, place.batches * self.batch_size, None)
        # torch asks worker 0 first. Those before the one whose turn it is let it pass.
        pauses = self.batch_size if worker is not None and number <= start.last < worker.num_workers - 1 else 0
        return chain(repeat(Pause(), pauses), self._number(samples, epoch, place.batches))

    def _number(self, samples: Iterator[Any], epoch: int, made: int) -> Iterator[Any]:
        worker = get_worker_info()
        ordinal = made * self.batch_size
        ended = False
        context = BatchContext()

        def place() -> bytes | None:
            """Say where the dataset is now, so that nothing that it does later changes what was said."""
            states = _state_of(self.dataset), _state_of(samples)
            return pickle.dumps((*states, ended)) if ended or states != (None, None) else None

        while True:
            if ordinal % self.batch_size == 0:
                number = batch_number(ordinal // self.batch_size)
                context = BatchContext(session_of(self.first_session, epoch), epoch, number, place=place)
            context.index = f"sample {ordinal} of worker {worker.id}" if worker else f"sample {ordinal}"
            set_context(context)  # every time: iterators of one thread may take turns
            try:
                sample = next(samples)
            except StopIteration:
                ended = True
                return
            ordinal += 1
            yield sample


def _state_of(data: Any) -> Any:
    """Return the state of something that has a `state_dict` and takes it back, else None."""
    if callable(getattr(data, "state_dict", None)) and callable(getattr(data, "load_state_dict", None)):
        return data.state_dict()
    return None
