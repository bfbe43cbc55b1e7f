"""Wait until the measured processes are idle."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys

import pytest

from benchmarks import measurement
from benchmarks.measurement import settle, tree_cpu


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "GLANCE", 0.0)


def test_rest_is_three_idle_looks_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "PATIENCE", math.inf)
    looks = iter([1.0, 2.0, 2.01, 2.02, 3.0, 3.01, 3.02, 3.03, 4.0])
    settle(looks.__next__)
    assert list(looks) == [4.0]


def test_wait_for_rest_ends_on_busy_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "PATIENCE", 0.1)
    used = itertools.count()
    settle(lambda: float(next(used)))
    assert next(used) > 0


def test_processor_time_of_ended_processes_counts() -> None:
    begin = tree_cpu()
    subprocess.run([sys.executable, "-c", "sum(range(10_000_000))"], check=True)
    assert tree_cpu() - begin > 0.05
