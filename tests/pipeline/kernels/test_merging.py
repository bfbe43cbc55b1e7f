"""Merged dimensions: an index into them finds the same elements."""

from __future__ import annotations

import numpy as np
import pytest

from dali_proxy.pipeline._kernels.merging import groups_of, merged_extents

ARRAY = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
SINGLE = np.arange(12).reshape(2, 1, 6).transpose(0, 2, 1)


@pytest.mark.parametrize(
    ("arrays", "apart", "expected"),
    [
        ([ARRAY], (), [[0, 1, 2, 3]]),
        ([ARRAY], (2,), [[0, 1], [2], [3]]),
        ([ARRAY, ARRAY[:, :, 1:]], (), [[0, 1], [2, 3]]),
        ([ARRAY[:, ::-1]], (), [[0], [1], [2, 3]]),
        ([ARRAY.transpose(0, 1, 3, 2)], (), [[0, 1], [2], [3]]),
        ([np.broadcast_to(ARRAY[:, :1], (2, 3, 4, 5))], (), [[0], [1], [2, 3]]),
        ([SINGLE], (), [[0, 1], [2]]),
    ],
)
def test_groups(arrays: list[np.ndarray], apart: tuple[int, ...], expected: list[list[int]]) -> None:
    extents = np.array([array.shape for array in arrays], np.int64)
    strides = np.array([array.strides for array in arrays], np.int64)
    groups = groups_of(extents, strides, apart=apart)
    merged = merged_extents(extents, groups)
    for array, shape, step in zip(arrays, merged, strides[:, [group[-1] for group in groups]], strict=True):
        seen = np.lib.stride_tricks.as_strided(array, shape.tolist(), step.tolist())
        assert np.array_equal(seen.ravel(), array.ravel())
    assert groups == expected


def test_strides_have_to_agree() -> None:
    extents = np.array([[4, 5, 3]])
    assert groups_of(extents, np.array([[15, 3, 1]]), np.array([[0, 0, 0]])) == [[0, 1, 2]]
    assert groups_of(extents, np.array([[15, 3, 1]]), np.array([[0, 0, 1]])) == [[0, 1], [2]]
    assert groups_of(np.zeros((2, 0), np.int64), np.zeros((2, 0), np.int64)) == []
