"""The tables of graphs are those of the last results."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.graphs.report import as_json
from benchmarks.graphs.session import Result
from benchmarks.measurement import Measurement
from benchmarks.operators.session import OURS, THEIRS
from docs import graphs_speed


def test_tables_are_not_stale() -> None:
    text = graphs_speed.PAGE.read_text(encoding="utf-8")
    assert text == graphs_speed.with_tables(text), "run `python -m docs.all`"


def test_tables_are_of_the_last_results(tmp_path: Path) -> None:
    assert "no results" in graphs_speed.tables(tmp_path)
    ours, theirs = [Measurement(3000, 1.0, 1.5, 0.0)], [Measurement(2000, 1.0, 2.0, 0.0)]
    measured = [Result("small", 64, {OURS: ours, THEIRS: theirs}), Result("mix", 16, {OURS: ours})]
    document = {
        "date": "2026-11-23",
        "command": "python -m benchmarks.graphs --device cuda:0",
        "machine": {"gpus": ["a GPU"], "processor": "a processor", "cores": 4},
        "graphs": [as_json(result) for result in measured],
    }
    for date in ("2026-11-22", "2026-11-23"):
        (tmp_path / f"{date}-a-gpu-graphs.json").write_text(json.dumps({**document, "date": date}))
    text = graphs_speed.with_tables(graphs_speed.PAGE.read_text(encoding="utf-8"), tmp_path)
    assert "a GPU, 4 cores, 2026-11-23" in text
    assert "2026-11-22: `python -m benchmarks.graphs" not in text
    assert "| 64 | 3,000 | 2,000 | 1.50 (1.50 to 1.50) | 0.50 (0.50 to 0.50) | 1.5 / 2.0 |" in text
    assert "| 16 | 3,000 | - | - | - | 1.5 / - |" in text
