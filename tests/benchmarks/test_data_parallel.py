"""Training on several ranks, on the CPU with a tiny network: the code is the same on GPUs."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import data_parallel
from benchmarks.gpu.data_parallel import RankShare, Result
from benchmarks.gpu.training import Share
from benchmarks.ranks import RankError, run_ranks


def rank(rate: float, resident: tuple[float, float], memory: float) -> RankShare:
    return RankShare(Share("ours", 8, "eager", (rate,), resident, 2.0, 1.0, 0.1), memory, 0.0)


def test_result_adds_up_the_rates_of_ranks() -> None:
    one = Result.of_ranks([rank(90.0, (95.0, 105.0), 400.0)])
    two = Result.of_ranks([rank(90.0, (100.0, 100.0), 400.0), rank(81.0, (90.0, 90.0), 500.0)])
    assert (one.share, two.share) == (0.9, 0.9)
    assert (two.rates, two.resident, two.cpu_cores, two.memory_mb) == ([171.0], 190.0, 4.0, [400.0, 500.0])
    assert two.row(one).split()[-6:-3] == ["100.0%", "95.0%", "95.0%"]  # of one GPU's share, and efficiencies


def test_ranks_print_their_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ranked.py").write_text(
        "import json, os\n"
        "from benchmarks.ranks import wait_for_others\n"
        "wait_for_others()\n"
        "print('a message of a library')\n"
        "print(json.dumps({'rank': os.environ['RANK'], 'cores': len(os.sched_getaffinity(0))}), flush=True)\n"
        "if os.environ['RANK'] == os.environ.get('FAULTY'): raise SystemExit(1)\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path.cwd()}")
    assert run_ranks(["ranked"], 1, cores=1) == [[{"rank": "0", "cores": 1}]]
    shared = min(2, len(os.sched_getaffinity(0)))
    assert run_ranks(["ranked"], 2, cores=1) == [[{"rank": str(rank), "cores": shared}] for rank in range(2)]
    monkeypatch.setenv("FAULTY", "1")
    with pytest.raises(RankError) as raised:
        run_ranks(["ranked"], 2)
    assert [[result["rank"] for result in results] for results in raised.value.results] == [["0"], ["1"]]


def measure(folder: Path, patch: pytest.MonkeyPatch, *counts: str) -> list[dict[str, Any]]:
    """Run the program on the CPU with a tiny network, for these numbers of ranks. Return the results that it saves."""
    patch.setattr(tempfile, "tempdir", str(folder))
    command = ["data_parallel", "--gpus", *counts, "--loaders", "ours, shared", "--device", "cpu", "--network", "tiny"]
    command += ["--batch-sizes", "4", "--files", "8", "--seconds", "0.1", "--output", str(folder)]
    patch.setattr(sys, "argv", command)
    assert data_parallel.main() == 0
    (saved,) = folder.glob("*-data-parallel.json")
    results: list[dict[str, Any]] = json.loads(saved.read_text())["results"]
    return results


@pytest.mark.thorough
@pytest.mark.slow
def test_measurement_of_two_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (result,) = measure(tmp_path, monkeypatch, "2")
    assert (result["gpus"], result["loader"]) == (2, "ours, shared")
    assert result["share"] > 0
    assert len(result["memory_mb"]) == 2
    assert min(result["memory_mb"]) > 50
    assert "ours, shared" in capsys.readouterr().out


def test_numbers_of_ranks_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(command: list[str], count: int, cores: int) -> list[list[Any]]:
        assert command[command.index("--loaders") + 1 :] == ["ours, shared"]
        return [[json.loads(json.dumps(asdict(rank(90.0 / count, (100.0, 100.0), 400.0))))]] * count

    monkeypatch.setattr(data_parallel, "run_ranks", measured)
    results = measure(tmp_path, monkeypatch, "1", "2")
    assert [(result["gpus"], result["share"]) for result in results] == [(1, 0.9), (2, 0.45)]
    assert [line.split()[-6:-3] for line in capsys.readouterr().out.splitlines()[1:3]] == [
        ["100.0%", "100.0%", "100.0%"],
        ["50.0%", "50.0%", "100.0%"],
    ]
