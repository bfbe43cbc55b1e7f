"""The batches that one form of the pipeline has computed, while a consumer measures it."""

from __future__ import annotations

import time

from dali_proxy._host.clients import Consumer
from dali_proxy._transport.protocol import Computed

__all__ = ["Measured"]


class Measured:
    """Counts the batches that a form computes, and sends the count to the consumer that measures it.

    Args:
        consumer: the consumer.
        variant: number of the form.

    Attributes:
        consumer: see above.
    """

    def __init__(self, consumer: Consumer, variant: int) -> None:
        self.consumer = consumer
        self._variant = variant
        self._batches = 0
        self._begin = 0  # time of the end of the first batch

    def finish(self, variant: int) -> None:
        """Count a batch that a form has computed, if it is the measured one."""
        if variant != self._variant:
            return
        now = time.monotonic_ns()
        self._begin = self._begin or now
        self._batches += 1
        self.consumer.send(Computed(variant, self._batches, now - self._begin))
