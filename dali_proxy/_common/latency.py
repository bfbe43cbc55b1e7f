"""Percentiles of durations that are too many to keep."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

_BUCKETS = 8  # for each doubling of the duration, so that a bucket is 9 % wide
_LEAST = 1e-6  # seconds; shorter durations are counted as this one


class Latency:
    """Counts durations in buckets whose width is 9 % of the duration: percentiles are right within 5 %.

    Objects can be added, and an earlier state can be subtracted.

    Args:
        counts: the durations in each bucket by its number, as `counts` returns them; JSON makes the numbers text.

    Example:
        >>> latency = Latency()
        >>> for milliseconds in range(1, 101):
        ...     latency.add(milliseconds / 1000)
        >>> f"{latency.count} durations, half of them at most {latency.p50 * 1000:.0f} ms"
        '100 durations, half of them at most 48 ms'
    """

    __slots__ = ("_counts",)

    def __init__(self, counts: Mapping[Any, int] | None = None) -> None:
        self._counts = {int(bucket): count for bucket, count in (counts or {}).items()}

    def add(self, seconds: float) -> None:
        """Count a duration."""
        bucket = round(_BUCKETS * math.log2(max(seconds, _LEAST)))
        self._counts[bucket] = self._counts.get(bucket, 0) + 1

    def counts(self) -> dict[int, int]:
        """Return the durations in each bucket by its number, from the shortest ones."""
        return dict(sorted(self._counts.copy().items()))  # another thread may add, but not while a copy is made

    @property
    def count(self) -> int:
        """Number of durations."""
        return sum(self.counts().values())

    def percentile(self, percent: float) -> float:
        """Return the duration in seconds that so many percent of the durations don't exceed; 0 without any."""
        counts = self.counts()
        left = math.ceil(percent / 100 * sum(counts.values()))
        for bucket, count in counts.items():
            left -= count
            if left <= 0:
                return float(2 ** (bucket / _BUCKETS))
        return 0.0

    @property
    def p50(self) -> float:
        """The median in seconds."""
        return self.percentile(50)

    @property
    def p95(self) -> float:
        """The duration in seconds that 95 % of the durations don't exceed."""
        return self.percentile(95)

    @property
    def p99(self) -> float:
        """The duration in seconds that 99 % of the durations don't exceed."""
        return self.percentile(99)

    def to_dict(self) -> dict[str, float]:
        """Return the number of durations and the percentiles in seconds, for JSON."""
        return {"count": self.count, "p50": self.p50, "p95": self.p95, "p99": self.p99}

    def __add__(self, other: Latency) -> Latency:
        """Return the durations of both."""
        return Latency(Counter(self.counts()) + Counter(other.counts()))

    def __sub__(self, earlier: Latency) -> Latency:
        """Return the durations since an earlier state."""
        return Latency(Counter(self.counts()) - Counter(earlier.counts()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Latency) and self.counts() == other.counts()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"<Latency of {self.count} durations: {self}>"

    def __str__(self) -> str:
        """Return the three percentiles, for users."""
        return " / ".join(_shown(value) for value in (self.p50, self.p95, self.p99))


def _shown(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"
