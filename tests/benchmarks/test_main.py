"""The benchmarks from beginning to end, with the rivals that are always available and very little time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *words]
    environment = {**os.environ, "TMPDIR": str(folder)}  # folder of the JPEGs
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=380, check=False)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_table_and_json(tmp_path: Path) -> None:
    size = ["--files", "24", "--rounds", "2", "--seconds", "0.2", "--batch-size", "8"]
    kinds = ["--kinds", "bytes", "arrays-60KB"]
    rivals = ["--rivals", "dali-proxy", "torch-best"]
    done = run(tmp_path, *size, *kinds, *rivals, "--no-costs", "--output", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "encoded bytes" in done.stdout

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


def test_help_names_the_rivals(tmp_path: Path) -> None:
    done = run(tmp_path, "--help")
    assert done.returncode == 0
    assert "nvidia-proxy" in done.stdout
