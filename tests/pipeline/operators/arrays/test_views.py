"""Operators read views, as from indexing and cropping: with gaps, reversed, with permuted axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.pipeline.operators.both import RAGGED, difference, run_ours, sample_images

OPERATIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "resize smaller": lambda fn, _, x: fn.resize(x, size=[5, 7]),
    "resize larger": lambda fn, _, x: fn.resize(x, size=[40, 50]),
    "resize nearest": lambda fn, types, x: fn.resize(x, size=[8, 40], interp_type=types.INTERP_NN),
    "crop": lambda fn, _, x: fn.crop(x, crop=[4, 5]),
    "crop_mirror_normalize": lambda fn, _, x: fn.crop_mirror_normalize(x, crop=[4, 5], mirror=1, mean=3.0),
    "crop_mirror_normalize to bytes": lambda fn, types, x: fn.crop_mirror_normalize(x, mean=3.0, dtype=types.UINT8),
    "flip": lambda fn, _, x: fn.flip(x, vertical=1),
    "transpose": lambda fn, _, x: fn.transpose(x, perm=[2, 0, 1]),
    "cast": lambda fn, types, x: fn.cast(x, dtype=types.INT32),
    "copy": lambda fn, _, x: fn.copy(x),
    "slice": lambda fn, _, x: fn.slice(x, start=[1, 2], end=[5, 6]),
}


@pytest.mark.combinations
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("key", [np.s_[::-1], np.s_[:, ::-1], np.s_[2::2, 1:-1], np.s_[::-2, ::-2, ::-1]])
def test_views_give_the_results_of_copies(name: str, dtype: str, key: Any) -> None:
    feed = sample_images(*RAGGED, dtype=dtype)
    operation = OPERATIONS[name]
    (of_views,) = run_ours(lambda fn, types, x: operation(fn, types, x[key]), feed, layouts=["HWC"])
    copies = [np.ascontiguousarray(sample[key]) for sample in feed]
    (of_copies,) = run_ours(operation, copies, layouts=["HWC"])
    assert of_views.layout == of_copies.layout
    for ours, expected in zip(of_views.samples, of_copies.samples, strict=True):
        assert ours.shape == expected.shape
        assert difference(ours, expected) == 0
