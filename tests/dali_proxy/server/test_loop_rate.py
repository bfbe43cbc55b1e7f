"""Rates that a loop can keep, from the times of its batches."""

from __future__ import annotations

import pytest

from dali_proxy._server.loop_rate import LoopRate
from dali_proxy._transport.protocol import Computed


def measured(intervals: list[float], computed: float | None = None) -> float | None:
    """Return the rate of a loop whose batches have these times between them, computed at a given rate."""

    def so_far(now: float) -> Computed | None:
        return None if computed is None else Computed(0, 1 + int(computed * now), int(now * 1e9))

    now = 0.0
    rate = LoopRate(now, so_far(now))
    for interval in intervals:
        now += interval
        if (found := rate.take(now, so_far(now))) is not None:
            return found
    return None


def test_rate_of_regular_batches() -> None:
    assert measured([0.02] * 100) == pytest.approx(50)
    assert measured([0.02] * 50) is None, "too short"
    assert measured([0.5] * 11) is None, "too few"
    assert measured([0.5] * 12) == pytest.approx(2)


def test_batches_that_were_ready_before_do_not_count() -> None:
    assert measured([0.02] * 100, computed=40.0) == pytest.approx(40, rel=0.03)
    assert measured([0.02] * 100, computed=80.0) == pytest.approx(50)


def test_pause_begins_the_measurement_again() -> None:
    assert measured([0.02] * 30 + [3.0] + [0.02] * 30) is None
    assert measured([0.02] * 30 + [3.0] + [0.02] * 200) == pytest.approx(50)


def test_loop_that_waits_for_the_gpu_now_and_then() -> None:
    assert measured([*[0.002] * 19, 0.4] * 20) == pytest.approx(45.6, rel=0.12), "20 batches in 0.438 s"
