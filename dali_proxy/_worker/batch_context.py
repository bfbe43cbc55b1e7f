"""The context of the batch that a thread is making: numbered samplers and datasets set it for the proxy."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec


class BatchContext(msgspec.Struct, eq=False):
    """The batch that a thread is making.

    Attributes:
        session: session number of the iterator that requested the batch; 0 for none.
        epoch: epoch number, from 0.
        batch: batch number within the epoch, from 0.
        indices: dataset indices of the samples; None for an iterable dataset.
        index: dataset index that is being read; None if unknown.
        slowest: dataset index, and name, of the sample that took longest to read, and its seconds.
        seconds: time that each sample took to read; empty if unknown.
        requests: number of requests submitted for this batch, which is also the view number of the next request.
        loops: number of loops over other loaders that have begun inside this batch.
        position: function that returns the dataset's state after this batch, or None; see `NumberedIterableDataset`.
        begun: time when the batch began.
        begun_processor: processor time of the thread then.
        nbytes: size of the samples that were submitted for it.
        rank: rank of the training process.
        keeps_inputs: whether the tickets of the requests get copies of the inputs.
        tickets: tickets of the requests submitted for this batch, by server and numbers of the samples.
    """

    session: int = 0
    epoch: int = 0
    batch: int = 0
    indices: Any = None
    index: Any = None
    requests: int = 0
    loops: int = 0
    position: Callable[[], bytes | None] | None = None
    begun: float = msgspec.field(default_factory=time.perf_counter)
    begun_processor: float = msgspec.field(default_factory=time.thread_time)
    nbytes: int = 0
    rank: int = 0
    keeps_inputs: bool = False
    tickets: dict[Any, Any] = {}
    slowest: tuple[Any, float] = (None, 0.0)
    seconds: list[float] = []

    def epoch_of_loop(self) -> int:
        """Return an epoch number for a loop that begins inside this batch.

        The number depends only on this batch: a process-wide loop counter would depend on the number of workers.
        """
        key = f"{self.epoch} {self.batch} {self.loops}"
        self.loops += 1
        return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "little") >> 1


class _Thread(threading.local):
    context: BatchContext | None = None


this_thread = _Thread()
"""Its attribute `context` is the batch that the current thread is making; None in another library's loader."""
