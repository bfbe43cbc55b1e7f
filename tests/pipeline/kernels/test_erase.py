"""Erased regions of ragged batches are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline._kernels.erase import plan_erase
from pipeline._kernels.samples import Samples
from pipeline.errors import PipelineError


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float64"])
@pytest.mark.parametrize("each", [False, True])
def test_regions_with_a_colour(runner: Any, dtype: str, each: bool) -> None:
    rng = np.random.default_rng(3)
    src = [rng.integers(0, 200, (5 + i, 9 - i, 3)).astype(dtype)[::-1] for i in range(4)]
    regions = [np.sort(rng.integers(0, 6, (count, 2, 3)), axis=1) for count in (0, 1, 3, 2)]
    regions = [np.minimum(boxes, source.shape) for boxes, source in zip(regions, src, strict=True)]
    fill = rng.integers(0, 255, (4, 3) if each else 3)
    dst = [np.zeros(source.shape, dtype) for source in src]
    runner.erase(src, dst, regions=regions, fill=fill, channel_axis=2)
    for sample, (source, out, boxes) in enumerate(zip(src, dst, regions, strict=True)):
        expected = source.copy()
        colour = np.broadcast_to(fill[sample] if each else fill, source.shape)
        for begin, end in boxes:
            inside = tuple(slice(first, last) for first, last in zip(begin, end, strict=True))
            expected[inside] = colour[inside]
        np.testing.assert_array_equal(out, expected)


def test_samples_without_elements_need_no_launch() -> None:
    empty = Samples.from_arrays([np.zeros((0, 3))])
    assert plan_erase(empty, empty, [np.zeros((1, 2, 2), np.int64)], 0.0) is None


def test_samples_that_do_not_fit_are_errors() -> None:
    src, dst = Samples.from_arrays([np.zeros((2, 3))]), Samples.from_arrays([np.zeros((3, 2))])
    with pytest.raises(PipelineError, match="outputs of the same shapes"):
        plan_erase(src, dst, [np.zeros((0, 2, 2), np.int64)], 0.0)
    with pytest.raises(PipelineError, match="regions for each"):
        plan_erase(src, src, [], 0.0)
