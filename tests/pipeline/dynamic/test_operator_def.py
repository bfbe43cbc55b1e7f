"""Operators of the user in dynamic mode."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline import dynamic, operator_def

IMAGES = [np.full((4, 3 + i, 3), i, np.uint8) for i in range(3)]


def test_dynamic_mode_runs_and_seeds_operators() -> None:
    @operator_def
    def noisy(image: Any, sigma: float) -> Any:
        return image + np.random.normal(0, sigma, image.shape)

    results = []
    for _ in range(2):
        dynamic.random.set_seed(9)
        results.append(noisy(dynamic.as_batch(IMAGES, layout="HWC"), 2.0))
    assert [each.layout for each in results] == ["HWC", "HWC"]
    assert all(
        np.array_equal(one.numpy(), two.numpy()) for one, two in zip(*(each.tensors for each in results), strict=True)
    )
    again = noisy(dynamic.as_batch(IMAGES), 2.0)
    assert not np.array_equal(again.tensors[0].numpy(), results[0].tensors[0].numpy())
