"""The batch that a thread is making: what numbered samplers and datasets tell the proxy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

__all__ = ["BatchContext", "current_context", "set_context", "without_context"]


@dataclass(eq=False)
class BatchContext:
    """The batch that a thread is making.

    Attributes:
        session: number of the iterator that wants it; 0 for none.
        epoch: number of the epoch, from 0.
        batch: number of the batch within its epoch, from 0.
        indices: dataset indices of its samples, or None where the dataset counts for itself.
        index: the dataset index that is being read now; None if unknown.
        requests: how many requests were submitted for this batch; the next one is that view.
        loops: how many loops over other loaders have begun while this batch was made.
        place: says where the dataset is after this batch, if it can; see `NumberedIterableDataset`.
    """

    session: int = 0
    epoch: int = 0
    batch: int = 0
    indices: Any = None
    index: Any = None
    requests: int = 0
    loops: int = 0
    place: Callable[[], bytes | None] | None = None

    def epoch_of_loop(self) -> int:
        """Return a number for the epoch of a loop that begins while this batch is made.

        It depends on this batch alone: a count of the loops of a process would depend on the number of workers.
        """
        key = f"{self.epoch} {self.batch} {self.loops}"
        self.loops += 1
        return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "little") >> 1


class _Thread(threading.local):
    context: BatchContext | None = None


_thread = _Thread()


def current_context() -> BatchContext | None:
    """Return the batch that this thread is making, or None (a loader that isn't ours)."""
    return _thread.context


def set_context(context: BatchContext | None) -> None:
    """Note which batch this thread is making."""
    _thread.context = context


@contextmanager
def without_context() -> Iterator[None]:
    """Set the context aside for the block: a loop inside another loop has contexts of its own."""
    outer = _thread.context
    _thread.context = None
    try:
        yield
    finally:
        _thread.context = outer
