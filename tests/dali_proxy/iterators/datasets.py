"""Pipelines over the samples 1, 2, 3 ... with either library, in the order of a reader."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

Batch = np.ndarray[Any, Any]
LIBRARIES = ("nvidia.dali", "pipeline")


class Numbered:
    """A source of the samples `first + 1` to `first + samples`, repeated endlessly.

    Args:
        samples: number of samples.
        batch_size: samples per batch.
        padded: whether the last sample fills the last batch; otherwise the first samples do, and the next epoch
            continues after them.
        first: offset of the values.
    """

    def __init__(self, samples: int, batch_size: int, padded: bool, first: int = 0) -> None:
        self.samples, self.batch_size, self.padded, self.first = samples, batch_size, padded, first
        self.asked = 0

    def __call__(self) -> Batch:
        batch, self.asked = self.asked, self.asked + 1
        if self.padded:
            batch %= -(-self.samples // self.batch_size)
        places = batch * self.batch_size + np.arange(self.batch_size)
        places = np.minimum(places, self.samples - 1) if self.padded else places % self.samples
        return (self.first + 1 + places).astype(np.int32)[:, None]


def make(library: str, source: Any, batch_size: int = 2, cycle: Any = None, **arguments: Any) -> Any:
    """Return a pipeline with one output, the samples of the source."""
    dali = importlib.import_module(library)
    fn = importlib.import_module(f"{library}.fn")
    pipe = dali.Pipeline(**{"batch_size": batch_size, "num_threads": 1, "device_id": None, **arguments})
    with pipe:
        pipe.set_outputs(fn.external_source(source, cycle=cycle))
    return pipe


def numbers(batch: Any) -> list[list[int]]:
    """Return the numbers in a batch of an iterator, by pipeline."""
    return [each["x"].flatten().tolist() for each in batch]


def epochs(iterator: Any, count: int, end: Callable[[], Any] | None = None) -> list[list[list[list[int]]]]:
    """Return the numbers of several epochs; call `end` after each."""
    result = []
    for _ in range(count):
        epoch: list[Any] = []
        try:
            while len(epoch) < 100:
                epoch.append(numbers(next(iterator)))
        except StopIteration:
            pass
        result.append(epoch)
        if end is not None:
            end()
    return result
