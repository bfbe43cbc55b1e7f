"""Wrappers of iterable datasets, which number their batches and report the positions of their workers."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice, repeat
from typing import Any, cast

from torch.utils.data import IterableDataset

from dali_proxy._loader.batches import FailedBatch, NumberedIndices, Pause
from dali_proxy._loader.numbered_datasets import WrapsDataset, session_of
from dali_proxy._loader.own_worker import OwnWorker
from dali_proxy._worker.batch_context import BatchContext, this_thread


@dataclass(frozen=True)
class WorkerPosition:
    """The position of a worker in an iterable dataset.

    Attributes:
        batches: number of batches that it has made.
        dataset: state of its dataset; None without a `state_dict`.
        iterator: state of the dataset's iterator; None without a `state_dict`.
        ended: whether the dataset has ended.
    """

    batches: int = 0
    dataset: Any = None
    iterator: Any = None
    ended: bool = False


@dataclass(frozen=True)
class StreamStart:
    """The position at which the workers of an iterable dataset resume.

    Attributes:
        positions: position of each worker; a missing worker has made no batch.
        last: number of the worker that made the last batch; -1 for none.
    """

    positions: dict[int, WorkerPosition] = field(default_factory=dict)
    last: int = -1


class NumberedIterableDataset(WrapsDataset, IterableDataset[Any]):
    """Wraps an iterable dataset. Each worker numbers its own batches.

    Args:
        dataset: the user's dataset.
        first_session: session number of epoch 0; see `session_of`.
        epoch: epoch number of the next iteration; persistent workers keep this object and increment the number.
        rank: rank of the training process.
        batch_size: number of samples per batch.
        own: this process's role in the loader.
        start: starting position of the next iteration; later ones start at the beginning of the dataset.
    """

    def __init__(
        self,
        dataset: Any,
        first_session: int,
        epoch: int,
        rank: int,
        batch_size: int | None,
        own: OwnWorker,
        start: StreamStart,
    ) -> None:
        self.dataset = dataset
        self.first_session = first_session
        self.epoch, self.rank = epoch, rank
        self.batch_size = batch_size or 1
        self.own = own
        self.start = start

    def __iter__(self) -> Iterator[Any]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        start, self.start = self.start, StreamStart()
        own = self.own
        number = own.id or 0
        position = start.positions.get(number, WorkerPosition())
        if position.ended:
            return iter(())
        # torch asks worker 0 first. If it is another worker's turn, the workers before that one yield a pause.
        pauses = self.batch_size if own.id is not None and number <= start.last < own.count - 1 else 0
        try:
            samples = self._samples(position)
        except BaseException as error:
            if own.id is None or own.is_interrupted_by(error):
                raise
            numbered = NumberedIndices(epoch, own.batch_number(position.batches), None, self.rank)
            return repeat(FailedBatch.from_error(numbered, error, None, own), self.batch_size)
        return chain(repeat(Pause(), pauses), self._number(samples, epoch, position.batches))

    def _samples(self, position: WorkerPosition) -> Iterator[Any]:
        """Start an iteration over the user's dataset."""
        if position.dataset is not None:
            self.dataset.load_state_dict(position.dataset)
        samples: Any = iter(self.dataset)
        if position.iterator is not None:
            samples.load_state_dict(position.iterator)
        elif position.batches and position.dataset is None:
            samples = islice(samples, position.batches * self.batch_size, None)
        return cast("Iterator[Any]", samples)

    def _number(self, samples: Iterator[Any], epoch: int, batches: int) -> Iterator[Any]:
        own = self.own
        of_worker = "" if own.id is None else f" of worker {own.id}"
        ordinal = batches * self.batch_size
        ended = False
        context = BatchContext()
        numbered = NumberedIndices(epoch, 0, None)

        def position() -> bytes | None:
            """Return the dataset's state as a pickle, which later changes of the dataset don't affect."""
            states = state_of(self.dataset), state_of(samples)
            return pickle.dumps((*states, ended)) if ended or states != (None, None) else None

        while True:
            if ordinal % self.batch_size == 0:
                numbered = NumberedIndices(epoch, own.batch_number(ordinal // self.batch_size), None, self.rank)
                session = session_of(self.first_session, epoch)
                context = BatchContext(session, epoch, numbered.batch, position=position, rank=self.rank)
            context.index = f"sample {ordinal}{of_worker}"
            this_thread.context = context  # set for each sample: several iterators of one thread may take turns
            try:
                sample = next(samples)
            except StopIteration:
                ended = True
                return
            except BaseException as error:
                if own.is_interrupted_by(error):
                    raise
                # An iterator may continue after it has raised. The rest of the batch isn't read, as in torch.
                failed = FailedBatch.from_error(numbered, error, context.index, own)
                left = self.batch_size - ordinal % self.batch_size
                ordinal += left
                yield from repeat(failed, left)
                del failed  # its exception's traceback refers to this frame
                continue
            ordinal += 1
            yield sample


def state_of(data: Any) -> Any:
    """Return the state of an object that has `state_dict` and `load_state_dict`, else None."""
    if callable(getattr(data, "state_dict", None)) and callable(getattr(data, "load_state_dict", None)):
        return data.state_dict()
    return None
