"""Sources and pipelines for the tests of external sources.

They are in a separate module, so that spawned workers can import them.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import psutil

from pipeline import Pipeline, fn

BATCH_SIZE = 3


def batch(number: int, size: int = BATCH_SIZE) -> Any:
    return np.full((size, 1), number, np.int32)


def numbered(sample: Any) -> Any:
    """Return seven samples per epoch: their numbers, plus 100 for each earlier epoch."""
    if sample.idx_in_epoch >= 7:
        raise StopIteration
    return np.int32([sample.idx_in_epoch + 100 * sample.epoch_idx])


def two_batches() -> Iterator[Any]:
    yield batch(0)
    yield batch(1)


class Counting:
    """An iterator class as in DALI's documentation: each pass begins with `__iter__`."""

    def __iter__(self) -> Counting:
        self.number = 0
        return self

    def __next__(self) -> Any:
        if self.number == 2:
            raise StopIteration
        self.number += 1
        return batch(self.number)


class Restarting(Counting):
    """An iterator that begins again after its end."""

    number = 0

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except StopIteration:
            self.number = 0
            raise


def pipe_of(source: Any, *, pipeline: dict[str, Any] | None = None, **arguments: Any) -> Pipeline:
    """Return a pipeline that outputs the values of a source."""
    given = {"batch_size": BATCH_SIZE, "num_threads": 1, "device_id": None, **(pipeline or {})}
    with Pipeline(**given) as pipe:
        made = fn.external_source(source, **arguments)
        pipe.set_outputs(*(made if isinstance(made, list) else (made,)))
    return pipe


def new_children(before: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Return the processes that this one has started after `before`."""
    return [child for child in psutil.Process().children() if child not in set(before)]


def values(outputs: Any) -> list[list[Any]]:
    return [np.stack([np.asarray(sample) for sample in output]).ravel().tolist() for output in outputs]


def run(pipe: Any, times: int) -> list[Any]:
    """Run a few batches. Return their values, or "end" at the end of the data."""
    made: list[Any] = []
    for _ in range(times):
        try:
            made.append(values(pipe.run()))
        except StopIteration:
            made.append("end")
    return made


def dumps(source: Any, *, secret: int = 0) -> bytes:
    """Pickle a source, and a number."""
    return pickle.dumps((source, secret))


def loads(data: bytes, *, offset: int = 0) -> Any:
    """Return a source that gives the numbers of `dumps` and of this call, instead of the one that was pickled."""
    _, secret = pickle.loads(data)
    return functools.partial(_constant, secret + offset)


def _constant(number: int, info: Any) -> Any:
    return np.full(1, number)
