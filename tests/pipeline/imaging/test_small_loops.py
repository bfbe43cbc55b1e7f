"""Compiled loops over points, boxes and signals compute the same as NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline._imaging.native import compiled
from pipeline._imaging.points import map_points
from pipeline._operators.audio import preemphasis_filter
from pipeline._operators.boxes import box_encoder

pytestmark = pytest.mark.skipif(compiled is None, reason="the C module wasn't built")

RNG = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (3, 3), (4, 4), (2, 3), (1, 6)])
def test_points_equal_products_of_matrices(rows: int, columns: int) -> None:
    points, matrices, offsets = normal(5, 100, columns), normal(5, rows, columns), normal(5, rows)
    mapped = map_points(list(points), 100, matrices, offsets)
    assert mapped is not None
    expected = points.astype(np.float64) @ matrices.swapaxes(1, 2) + offsets[:, None]
    np.testing.assert_allclose(mapped, expected, rtol=1e-5, atol=1e-5)


def test_points_that_are_not_contiguous_are_left_to_numpy() -> None:
    assert map_points([normal(100, 4)[:, :2]], 100, normal(1, 2, 2), normal(1, 2)) is None


def test_matched_boxes_equal_those_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    corners = RNG.uniform(0, 0.8, (300, 2))
    planes = np.concatenate([corners, corners + RNG.uniform(0.05, 0.2, (300, 2))], axis=1).astype(np.float32)
    planes[7] = planes[3]  # equal overlaps
    anchors = box_encoder._Anchors(
        np.ascontiguousarray(planes.T),
        box_encoder._to_centers(planes),
        box_encoder._areas(planes),
        normal(4),
        normal(4),
    )
    boxes = np.concatenate([planes[:20], planes[3:4], np.zeros((1, 4), np.float32)])  # the last one has no area
    matched = anchors.match(boxes, 0.4)
    monkeypatch.setattr(box_encoder, "compiled", None)
    assert matched.tolist() == anchors.match(boxes, 0.4).tolist()


@pytest.mark.parametrize("border", ["zero", "clamp", "reflect"])
@pytest.mark.parametrize("length", [0, 1, 2, 1000])
def test_filtered_signal_equals_that_of_numpy(border: str, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    signal, results = normal(length), np.zeros((2, length), np.float32)
    preemphasis_filter._filter(signal, np.float32(0.97), border, results[0])
    monkeypatch.setattr(preemphasis_filter, "compiled", None)
    preemphasis_filter._filter(signal, np.float32(0.97), border, results[1])
    assert results[0].tolist() == results[1].tolist()
