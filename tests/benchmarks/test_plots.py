"""Plots are drawn even if results are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.plots import plot_ratios, plot_scaling

pytest.importorskip("matplotlib")

MACHINE = {"date": "2026-11-21", "machine": {"gpus": [], "processor": "a processor", "cores": 2}}


def is_png(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG")


def test_ratios(tmp_path: Path) -> None:
    rivals = {"dali-proxy": {}, "torch-best": {"reference_ratio": 1.2, "reference_ratio_range": [1.1, 1.3]}}
    document = {**MACHINE, "reference": "dali-proxy", "kinds": {"bytes": {"rivals": rivals}}}
    path = tmp_path / "ratios.png"
    assert plot_ratios(document, path) == "Saved ratios.png."
    assert is_png(path)
    rivals.pop("torch-best")
    assert plot_ratios(document, tmp_path / "none.png").startswith("Nothing to draw")
    assert not (tmp_path / "none.png").exists()


def test_scaling(tmp_path: Path) -> None:
    sizes = [{"x": 10_000, "rates": {"dali-proxy": [100.0, 120.0]}}, {"x": 100_000, "rates": {}}]
    costs = [{"x": 1, "us": [40.0]}, {"x": 2, "us": [41.0]}]
    document = {**MACHINE, "throughput": {"sample size": sizes}, "cost_per_sample": {"epoch": costs}}
    path = tmp_path / "scaling.png"
    assert plot_scaling(document, path) == "Saved scaling.png."
    assert is_png(path)
