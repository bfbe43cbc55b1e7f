"""The benchmarks from beginning to end, with the rivals that are always available and very little time."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from tests.environment import ROOT, with_project
from tests.preloaded import run_python


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_table_and_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    size = ["--files", "12", "--rounds", "2", "--seconds", "0.1", "--batch-size", "8"]
    kinds = ["--kinds", "bytes", "arrays-60KB"]
    rivals = ["--rivals", "dali-proxy", "torch-best"]
    monkeypatch.setattr(sys, "argv", ["", *size, *kinds, *rivals, "--no-costs", "--output", str(tmp_path)])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # folder of the JPEGs
    assert main() == 0
    assert "encoded bytes" in capsys.readouterr().out

    (saved,) = tmp_path.glob("*.json")
    text = saved.read_text()
    assert str(tmp_path) not in text
    assert str(ROOT) not in text
    document = json.loads(text)
    assert document["machine"]["cores"] >= 1
    bytes_kind = document["kinds"]["bytes"]
    assert bytes_kind["setup"]["batch_size"] == 8
    assert set(bytes_kind["rivals"]) == {"dali-proxy", "torch-best"}
    plain = bytes_kind["rivals"]["torch-best"]
    assert len(plain["rounds"]) == 2
    assert all(one["samples"] > 0 and one["cpu_seconds"] >= 0 for one in plain["rounds"])
    low, high = plain["reference_ratio_range"]
    assert low <= plain["reference_ratio"] <= high
    assert set(document["kinds"]["arrays-60KB"]["rivals"]) == {"dali-proxy"}  # the other rival doesn't load arrays
    assert document["kinds"]["arrays-60KB"]["failures"] == {}


def test_help_names_the_rivals() -> None:
    done = run_python("-m", "benchmarks", "--help", cwd=ROOT, env=with_project())
    assert done.returncode == 0, done.stderr
    assert "nvidia-proxy" in done.stdout
