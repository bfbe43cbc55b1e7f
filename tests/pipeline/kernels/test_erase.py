"""Erased regions of ragged batches are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float64"])
@pytest.mark.parametrize("each", [False, True])
def test_regions_with_a_colour(runner: Any, dtype: str, each: bool) -> None:
    rng = np.random.default_rng(3)
    src = [rng.integers(0, 200, (5 + i, 9 - i, 3)).astype(dtype)[::-1] for i in range(4)]
    regions = [np.sort(rng.integers(0, 6, (count, 2, 3)), axis=1) for count in (0, 1, 3, 2)]
    regions = [np.minimum(boxes, source.shape) for boxes, source in zip(regions, src, strict=True)]
    fill = rng.integers(0, 255, (4, 3) if each else 3)
    dst = [np.zeros(source.shape, dtype) for source in src]
    padded = np.zeros((4, 3, 2, 3), np.int64)
    for rows, boxes in zip(padded, regions, strict=True):
        rows[: len(boxes)] = boxes
    runner.evaluate(src, dst, lambda pixels: pixels.erase(padded, fill))
    for sample, (source, out, boxes) in enumerate(zip(src, dst, regions, strict=True)):
        expected = source.copy()
        colour = np.broadcast_to(fill[sample] if each else fill, source.shape)
        for begin, end in boxes:
            inside = tuple(slice(first, last) for first, last in zip(begin, end, strict=True))
            expected[inside] = colour[inside]
        np.testing.assert_array_equal(out, expected)


def test_many_regions(runner: Any) -> None:
    image = np.arange(400, dtype=np.uint16).reshape(20, 20)
    begin = np.stack([np.arange(20), np.arange(20)[::-1]], axis=1)
    made = [np.zeros_like(image)]
    runner.evaluate([image], made, lambda pixels: pixels.erase(np.stack([begin, begin + 1], axis=1)[None], 7))
    expected = image.copy()
    expected[begin[:, 0], begin[:, 1]] = 7
    np.testing.assert_array_equal(made[0], expected)
