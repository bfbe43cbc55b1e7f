"""Operators of the user in dynamic mode."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

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


@pytest.mark.parametrize("count", [2, np.int32([2])])
def test_traced_functions_call_operators(count: Any) -> None:
    @operator_def
    def lit(image: Any, factor: Any, count: Any, amount: int) -> Any:
        return image + np.uint8(factor * count + amount)

    def augment(image: Any, factor: Any) -> Any:
        return lit(image, factor, count, amount=1)

    pipe = dynamic.trace(augment, batch_size=3, num_threads=1, seed=1)
    (results,) = pipe.run(image=IMAGES, factor=np.int32([[1], [2], [3]]))
    assert [results.at(i).flat[0] for i in range(3)] == [3, 6, 9]
    pipe.close()


def test_traced_functions_draw_arguments_of_operators_with_dynamic_random() -> None:
    lit = operator_def(lambda image, amount: image + amount)
    with pytest.raises(dynamic.TracingError, match="draws random numbers"):
        dynamic.trace(lambda image: lit(image, random.randrange(1 << 30)))
