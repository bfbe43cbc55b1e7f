"""The definition of "worse", with hand-written documents."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.regression import compare, last_committed, other_machine
from benchmarks.targets import TARGETS, Figure, Target, figure_of, summary

SETUP = {"batch_size": 64, "workers": 2, "threads": 2, "device_id": None}


def document(ratio: float, low: float, high: float, **fields: Any) -> dict[str, Any]:
    rival = {"rate": 1000.0, "reference_ratio": ratio, "reference_ratio_range": [low, high]}
    rivals = {"dali-proxy": {"rate": 1500.0}, "nvidia-proxy": rival}
    kinds = {"bytes": {"setup": SETUP, "rivals": rivals, "failures": {}}}
    return {"date": "2026-11-21", "reference": "dali-proxy", "kinds": kinds, "costs": {}, **fields}


@pytest.mark.parametrize(
    ("new", "worse"),
    [
        ((1.50, 1.45, 1.55), False),  # the same
        ((1.80, 1.70, 1.90), False),  # better
        ((1.20, 1.10, 1.30), True),
        ((1.30, 1.20, 1.46), False),  # the ranges overlap
        ((1.43, 1.43, 1.44), False),  # less than the margin
    ],
)
def test_regression_is_beyond_both_ranges_and_the_margin(new: tuple[float, float, float], worse: bool) -> None:
    (change,) = compare(document(1.5, 1.45, 1.55), document(*new))
    assert (change.kind, change.name) == ("bytes", "nvidia-proxy")
    assert change.worse is worse
    assert ("WORSE" in str(change)) is worse


def test_absolute_figures_are_not_compared() -> None:
    old, new = document(1.5, 1.4, 1.6), document(1.5, 1.4, 1.6)
    for entry in new["kinds"]["bytes"]["rivals"].values():
        entry["rate"] /= 10
    old["costs"], new["costs"] = {"first_batch_seconds": [1.0]}, {"first_batch_seconds": [9.0]}
    assert [change.worse for change in compare(old, new)] == [False]


def test_ratios_of_costs_are_compared() -> None:
    old = document(1.5, 1.4, 1.6, costs={"workers_start_ratio": [1.0, 1.1, 1.2]})
    new = document(1.5, 1.4, 1.6, costs={"workers_start_ratio": [0.5, 0.6, 0.7]})
    assert [change.name for change in compare(old, new) if change.worse] == ["workers_start_ratio"]


def test_other_setups_are_not_compared() -> None:
    new = document(1.0, 1.0, 1.0)
    new["kinds"]["bytes"]["setup"] = {**SETUP, "workers": 4}
    assert compare(document(1.5, 1.4, 1.6), new) == []


@pytest.mark.parametrize(
    ("failures", "worse"),
    [
        ({"nvidia-proxy": "nvidia-dali is not installed"}, []),
        ({}, []),  # not requested
        ({"nvidia-proxy": "nvidia-proxy gave no answer in 30 s"}, [True]),
    ],
)
def test_rival_that_is_missing(failures: dict[str, str], worse: list[bool]) -> None:
    new = document(1.5, 1.4, 1.6)
    del new["kinds"]["bytes"]["rivals"]["nvidia-proxy"]
    new["kinds"]["bytes"]["failures"] = failures
    assert [change.worse for change in compare(document(1.5, 1.4, 1.6), new)] == worse


def test_difference_between_machines_is_described() -> None:
    old = document(1.5, 1.4, 1.6, machine={"cores": 2, "system": "Linux 6.1"})
    new = document(1.5, 1.4, 1.6, machine={"cores": 2, "system": "Linux 6.2"})
    assert other_machine(old, new) == "system Linux 6.1, now Linux 6.2"
    assert other_machine(old, old) == ""


def test_our_own_failure_is_worse() -> None:
    new = document(1.5, 1.4, 1.6)
    new["kinds"]["bytes"]["rivals"] = {"nvidia-proxy": {"rate": 1000.0}}
    assert [change.worse for change in compare(document(1.5, 1.4, 1.6), new)] == [True]


def test_last_committed(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        author = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", *author, *words], cwd=tmp_path, capture_output=True, check=True)

    git("init")
    names = (
        "2026-01-02-cpu-2-cores",
        "2026-01-10-cpu-2-cores",
        "2026-02-01-cpu-16-cores",
        "2026-03-01-cpu-2-cores-scaling",
    )
    for name in names:
        (tmp_path / f"{name}.json").write_text(json.dumps({"name": name}))
    git("add", ".")
    git("commit", "-m", "results")
    (tmp_path / "2026-01-10-cpu-2-cores.json").write_text("{}")
    (tmp_path / "2026-04-01-cpu-2-cores.json").write_text("{}")
    assert last_committed(tmp_path, "cpu-2-cores") == {"name": "2026-01-10-cpu-2-cores"}
    assert last_committed(tmp_path, "nvidia-h200") is None


def test_targets() -> None:
    ratio, time = Target("a", 1.3, "bytes", "b"), Target("a", 1.0, "costs", "b", "ms", below=True)
    assert ratio.reached(Figure(1.3, 1.0, 1.6))
    assert not ratio.reached(Figure(1.29, 1.0, 1.6))
    assert time.reached(Figure(0.9, 0.8, 1.2))
    assert not time.reached(Figure(1.0, 0.8, 1.2))


def test_summary_has_a_line_for_each_target() -> None:
    found = document(1.25, 1.2, 1.4, costs={"server_ms_per_batch": [0.5, 0.4, 0.9]})
    lines = summary(found).splitlines()[1:]
    assert len(lines) == len(TARGETS)
    (line,) = (line for line in lines if "bytes / DALI's proxy" in line)
    assert line.split()[-5:] == ["1.3", "x", "1.25", "x", "1.20..1.40", "NO"][-5:]
    (line,) = (line for line in lines if "CPU time of the server" in line)
    assert "0.50 ms" in line
    assert line.endswith("yes")
    assert sum(line.endswith("-") for line in lines) == len(TARGETS) - 2


def test_ratios_of_another_reference_are_not_compared() -> None:
    found = document(1.25, 1.2, 1.4, reference="nvidia-proxy")
    assert figure_of(found, "bytes", "nvidia-proxy") is None
