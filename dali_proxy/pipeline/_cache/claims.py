"""Claims of keys: what one batch computes, others wait for."""

from __future__ import annotations

import threading

from dali_proxy.pipeline._cache.memory_tier import Entry


class Claim:
    """The values that a batch computes for the cache.

    A batch waits for the claims of others only when its own one has ended. So batches never wait in a circle.

    Attributes:
        keys: keys of the values.
        wanted: those that others wait for.
        handed: values for them that the cache has no room for.
        ended: set when the values are stored, or won't be.
    """

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.wanted: set[bytes] = set()
        self.handed: dict[bytes, Entry] = {}
        self.ended = threading.Event()
