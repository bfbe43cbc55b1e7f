"""Bins of limited size that cost about the same."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from dali_proxy.pipeline._bulk import bins
from dali_proxy.pipeline._bulk.bins import fill_bins


def drawn(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, 400, count)
    return lengths, np.stack([lengths, generator.integers(0, 2000, count)], axis=1).astype(np.float64)


def test_bins_cost_the_same() -> None:
    lengths, costs = drawn(2000)
    homes = fill_bins(lengths, costs, 8192, 52)
    assert homes is not None
    for kind in (lengths, *costs.T):
        sums = np.bincount(homes, kind, 52)
        assert sums.max() / sums.mean() < 1.01
    assert np.bincount(homes, lengths, 52).max() <= 8192


@pytest.mark.parametrize("seed", range(5))
def test_python_fills_bins_as_the_c_module(seed: int) -> None:
    lengths, costs = drawn(300, seed)
    for capacity, count in ((4096, 16), (2000, 31), (500, 100)):
        made = fill_bins(lengths, costs, capacity, count)
        with patch.object(bins, "compiled", None):
            expected = fill_bins(lengths, costs, capacity, count)
        assert (made is None) == (expected is None)
        assert made is None or made.tolist() == expected.tolist()  # type: ignore[union-attr]


def test_sample_without_room_is_noticed() -> None:
    assert fill_bins(np.array([3, 3, 3]), np.ones((3, 1)), 5, 2) is None
    assert sorted(fill_bins(np.array([3, 3, 2]), np.zeros((3, 1)), 5, 2).tolist()) in ([0, 0, 1], [0, 1, 1])  # type: ignore[union-attr]
