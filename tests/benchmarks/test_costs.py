"""Costs are measured with real servers and workers; their size depends on the machine and isn't checked."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from benchmarks.costs import measure_costs
from benchmarks.steadiness import PIECES, cost_by_batch, cost_by_epoch, cost_by_length, growth, has_grown
from benchmarks.targets import TARGETS
from benchmarks.workload import Setup, prepare_images
from tests.environment import with_project
from tests.preloaded import run_python


def run_preloaded(command: list[str], *, cwd: Path, **_: Any) -> subprocess.CompletedProcess[str]:
    """Run the program of a command that starts an interpreter."""
    done = run_python(*command[1:], cwd=cwd, env=with_project())
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.timeout(400)
def test_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    setup = Setup("bytes", prepare_images(8), batch_size=4)
    monkeypatch.undo()
    monkeypatch.setattr(subprocess, "run", run_preloaded)
    costs = measure_costs(setup, rounds=1, seconds=0.1, say=lambda text: None)
    assert {target.name for target in TARGETS if target.kind == "costs"} <= set(costs)
    assert all(len(rounds) == 1 for rounds in costs.values())
    assert all(value > 0 for name, (value,) in costs.items() if name != "server_ms_per_batch")  # may be 0 ticks
    for name in ("workers_start", "workers_start_later"):
        ours, theirs = costs[f"{name}_seconds"][0], costs[f"{name}_torch_seconds"][0]
        assert costs[f"{name}_ratio"][0] == pytest.approx(theirs / ours, rel=0.01)


def test_cost_by_epoch(tmp_path: Path) -> None:
    points = cost_by_epoch(Setup("arrays-64B", tmp_path, batch_size=4, workers=1), epochs=2, batches=5)
    assert [point["x"] for point in points] == [1, 2]
    assert all(len(point["us"]) == len(point["fresh_us"]) == PIECES for point in points)


def test_cost_by_batch(tmp_path: Path) -> None:
    points = cost_by_batch(Setup("arrays-64B", tmp_path, batch_size=4, workers=1), windows=1, batches=3)
    assert [(point["x"], len(point["us"]), len(point["fresh_us"])) for point in points] == [(3, 3, 3)]


def test_cost_by_length(tmp_path: Path) -> None:
    points = cost_by_length(Setup("arrays-64B", tmp_path, batch_size=4, workers=1), (8, 800), rounds=2, seconds=0.01)
    assert [(point["x"], len(point["us"])) for point in points] == [(8, 2), (800, 2)]


def test_growth_is_absent_if_new_loaders_are_equally_slow() -> None:
    noise = [1.0, 1.0, 3.0, 1.0, 2.0, 2.0]
    steady = [{"x": 1, "us": [10 * factor] * 2, "fresh_us": [9 * factor] * 2} for factor in noise]
    assert growth(steady) == pytest.approx(1.0)
    grown = [{**point, "us": [cost * 1.05**age for cost in point["us"]]} for age, point in enumerate(steady)]
    assert growth(grown) == pytest.approx(1.05**4)
    assert [has_grown(steady), has_grown(grown)] == [False, True]


def test_growth_within_the_noise_does_not_count() -> None:
    points = [{"x": 1, "us": [cost]} for cost in (10.0, 13.0, 10.0, 10.0, 12.0, 14.0)]
    assert growth(points) > 1.1
    assert not has_grown(points)


def test_growth_compares_within_rounds() -> None:
    assert growth([{"x": 1, "us": [10.0, 30.0]}, {"x": 2, "us": [10.0, 30.0]}, {"x": 3, "us": [11.0, 33.0]}]) == 1.1


def test_growth_compares_the_last_third_with_the_first() -> None:
    costs = [10.0, 12.0, 50.0, 1.0, 20.0, 24.0]
    assert growth([{"x": number, "us": [cost]} for number, cost in enumerate(costs)]) == 2.0
