"""`python -m benchmarks.engine`, which needs a GPU with a JPEG engine, and its thread in C."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from benchmarks.engine import __main__ as program


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_thread_has_the_layout_of_its_structure() -> None:
    pytest.importorskip("cupy")
    from benchmarks.engine import work

    work._compiled()


@pytest.mark.gpu
@pytest.mark.timeout(120)
def test_rows_for_each_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tmp_path / "engine.json"
    options = [
        "--network",
        "tiny",
        "--batches",
        "8",
        "--rounds",
        "1",
        "--seconds",
        "0.1",
        "--modes",
        "planes",
        "colours",
    ]
    monkeypatch.setattr(sys, "argv", ["engine", *options, "--json", str(found)])
    program.main()
    rows = json.loads(found.read_text())["rows"]
    assert [row["mode"] for row in rows] == [
        "planes without a training",
        "colours without a training",
        "planes",
        "colours",
    ]
    assert all(row.get("rate", 1) > 0 for row in rows)
