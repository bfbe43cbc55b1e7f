"""What is known of the samples that take long to read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dali_proxy._loader import sample_costs
from dali_proxy._loader.sample_costs import SampleCosts


def note(costs: SampleCosts, indices: Any, seconds: list[float], readers: int = 4) -> None:
    costs.note(indices, np.array(seconds, np.float32), sum(seconds), readers)


def test_slow_sample_is_known_until_it_is_fast_again() -> None:
    costs = SampleCosts()
    note(costs, [0, 1, 2, 3], [1.0, 1.0, 9.0, 1.0])
    assert costs.ahead([2, 5], 4) == pytest.approx(8 * 4 / 12, rel=0.05)
    assert costs.ahead([5, 6], 4) == 0
    assert costs.farthest(2) == pytest.approx(8 * 2 / 12, rel=0.05)
    note(costs, [2, 7], [1.0, 1.0])
    assert (len(costs), costs.farthest(2)) == (0, 0)


def test_sample_that_hardly_prolongs_its_batch_is_not_kept() -> None:
    costs = SampleCosts()
    note(costs, [*range(256)], [1.0] * 255 + [10.0], readers=2)
    assert len(costs) == 0
    note(costs, [*range(256)], [1.0] * 255 + [10.0], readers=32)
    assert len(costs) == 1


def test_least_slow_samples_are_forgotten_if_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_costs, "_LIMIT", 8)
    costs = SampleCosts()
    for index in range(100):
        note(costs, [2 * index, 2 * index + 1], [1.0, 50.0 + index])
        assert len(costs) <= 8
    assert costs.ahead([199], 4) > costs.ahead([197], 4) > 0
    assert costs.ahead([1], 4) == 0


def test_indices_of_any_kind_are_accepted() -> None:
    costs = SampleCosts()
    note(costs, ["a", "b", "c"], [1.0, 1.0, 9.0])
    note(costs, 7, [9.0])
    note(costs, [torch.tensor(1), [2], (3,)], [1.0, 1.0, 9.0])
    note(costs, None, [])
    note(costs, [1, 2], [])  # read by `__getitems__`
    assert len(costs) == 2
    assert costs.ahead([np.int64(7)], 4) == costs.ahead(7, 4) > 0
    assert costs.ahead([[2], torch.tensor(7)], 4) == 0
