"""Windows that keep boxes: properties of every window, and distributions compared with NVIDIA DALI's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.errors import PipelineError
from tests.pipeline.operators.both import Array, refused_by_both, run_dali, run_ours

BOXES = np.array([[0.1, 0.1, 0.5, 0.5], [0.4, 0.3, 0.9, 0.95]], np.float32)
GRID = np.array(
    [[x, y, x + 0.02, y + 0.02] for x in np.arange(0.01, 1, 0.04)[:24] for y in np.arange(0.01, 1, 0.04)[:24]]
)
WIDE: dict[str, Any] = {"scaling": [0.3, 1.0], "aspect_ratio": [0.5, 2.0], "allow_no_crop": False}


def crops(run: Any, boxes: Array, count: int, labels: Array | None = None, **arguments: Any) -> list[list[Array]]:
    feeds = [[boxes.astype(np.float32)] * count, *([[labels] * count] if labels is not None else [])]
    outputs = run(lambda fn, types, *inputs: fn.random_bbox_crop(*inputs, **arguments), *feeds)
    return [output.samples for output in outputs]


def overlaps(anchor: Array, shape: Array, boxes: Array, kind: str) -> Array:
    """Return the overlap of each window with each box."""
    low, high = np.maximum(anchor[:, None], boxes[:, :2]), np.minimum((anchor + shape)[:, None], boxes[:, 2:])
    common = np.prod(np.maximum(high - low, 0), axis=-1)
    sizes = np.prod(boxes[:, 2:] - boxes[:, :2], axis=-1)
    return common / (sizes if kind == "overlap" else sizes + np.prod(shape, axis=-1)[:, None] - common)


@pytest.mark.parametrize("kind", ["iou", "overlap"])
@pytest.mark.parametrize("every", [True, False])
def test_windows_overlap_by_the_threshold(kind: str, every: bool) -> None:
    chosen = {**WIDE, "thresholds": [0.3], "num_attempts": 500, "threshold_type": kind}
    anchors, shapes, kept, indices = crops(
        run_ours, BOXES, 300, all_boxes_above_threshold=every, output_bbox_indices=True, **chosen
    )
    anchor, shape = np.stack(anchors), np.stack(shapes)
    assert ((anchor >= 0) & (anchor + shape <= 1 + 1e-6)).all()
    ratio = shape[:, 0] / shape[:, 1]
    assert ratio.min() >= 0.5 - 1e-6
    assert ratio.max() <= 2 + 1e-6
    found = overlaps(anchor, shape, BOXES, kind)
    assert (found.min(axis=1) if every else found.max(axis=1)).min() >= 0.3 - 1e-5
    centers = (BOXES[:, :2] + BOXES[:, 2:]) / 2
    for number in range(300):
        inside = ((centers >= anchor[number]) & (centers <= anchor[number] + shape[number])).all(axis=1)
        assert indices[number].tolist() == np.flatnonzero(inside).tolist()
        assert len(indices[number])
        moved = (BOXES[inside] - np.tile(anchor[number], 2)) / np.tile(shape[number], 2)
        assert np.allclose(kept[number], np.clip(moved, 0, 1), atol=1e-5)


@pytest.mark.parity
@pytest.mark.parametrize(
    ("boxes", "arguments"),
    [
        (GRID, WIDE),
        (GRID, {**WIDE, "aspect_ratio": [1.0, 1.0]}),
        (GRID, {**WIDE, "aspect_ratio": [2.0, 2.5]}),
        (BOXES, {**WIDE, "thresholds": [0.0, 0.4], "num_attempts": 200}),
        (BOXES, {**WIDE, "input_shape": [100, 50], "aspect_ratio": [0.9, 1.5]}),
        (BOXES, {"crop_shape": [50, 60], "input_shape": [100, 120]}),
        (BOXES, {"crop_shape": [150, 60], "input_shape": [100, 120]}),
    ],
)
def test_distributions_are_those_of_dali(boxes: Array, arguments: dict[str, Any]) -> None:
    count = 800
    ours, theirs = (
        np.concatenate([np.stack(output) for output in crops(run, boxes, count, **arguments)[:2]], axis=1)
        for run in (run_ours, run_dali)
    )
    for column in range(4):
        mine, its = np.sort(ours[:, column]), np.sort(theirs[:, column])
        values = np.concatenate([mine, its])
        distance = np.abs(
            np.searchsorted(mine, values + 1e-6, "right") - np.searchsorted(its, values + 1e-6, "right")
        ).max()
        assert distance / count < 1.95 * (2 / count) ** 0.5  # Kolmogorov and Smirnov: p = 0.001


def test_whole_image_is_one_of_the_choices() -> None:
    anchors, shapes, kept = crops(
        run_ours, BOXES, 600, **{**WIDE, "allow_no_crop": True, "thresholds": [0.0, 0.1, 0.2], "num_attempts": 500}
    )
    whole = [number for number in range(600) if (shapes[number] == 1).all()]
    assert 105 < len(whole) < 200  # a quarter, within 4.2 standard deviations
    for number in whole:
        assert not anchors[number].any()
        assert np.allclose(kept[number], BOXES)


def test_best_window_is_taken_when_none_fits() -> None:
    arguments = {**WIDE, "thresholds": [0.999], "total_num_attempts": 10, "num_attempts": 3}
    with pytest.warns(UserWarning, match="no window fits"):
        anchors, shapes, kept = crops(run_ours, BOXES, 4, **arguments)
    assert all(len(boxes) for boxes in kept)
    assert overlaps(np.stack(anchors), np.stack(shapes), BOXES, "iou").max() < 0.999


def test_sample_does_not_depend_on_the_others() -> None:
    def draw(*boxes: Array) -> list[Any]:
        arguments = {**WIDE, "thresholds": [0.1, 0.2], "num_attempts": 3, "total_num_attempts": 200, "quiet": True}
        return run_ours(lambda fn, types, x: fn.random_bbox_crop(x, **arguments), list(boxes))

    few = BOXES.astype(np.float32)
    hard = np.array([[0.5, 0.5, 0.9, 0.6]], np.float32)  # its windows are drawn more often than those of `few`
    for alone, together in zip(draw(few, few), draw(few, few, hard), strict=True):
        for sample in range(2):
            assert np.array_equal(alone.samples[sample], together.samples[sample])


def test_labels_layouts_and_pruning() -> None:
    labels = np.array([7, 9], np.int64)
    anchors, shapes, kept, chosen = crops(run_ours, BOXES, 20, labels, bbox_prune_threshold=0.0, **WIDE)
    for number in range(20):
        found = overlaps(anchors[number][None], shapes[number][None], BOXES, "overlap")[0] > 0
        assert chosen[number].tolist() == labels[found].tolist()
    turned = BOXES[:, [1, 0, 3, 2]].copy()
    turned[:, 2:] -= turned[:, :2]
    same = crops(run_ours, turned, 20, labels, bbox_prune_threshold=0.0, bbox_layout="yxHW", **WIDE)
    for number in range(20):
        assert np.allclose(same[0][number], anchors[number])
        back = same[2][number].copy()
        back[:, 2:] += back[:, :2]
        assert np.allclose(back[:, [1, 0, 3, 2]], kept[number], atol=1e-5)


def test_volumes_and_samples_without_boxes() -> None:
    volume = np.array([[0.1, 0.1, 0.1, 0.9, 0.8, 0.7]], np.float32)
    anchors, shapes, kept = crops(run_ours, volume, 30, **{**WIDE, "thresholds": [0.2], "num_attempts": 100})
    assert np.stack(anchors).shape == (30, 3)
    sides = np.stack(shapes)
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert (sides[:, first] / sides[:, second]).min() >= 0.5 - 1e-5
    assert all(boxes.shape == (1, 6) for boxes in kept)
    _, _, none = crops(run_ours, np.zeros((0, 4), np.float32), 3, **WIDE)
    assert [boxes.shape for boxes in none] == [(0, 4)] * 3


@pytest.mark.parity
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"crop_shape": [50, 60]}, "needs 'input_shape'"),
        ({"ltrb": False, **WIDE}, "must lie within the image"),
        ({"bbox_layout": "xyXW"}, "'bbox_layout' must name"),
        ({"scaling": [0.9, 0.5]}, "'scaling' must be a range"),
        ({"aspect_ratio": [2.0, 1.0]}, "'aspect_ratio' must be ranges"),
        ({"crop_shape": [5, 5], "input_shape": [9, 9], "scaling": [0.5, 1.0]}, "can't be used together"),
    ],
)
def test_bad_calls_are_refused(arguments: dict[str, Any], match: str) -> None:
    error = refused_by_both(lambda fn, types, x: fn.random_bbox_crop(x, **arguments), [BOXES], match=match)
    assert isinstance(error, PipelineError)
