"""Training on several ranks, on the CPU with a tiny network: the code is the same on GPUs."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import pytest

from benchmarks.gpu import data_parallel
from benchmarks.gpu.data_parallel import RankShare, Result
from benchmarks.gpu.training import Share
from benchmarks.ranks import RankError, run_ranks


def rank(rate: float, resident: tuple[float, float], memory: float) -> RankShare:
    return RankShare(Share("ours", 8, "eager", (rate,), resident, 2.0, 1.0), memory, 0.0)


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


@pytest.mark.slow
def test_measurement_of_two_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    command = ["data_parallel", "--gpus", "1", "2", "--loaders", "ours, shared", "--device", "cpu", "--network", "tiny"]
    command += ["--batch-sizes", "4", "--files", "8", "--seconds", "0.1", "--rounds", "1", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    assert data_parallel.main() == 0
    (saved,) = tmp_path.glob("*-data-parallel.json")
    results = json.loads(saved.read_text())["results"]
    assert [(result["gpus"], result["loader"]) for result in results] == [(1, "ours, shared"), (2, "ours, shared")]
    assert all(result["share"] > 0 and min(result["memory_mb"]) > 50 for result in results)
    assert "ours, shared" in capsys.readouterr().out
