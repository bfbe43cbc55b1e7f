"""The interpreter's switch interval while executors use a GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from dali_proxy.pipeline._concurrency.switching import SWITCH_INTERVAL, begin_short_turns, end_short_turns


@pytest.fixture(autouse=True)
def interval() -> Iterator[float]:
    before = sys.getswitchinterval()
    yield before
    sys.setswitchinterval(before)


def test_interval_is_short_while_a_gpu_is_used(interval: float) -> None:
    begin_short_turns()
    begin_short_turns()
    end_short_turns()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL) != interval
    end_short_turns()
    assert sys.getswitchinterval() == interval


def test_interval_of_the_user_is_kept() -> None:
    begin_short_turns()
    sys.setswitchinterval(0.02)
    end_short_turns()
    assert sys.getswitchinterval() == pytest.approx(0.02)


def test_shorter_interval_is_kept() -> None:
    sys.setswitchinterval(0.0001)
    begin_short_turns()
    assert sys.getswitchinterval() == pytest.approx(0.0001)
    end_short_turns()
    assert sys.getswitchinterval() == pytest.approx(0.0001)
