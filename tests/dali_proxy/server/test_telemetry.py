"""What the counters say."""

from __future__ import annotations

import pytest

from dali_proxy import OperatorTimes, ServerStats
from dali_proxy._server.telemetry import LoopTimes


@pytest.mark.parametrize(
    ("stats", "limit"),
    [
        (ServerStats(), ""),
        (ServerStats(seconds=10, batches=5, training=9.5, worker_wait=0.5, busy=3), "training"),
        (ServerStats(seconds=10, batches=5, training=1, worker_wait=7, result_wait=2, busy=9), "pipeline"),
        (ServerStats(seconds=10, batches=5, training=1, worker_wait=9, busy=3), "workers"),
        (ServerStats(seconds=10, batches=5, training=1, start_wait=9, busy=1), "training"),
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


def test_report_for_people() -> None:
    stats = ServerStats(
        seconds=10, batches=500, samples=32_000, bytes_in=2_000_000, errors=3, training=9.5, worker_wait=0.5,
        operators={"resize": OperatorTimes(500, 1.5), "decoders.image": OperatorTimes(500, 4.0)},
    )  # fmt: skip
    text = str(stats)
    assert "500 batches of 32,000 samples in 10.0 s, 3,200 samples/s; 3 failed" in text
    assert "95% training, 5% waiting for workers" in text
    assert "limited by  training" in text
    assert text.index("decoders.image") < text.index("resize")  # the dearest first


def test_first_batches_are_no_wait_of_an_epoch() -> None:
    times = LoopTimes()
    times.leave(2.0, 1.0, is_first=True)
    times.leave(0.25, 0.5, is_first=False)
    assert (times.start_wait, times.worker_wait, times.result_wait) == (3.0, 0.25, 0.5)
