"""Counters of what this process reads behind URLs."""

from __future__ import annotations

from collections import Counter

from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._remote.request_limit import largest_limit

_lock = new_lock(Level.LEAF, "remote totals")
_totals: Counter[str] = Counter()


def count_remote(nbytes: int, seconds: float) -> None:
    """Count a request that was answered. Any thread may call this."""
    with _lock:
        _totals.update(remote_reads=1, remote_bytes=nbytes)
        _totals["remote_seconds"] += seconds  # type: ignore[assignment]  # the others are integers


def count_repeat() -> None:
    """Count a request that failed and is sent again. Any thread may call this."""
    with _lock:
        _totals["remote_repeats"] += 1


def remote_totals() -> dict[str, float]:
    """Return the counters, and the largest number of requests to one store at once, by the names of `ServerStats`."""
    with _lock:
        return {**_totals, "remote_limit": largest_limit()}
