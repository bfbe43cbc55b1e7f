"""What the counters say."""

from __future__ import annotations

import pytest

from dali_proxy import OperatorTimes, ServerStats


@pytest.mark.parametrize(
    ("stats", "limit"),
    [
        (ServerStats(), ""),
        (ServerStats(seconds=10, batches=5, training=9.5, worker_wait=0.5, busy=3), "training"),
        (ServerStats(seconds=10, batches=5, training=1, worker_wait=7, result_wait=2, busy=9), "pipeline"),
        (ServerStats(seconds=10, batches=5, training=1, worker_wait=9, busy=3), "workers"),
    ],
)
def test_limited_by(stats: ServerStats, limit: str) -> None:
    assert stats.limited_by == limit


def test_difference() -> None:
    earlier = ServerStats(seconds=1, batches=2, running=3, operators={"a": OperatorTimes(1, 0.5)})
    later = ServerStats(
        seconds=4, batches=7, running=1, operators={"a": OperatorTimes(4, 1.5), "b": OperatorTimes(1, 1.0)}
    )
    between = later - earlier
    assert (between.seconds, between.batches, between.running) == (3, 5, 1)
    assert between.operators == {"a": OperatorTimes(3, 1.0), "b": OperatorTimes(1, 1.0)}
