"""The number of requests that a store gets at once: it follows from how long the answers take."""

from __future__ import annotations

import errno
import math
import os
import queue
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

from dali_proxy.pipeline._concurrency.locks import Level, new_lock

#: Largest number of requests at once to one store, and of threads that wait for them.
MOST_REQUESTS = 128

_BEGIN, _LEAST = 8, 4  # requests at once
_ANSWERS = 32  # answers of a measurement, at least; two for each request that is allowed
_SLOWER = 1.5  # factor of the least time of an answer that isn't a sign of a queue at the store
_SHRINK = 0.5  # smallest factor of one change
_REFUSED = 0.15  # share of answers by which the store asks for fewer requests, from which there are too many...
_BACK = 0.7  # ... and the factor then
_LOOK = 50  # measurements until one with fewer requests shows the least time again
_ASK_FOR_FEWER = (429, 503)  # statuses of HTTP


class RequestLimit:
    """Bounds the requests to one store. Any number of threads may share it.

    While answers come as fast as they ever did, more requests at once are faster. Once they queue at the store, or for
    the network, more requests only wait longer. So the number doubles until answers become slower; then it grows by its
    square root, and shrinks by the factor of their time, as in TCP Vegas and Netflix's concurrency-limits. Now and
    then, half as many requests show the time without a queue, as in BBR.

    Attributes:
        value: largest number of requests at once.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.value = _BEGIN
        self._clock = clock
        self._lock = new_lock(Level.LEAF, "remote requests")
        self._sent = 0  # requests that are being answered
        self._waiting: deque[queue.SimpleQueue[None]] = deque()
        self._least = math.inf  # mean time of an answer in the fastest measurement
        self._doubles = True  # at first, until answers become slower
        self._age = 0  # measurements since the last look
        self._usual = 0  # number of requests before a look; 0 without one
        self._count = self._refused = self._full = 0  # of the measurement
        self._seconds = 0.0

    @contextmanager
    def request(self, urgent: bool = False) -> Iterator[None]:
        """Wait until a request may be sent, which then runs in the block, and measure it.

        An urgent one comes before those that wait: a batch waits for a request that is sent again.
        """
        self._enter(urgent)
        begin, answered, refused = self._clock(), False, False
        try:
            yield
            answered = True
        except BaseException as error:
            refused = _asks_for_fewer(error)
            raise
        finally:
            self._leave(self._clock() - begin, answered, refused)

    def _enter(self, urgent: bool) -> None:
        turn: queue.SimpleQueue[None] = queue.SimpleQueue()
        with self._lock:
            if self._sent < self.value:
                self._sent += 1
                return
            (self._waiting.appendleft if urgent else self._waiting.append)(turn)
        try:
            turn.get()
        except BaseException:  # of a signal handler
            with self._lock:
                if turn in self._waiting:
                    self._waiting.remove(turn)
                else:
                    self._sent -= 1
                    self._admit()
            raise

    def _leave(self, seconds: float, answered: bool, refused: bool) -> None:
        with self._lock:
            self._full += self._sent >= self.value
            self._sent -= 1
            self._refused += refused
            if answered:
                self._count += 1
                self._seconds += seconds
            if self._count + self._refused >= max(_ANSWERS, 2 * self.value):
                self._judge()
            self._admit()

    def _admit(self) -> None:
        while self._waiting and self._sent < self.value:
            self._sent += 1
            self._waiting.popleft().put(None)

    def _judge(self) -> None:
        answers = self._count + self._refused
        mean = self._seconds / max(self._count, 1)
        was_full, was_refused = self._full > answers / 2, self._refused > _REFUSED * answers
        self._count = self._refused = self._full = 0
        self._seconds = 0.0
        self._age += 1
        if self._age > _LOOK and was_full and not self._usual:
            self._usual, self._age = self.value, -1  # look without a queue: the way to the store may have changed
            self._set(self.value * _SHRINK)
        elif self._usual and self._age:
            self._least, self.value, self._usual = mean or self._least, self._usual, 0
        elif not self._usual:
            self._least = min(mean or self._least, self._least)
            factor = _BACK if was_refused else max(min(_SLOWER * self._least / max(mean, 1e-9), 1.0), _SHRINK)
            self._doubles = self._doubles and factor == 1.0
            more = 0.0 if was_refused or not was_full else self.value if self._doubles else math.sqrt(self.value)
            self._set(self.value * factor + more)

    def _set(self, value: float) -> None:
        self.value = min(max(round(value), _LEAST), MOST_REQUESTS)


def _asks_for_fewer(error: BaseException) -> bool:
    """Return whether a store answered that it gets too many requests, in the words of fsspec's filesystems."""
    status = getattr(error, "status" if hasattr(error, "status") else "code", None)
    return status in _ASK_FOR_FEWER or getattr(error, "errno", None) == errno.EBUSY


def limit_of(url: str) -> RequestLimit:
    """Return the limit of the store that a URL names."""
    return _limits("/".join(url.split("/", 3)[:3]), os.getpid())


def largest_limit() -> int:
    """Return the largest limit of all stores; 0 if none was asked for anything."""
    return max((limit.value for limit in _known), default=0)


_known: deque[RequestLimit] = deque(maxlen=256)  # the latest ones


@lru_cache(maxsize=256)  # as many; a process that asks thousands of servers asks each a few times
def _limits(store: str, process: int) -> RequestLimit:
    """Return the limit of a store for a process: a forked child has none of its parent's requests."""
    limit = RequestLimit()
    _known.append(limit)
    return limit
