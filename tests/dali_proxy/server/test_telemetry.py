"""The statistics of a server."""

from __future__ import annotations

import json
from dataclasses import asdict

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
    earlier = ServerStats(seconds=1, batches=2, running=3, operators={"a": OperatorTimes(1, 0.5, 2.0)})
    later = ServerStats(
        seconds=4,
        batches=7,
        running=1,
        operators={"a": OperatorTimes(4, 1.5, 5.0), "b": OperatorTimes(1, 1.0, 1.0, "gpu")},
    )
    between = later - earlier
    assert (between.seconds, between.batches, between.running) == (3, 5, 1)
    assert between.operators == {"a": OperatorTimes(3, 1.0, 3.0), "b": OperatorTimes(1, 1.0, 1.0, "gpu")}


def test_report_names_the_bottleneck() -> None:
    stats = ServerStats(
        seconds=10, batches=500, samples=32_000, bytes_in=2_000_000, errors=3, training=9.5, worker_wait=0.5,
        operators={"resize": OperatorTimes(500, 1.5), "decoders.image": OperatorTimes(500, 4.0)},
    )  # fmt: skip
    text = str(stats)
    assert "500 batches of 32,000 samples in 10.0 s, 3,200 samples/s; 3 failed" in text
    assert "95% training, 5% waiting for workers" in text
    assert "limited by  training" in text
    assert text.index("decoders.image") < text.index("resize")  # the most expensive ones first


def test_long_names_are_wrapped() -> None:
    names = [f"fn.operator_{number} (train.py:{number})" for number in range(50)]
    operators = {name: OperatorTimes(10, number, number) for number, name in enumerate(names)}
    operators[" → ".join(names)] = OperatorTimes(10, 90.0, 91.0, "gpu")
    operators["x" * 300] = OperatorTimes(123_456, 123_456.0, 234_567.0)
    lines = str(ServerStats(operators=operators)).splitlines()
    assert max(map(len, lines)) <= 120
    assert "fn.operator_49 (train.py:49)" in lines[-50]
    assert "fn.operator_0 (train.py:0)" in lines[-1]
    assert any("time on the host; it runs on the GPU" in line for line in lines)


def test_counters_are_json() -> None:
    stats = ServerStats(seconds=4, batches=7, operators={"a": OperatorTimes(4, 1.5, 2.0, "mixed")})
    fields = json.loads(json.dumps(asdict(stats)))
    assert fields["operators"] == {"a": {"batches": 4, "seconds": 1.5, "wall": 2.0, "device": "mixed"}}
    assert ServerStats.from_report(fields) == stats


def test_first_batches_do_not_count_as_waiting() -> None:
    times = LoopTimes()
    times.leave(2.0, 1.0, is_first=True)
    times.leave(0.25, 0.5, is_first=False)
    assert (times.start_wait, times.worker_wait, times.result_wait) == (3.0, 0.25, 0.5)


def test_ring_wait_is_a_deprecated_name() -> None:
    with pytest.warns(DeprecationWarning, match="use arena_wait") as caught:
        assert ServerStats(arena_wait=2.5).ring_wait == 2.5
    assert caught[0].filename == __file__
