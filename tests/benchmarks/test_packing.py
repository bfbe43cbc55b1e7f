"""The benchmark of packed batches: its goals hold for a small mixture, and both ways make the same patches."""

from __future__ import annotations

import numpy as np

from benchmarks.packing import patches
from benchmarks.packing.plan import measure_plans
from benchmarks.packing.samples import draw_images


def test_plans_reach_the_goals() -> None:
    figures = measure_plans(12_000, 8192)
    assert figures["same_batches"]
    assert figures["same_after_resume"]
    for ranks in (2, 4, 8):
        assert figures[f"{ranks} ranks"]["padding"] <= 0.03
        assert max(figures[f"{ranks} ranks"]["heaviest"]) <= 1.05 < min(figures["8 ranks"]["heaviest_by_count"])


def test_ways_make_the_same_number_of_patches() -> None:
    files = [np.frombuffer(file, np.uint8) for file in draw_images(4)]
    counts = {patches._ours("cpu", 1, 4, "jpeg")(files), patches._torch("cpu", "jpeg")(files)}
    assert len(counts) == 1
