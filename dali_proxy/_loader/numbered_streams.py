"""Numbers the batches of iterable datasets, and says where their workers are."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice, repeat
from typing import Any, cast

from torch.utils.data import IterableDataset

from dali_proxy._loader.batches import NumberedIndices, Pause, Unmade
from dali_proxy._loader.numbered_datasets import WrapsDataset, session_of
from dali_proxy._loader.own_worker import OwnWorker
from dali_proxy._worker.batch_context import BatchContext, set_context

__all__ = ["NumberedIterableDataset", "StreamStart", "WorkerPlace"]


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


class NumberedIterableDataset(WrapsDataset, IterableDataset[Any]):
    """Wraps an iterable dataset. Each worker numbers its own batches.

    Args:
        dataset: the user's.
        first_session: see `session_of`.
        epoch: of the next iteration; persistent workers keep this object and count on.
        batch_size: samples a batch.
        own: which worker this process is.
        start: where the next iteration starts; those after it start at their beginning.
    """

    def __init__(
        self,
        dataset: Any,
        first_session: int,
        epoch: int,
        batch_size: int | None,
        own: OwnWorker,
        start: StreamStart | None = None,
    ) -> None:
        self.dataset = dataset
        self.first_session = first_session
        self.epoch = epoch
        self.batch_size = batch_size or 1
        self.own = own
        self.start = start or StreamStart()

    def __iter__(self) -> Iterator[Any]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        start, self.start = self.start, StreamStart()
        own = self.own
        number = own.id or 0
        place = start.places.get(number, WorkerPlace())
        if place.ended:
            return iter(())
        # torch asks worker 0 first. Those before the one whose turn it is let it pass.
        pauses = self.batch_size if own.id is not None and number <= start.last < own.count - 1 else 0
        try:
            samples = self._samples(place)
        except BaseException as error:
            if own.id is None or own.is_interrupted_by(error):
                raise
            numbered = NumberedIndices(epoch, own.batch_number(place.batches), None)
            return repeat(Unmade.of(numbered, error, None, own), self.batch_size)
        return chain(repeat(Pause(), pauses), self._number(samples, epoch, place.batches))

    def _samples(self, place: WorkerPlace) -> Iterator[Any]:
        """Begin to iterate over the user's dataset."""
        if place.dataset is not None:
            self.dataset.load_state_dict(place.dataset)
        samples: Any = iter(self.dataset)
        if place.iterator is not None:
            samples.load_state_dict(place.iterator)
        elif place.batches and place.dataset is None:
            samples = islice(samples, place.batches * self.batch_size, None)
        return cast("Iterator[Any]", samples)

    def _number(self, samples: Iterator[Any], epoch: int, made: int) -> Iterator[Any]:
        own = self.own
        of_worker = "" if own.id is None else f" of worker {own.id}"
        ordinal = made * self.batch_size
        ended = False
        context = BatchContext()

        def place() -> bytes | None:
            """Say where the dataset is now, so that nothing that it does later changes what was said."""
            states = _state_of(self.dataset), _state_of(samples)
            return pickle.dumps((*states, ended)) if ended or states != (None, None) else None

        while True:
            if ordinal % self.batch_size == 0:
                number = own.batch_number(ordinal // self.batch_size)
                context = BatchContext(session_of(self.first_session, epoch), epoch, number, place=place)
            context.index = f"sample {ordinal}{of_worker}"
            set_context(context)  # every time: iterators of one thread may take turns
            try:
                sample = next(samples)
            except StopIteration:
                ended = True
                return
            except BaseException as error:
                if own.is_interrupted_by(error):
                    raise
                # An iterator may go on after it has raised. What is left of the batch is not read, as with torch.
                failed = Unmade.of(NumberedIndices(epoch, context.batch, None), error, context.index, own)
                left = self.batch_size - ordinal % self.batch_size
                ordinal += left
                yield from repeat(failed, left)
                del failed  # its exception refers to this frame
                continue
            ordinal += 1
            yield sample


def _state_of(data: Any) -> Any:
    """Return the state of something that has a `state_dict` and takes it back, else None."""
    if callable(getattr(data, "state_dict", None)) and callable(getattr(data, "load_state_dict", None)):
        return data.state_dict()
    return None
