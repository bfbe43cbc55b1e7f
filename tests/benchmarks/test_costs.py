"""Costs are measured with real servers and workers; their size depends on the machine and is not looked at."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from benchmarks.costs import measure_costs
from benchmarks.steadiness import cost_by_epoch, growth
from benchmarks.targets import TARGETS
from benchmarks.workload import Setup, prepare_pictures


@pytest.mark.timeout(400)
def test_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    setup = Setup("bytes", prepare_pictures(8), batch_size=4)
    monkeypatch.undo()
    costs = measure_costs(setup, rounds=1, seconds=0.1, say=lambda text: None)
    assert {target.name for target in TARGETS if target.kind == "costs"} <= set(costs)
    assert all(len(rounds) == 1 for rounds in costs.values())
    assert all(value > 0 for name, (value,) in costs.items() if name != "server_ms_per_batch")  # that may be no tick
    ours, theirs = costs["workers_start_seconds"][0], costs["workers_start_torch_seconds"][0]
    assert costs["workers_start_ratio"][0] == pytest.approx(theirs / ours, rel=0.01)


def test_cost_by_epoch(tmp_path: Path) -> None:
    points = cost_by_epoch(Setup("arrays-64B", tmp_path, batch_size=4, workers=1), epochs=2, batches=5)
    assert [point["x"] for point in points] == [1, 2]


def test_growth_compares_the_last_third_with_the_first() -> None:
    costs = [10.0, 12.0, 50.0, 1.0, 20.0, 24.0]
    assert growth([{"x": number, "us": [cost]} for number, cost in enumerate(costs)]) == 2.0
