"""The batches that one variant of the pipeline computes, while a consumer measures it."""

from __future__ import annotations

import time
from collections.abc import Collection

from dali_proxy._host.clients import Consumer
from dali_proxy._host.requests import Request
from dali_proxy._transport.protocol import Computed

# Seconds for which the requests of an iterator are held while it takes no batch: if a worker waits for memory, so that
# the loop may wait for the worker, and otherwise.
_STALLED, _LONGEST = 0.3, 5.0


class Measured:
    """Counts the batches that a variant computes, and sends the count to the consumer that measures it.

    It also decides how long the batches that no loop needs soon are held.

    Args:
        consumer: the consumer.
        variant: number of the variant.

    Attributes:
        consumer: see above.
    """

    def __init__(self, consumer: Consumer, variant: int) -> None:
        self.consumer = consumer
        self._variant = variant
        self._batches = 0
        self._begin = 0  # time of the end of the first batch
        self._held: dict[int, tuple[int, float]] = {}  # sessions: the last batch to send, and when it became that
        self._free: set[int] = set()  # sessions whose requests aren't held any more

    def holds(self, session: int, through: int, requests: Collection[Request]) -> bool:
        """Return whether the requests of an iterator wait longer: no loop seems to wait.

        Args:
            session: the iterator.
            through: number of the last batch to send to it without being asked.
            requests: its queued requests.
        """
        if session in self._free or any(request.waiter is not None for request in requests):
            return False
        now = time.monotonic()
        known, since = self._held.get(session, (None, now))
        if known != through:
            self._held[session] = (through, now)
            return True
        if now - since < _STALLED:
            return True
        if any(worker.completions.is_awaited for worker in {request.worker for request in requests}):
            self._free.add(session)  # its workers would soon wait again
            return False
        return now - since < _LONGEST

    def finish(self, variant: int) -> None:
        """Count a batch that a variant has computed, if it is the measured one."""
        if variant != self._variant:
            return
        now = time.monotonic_ns()
        self._begin = self._begin or now
        self._batches += 1
        self.consumer.send(Computed(variant, self._batches, now - self._begin))
