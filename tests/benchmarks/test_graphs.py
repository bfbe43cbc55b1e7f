"""Graphs beside DALI's: the outputs are compared, failures are reported, and the time is limited."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.gpu.budget import Budget
from benchmarks.graphs import report, session
from benchmarks.graphs.__main__ import main
from benchmarks.graphs.data import write_images
from benchmarks.graphs.graphs import GRAPHS
from benchmarks.graphs.session import Result, measure_all, measure_graph
from benchmarks.graphs.side import Setup, Side, Summary
from benchmarks.measurement import Measurement
from benchmarks.operators.session import OURS, THEIRS

pytestmark = pytest.mark.timeout(180)  # starting processes takes long on a busy machine


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Setup:
    folder = tmp_path_factory.mktemp("images")
    write_images(folder, 4)
    files = sorted(str(path) for path in folder.iterdir())
    return Setup(files, threads=1, device_id=None, rounds=2, seconds=0.01, with_dali=False)


@pytest.mark.parametrize("graph", GRAPHS)
def test_graph_has_outputs(graph: str, setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.graphs.side.CHECKED", 2)
    side = Side(OURS, graph, 2, setup)
    try:
        outputs = side.describe()
    finally:
        side.close()
    assert outputs
    assert all(output.deviation > 0 for output in outputs if output.dtype == "float32")


def test_failure_of_a_library_is_reported(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvidia.dali", None)  # its import fails
    result = measure_graph(replace(setup, with_dali=True), "small", 4, 100.0)
    assert list(result.failures) == [THEIRS]
    assert len(result.rounds[OURS]) == 2
    assert result.speed is None
    assert f"{THEIRS} failed" in report.line(result)
    assert report.as_json(result)["failures"]


def test_different_outputs_are_not_measured(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    described = iter([[Summary("float32", (3,), 0.0, 1.0)], [Summary("float32", (3,), 0.5, 1.0)]])
    monkeypatch.setattr(Side, "describe", lambda self: next(described))
    monkeypatch.setattr(session, "THEIRS", "again")
    monkeypatch.setitem(sys.modules["benchmarks.graphs.side"].SIDES, "again", "pipeline")
    result = measure_graph(replace(setup, with_dali=True), "small", 4, 100.0)
    assert not result.rounds
    assert "the outputs differ" in result.failures[OURS]


def test_statistics_agree_within_their_spread() -> None:
    one = Summary("float32", (3, 224, 224), 0.1, 1.0)
    assert one.agrees(replace(one, mean=0.3, deviation=1.2))
    assert not one.agrees(replace(one, mean=0.6))
    assert not one.agrees(replace(one, shape=(224, 224, 3)))
    assert not one.agrees(replace(one, dtype="float16"))


def test_ratios_are_of_the_same_round() -> None:
    ours = [Measurement(100, 1.0, 2.0, 0.0), Measurement(200, 1.0, 1.0, 0.0)]
    theirs = [Measurement(50, 1.0, 2.0, 0.0), Measurement(400, 1.0, 4.0, 0.0)]
    result = Result("small", 4, {OURS: ours, THEIRS: theirs})
    assert result.speed is not None
    assert (result.speed.median, result.speed.low, result.speed.high) == (1.25, 0.5, 2.0)
    assert result.cpu_ratio is not None
    assert result.cpu_ratio.median == 0.5
    assert report.as_json(result)["speed_range"] == [0.5, 2.0]


def test_graphs_are_not_begun_when_time_is_over(setup: Setup) -> None:
    budget = Budget(0)
    assert not list(measure_all(["small", "mix"], [4, 8], setup, budget))
    assert len(budget.left_out) == 4


@pytest.mark.parity
def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("nvidia.dali")
    path = tmp_path / "results.json"
    words = ["--graphs", "small,clips", "--batches", "4", "--rounds", "2", "--seconds", "0.01", "--files", "2"]
    monkeypatch.setattr(sys, "argv", ["", *words, "--json", str(path)])
    assert main() == 0
    assert str(tmp_path) not in path.read_text()
    document = json.loads(path.read_text())
    assert [one["graph"] for one in document["graphs"]] == ["small", "clips"]
    for one in document["graphs"]:
        assert "failures" not in one
        assert one["speed_range"][0] <= one["speed"] <= one["speed_range"][1]
    assert "small: 16" in capsys.readouterr().out


def test_plot_needs_ratios(tmp_path: Path) -> None:
    entry = {"graph": "small", "batch_size": 4, "speed": 2.0, "speed_range": [1.5, 2.5]}
    machine = {"gpus": [], "processor": "a processor", "cores": 2}
    document = {"date": "2026-11-21", "machine": machine, "graphs": [entry, {**entry, "batch_size": 8}]}
    assert report.plot({**document, "graphs": []}, tmp_path / "no.png").startswith("Nothing")
    pytest.importorskip("matplotlib")
    assert report.plot(document, tmp_path / "yes.png") == "Saved yes.png."
