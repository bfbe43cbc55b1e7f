"""`Mixture`: datasets by weight, and what a model has seen of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy import Mixture, PackedBatchSampler, SourceCounts
from pipeline.errors import ArgumentValueError

DATASETS: dict[str, Any] = {"text": [{"name": f"t{n}"} for n in range(700)], "images": [f"i{n}" for n in range(300)]}


def test_datasets_contribute_by_weight() -> None:
    mixture = Mixture(DATASETS, {"text": 3, "images": 1}, samples=10_000)
    counts = mixture.count(mixture.order(0))
    assert counts["text"] + counts["images"] == 10_000
    assert abs(counts["images"] - 2500) < 150
    assert mixture.count(Mixture(DATASETS, {"text": 1, "images": 0}).order(0)) == {"text": 1000, "images": 0}


def test_weights_change_with_the_number_of_samples() -> None:
    mixture = Mixture(DATASETS, lambda drawn: {"text": 1.0, "images": drawn >= 8192}, samples=6000)
    first, second = mixture.order(0), mixture.order(1)
    assert mixture.count(first)["images"] == 0
    assert mixture.count(second[:2000])["images"] == 0  # the 8,000th sample
    assert abs(mixture.count(second[3072:])["images"] - 1464) < 150


def test_dataset_is_used_up_before_it_repeats() -> None:
    mixture = Mixture(DATASETS, {"text": 1, "images": 1}, samples=800)
    orders = np.concatenate([mixture.order(epoch) for epoch in range(4)])
    images = orders[orders >= 700] - 700
    for begin in range(0, len(images) - 300, 300):
        assert sorted(images[begin : begin + 300].tolist()) == list(range(300))
    assert images[:300].tolist() != images[300:600].tolist()
    later = Mixture(DATASETS, {"text": 1, "images": 1}, samples=800)
    assert later.order(3).tolist() == orders[2400:].tolist()  # without the earlier epochs
    assert later.order(1).tolist() == orders[800:1600].tolist()


def test_samples_know_their_dataset() -> None:
    mixture = Mixture(DATASETS, {"text": 1, "images": 1})
    assert len(mixture) == 1000
    assert mixture[3] == {"name": "t3", "source": 0}
    assert mixture[700] == "i0"
    assert mixture.sources([0, 699, 700, 999]).tolist() == [0, 0, 1, 1]
    assert Mixture(DATASETS, {"text": 1, "images": 1}, key=None)[3] == {"name": "t3"}
    with pytest.raises(IndexError, match="index 1000 is out of range"):
        mixture[1000]


def test_order_is_packed() -> None:
    mixture = Mixture(DATASETS, {"text": 1, "images": 2}, samples=500, seed=2)
    sampler = PackedBatchSampler([10] * 700 + [30] * 300, 100, order=mixture.order)
    drawn = [index for batch in sampler for index in batch]
    assert sorted(drawn) == sorted(mixture.order(0).tolist())


def test_counts_are_saved() -> None:
    mixture = Mixture(DATASETS, {"text": 1, "images": 1})
    counts = SourceCounts(mixture)
    counts.add(np.array([0, 1, 0]), np.array([5, 7, 9]))
    restored = SourceCounts(mixture)
    restored.load_state_dict(counts.state_dict())
    restored.add([1], [1])
    assert restored.samples == {"text": 2, "images": 2}
    assert restored.tokens == {"text": 14, "images": 8}


@pytest.mark.parametrize(
    ("datasets", "weights", "message"),
    [
        ({}, {}, "there are no datasets"),
        ({"a": []}, {"a": 1}, "the datasets a are empty"),
        ({"a": [1]}, {"b": 1}, "a number for each of a"),
        ({"a": [1], "b": [2]}, {"a": 1}, "a number for each of a, b"),
        ({"a": [1]}, {"a": -1}, "not negative"),
        ({"a": [1]}, lambda drawn: {"a": 0}, "not all 0"),
    ],
)
def test_wrong_weights_are_errors(datasets: Any, weights: Any, message: str) -> None:
    with pytest.raises(ArgumentValueError, match=message):
        Mixture(datasets, weights)
