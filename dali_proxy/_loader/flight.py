"""The number of batches in a chunk: it follows from what a batch costs, and bounds the batches in flight."""

from __future__ import annotations

import time

from dali_proxy._common.in_flight import InFlight
from dali_proxy._loader.batches import CollatedBatch
from dali_proxy.pipeline._executor.available_memory import in_flight_bytes

_LARGEST = 16  # batches; more would hardly save anything
_SECONDS = 0.05  # of a worker's time: the first batch of a chunk waits for the last one
_SAMPLES = 1024
_MESSAGE = 3072  # bytes of a worker's message: a pipe accepts 4096 at once
_NBYTES = 64 << 20  # samples and results of all batches in flight
_WAITING_NBYTES = 1 << 30  # the same while the loop waits for results on a GPU
_WAITS, _RESTS = 0.05, 0.005  # part of its time in which a loop that waits does, and one that doesn't any more
_REASONS = (
    "more would save nothing",
    "time of a worker for a batch",
    "samples",
    "size of a worker's message",
    "memory",
)
_LISTS = (list, tuple)
_WEIGHT = 0.2  # of a batch in the moving average of its cost


class Flight:
    """Chooses the size of chunks from the cost of the batches that arrive.

    `prefetch_factor` chunks of each worker are in flight, so small batches have more in flight than large ones.

    Args:
        workers: number of workers.
        prefetch_factor: number of chunks of each worker in flight.

    Attributes:
        chunk: number of batches in a chunk.
        in_flight: number of batches that workers have got, and the loop hasn't, at most.
    """

    def __init__(self, workers: int, prefetch_factor: int) -> None:
        self._tasks = workers * prefetch_factor
        self._set(1, "the first batches")
        self._seconds = self._nbytes = self._message = 0.0
        self._waits = False
        self._waiting_nbytes = min(_WAITING_NBYTES, in_flight_bytes())
        self._interval = self._waited = 0.0  # moving averages: seconds between batches, and of waiting for results
        self._last = 0.0

    def _set(self, chunk: int, limit: str) -> None:
        self.chunk, self._limit = chunk, limit
        reason = "prefetch_factor" if chunk == 1 else f"prefetch_factor, {chunk} at once"
        self.in_flight = InFlight(self._tasks * chunk, f"{reason}; limit: {limit}")

    def restart(self) -> int:
        """Return the size of the first chunks of an epoch: its first batch waits for no other."""
        self._set(1, self._limit)
        return self.chunk

    def note_wait(self, seconds: float) -> None:
        """Record for how many seconds the loop has waited for a result on a GPU."""
        now = time.monotonic()
        if self._last:
            self._interval += _WEIGHT * (now - self._last - self._interval)
            self._waited += _WEIGHT * (seconds - self._waited)
            self._waits = self._waited > (_RESTS if self._waits else _WAITS) * self._interval
        self._last = now

    def observe(self, batch: CollatedBatch, result: int) -> int:
        """Record the cost of a batch. Return the size of the next chunks.

        Args:
            batch: a batch that has arrived from a worker.
            result: size of the last result; 0 if there was none, so that memory isn't known yet.
        """
        if batch.cost is None or not result:
            return self.chunk
        seconds, nbytes, message, *_ = batch.cost
        if not self._seconds:
            self._seconds, self._nbytes, self._message = seconds, float(nbytes), float(message)
        self._seconds += _WEIGHT * (min(seconds, 2 * self._seconds) - self._seconds)
        self._nbytes += _WEIGHT * (nbytes - self._nbytes)
        self._message = max(self._message, message)
        indices = batch.numbered.indices
        samples = len(indices) if isinstance(indices, _LISTS) else 1
        most = self._waiting_nbytes if self._waits else _NBYTES
        bounds = (  # in the order of `_REASONS`; no divisor is 0: there is at least one task, and `result` isn't 0
            _LARGEST,
            _SECONDS / (self._seconds or 1e-9),
            _SAMPLES / (samples or 1),
            _MESSAGE / (self._message or 1.0),
            most / ((self._nbytes + result) * self._tasks),
        )
        bound = min(bounds)
        chunk, limit = max(1, min(int(bound), 2 * self.chunk)), _REASONS[bounds.index(bound)]
        if chunk != self.chunk or limit != self._limit:
            self._set(chunk, limit)
        return chunk
