"""Random pixels and objects of segmentation maps: which are possible, and how often they are drawn."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._imaging.blobs import blob_boxes
from pipeline.errors import PipelineError
from tests.pipeline.operators.both import Array, run_dali, run_ours

LABELS = np.array([[0, 1, 1, 0], [0, 2, 0, 1], [3, 2, 0, 1]], np.int32)


def draw(operator: str, data: Array, count: int = 300, run: Any = run_ours, **arguments: Any) -> Counter[Any]:
    outputs = run(lambda fn, types, x: getattr(fn.segmentation, operator)(x, **arguments), [data] * count)
    rows = zip(*(output.samples for output in outputs), strict=True)
    return Counter(tuple(value for sample in row for value in np.ravel(sample).tolist()) for row in rows)


@pytest.mark.parity
@pytest.mark.parametrize(
    "arguments",
    [
        {"foreground": 1},
        {"foreground": 1, "value": 2},
        {"foreground": 1, "threshold": 1.5},
        {"foreground": 1, "value": 9},
        {"foreground": 0},
    ],
)
def test_mask_pixels_are_those_of_dali(arguments: dict[str, Any]) -> None:
    ours, theirs = (draw("random_mask_pixel", LABELS, run=run, **arguments) for run in (run_ours, run_dali))
    assert ours.keys() == theirs.keys()
    assert min(ours.values()) > 0.3 * 300 / len(ours)


@pytest.mark.parity
@pytest.mark.parametrize(
    "arguments",
    [
        {"output_class": True},
        {"foreground_prob": 0.5, "format": "start_end"},
        {"ignore_class": True},
        {"ignore_class": True, "k_largest": 3, "threshold": 1},
        {"classes": [1, 3], "class_weights": [3.0, 1.0], "output_class": True},
        {"class_weights": [0.0, 2.0], "output_class": True},
        {"classes": [0], "output_class": True},
        {"classes": [0], "foreground_prob": 0.0, "output_class": True},
        {"background": 1, "output_class": True},
        {"threshold": [2, 1], "output_class": True},
        {"threshold": 5, "output_class": True},
    ],
)
def test_objects_are_those_of_dali(arguments: dict[str, Any]) -> None:
    arguments = {"format": "box", **arguments}
    ours, theirs = (draw("random_object_bbox", LABELS, run=run, **arguments) for run in (run_ours, run_dali))
    assert ours.keys() == theirs.keys()
    for key, count in theirs.items():
        assert abs(ours[key] - count) < 75  # 4 standard deviations of the difference


def test_blobs_of_volumes_are_connected() -> None:
    mask = np.zeros((3, 4, 5), bool)
    mask[0, 0, :2] = mask[1, 0, 1] = mask[1, 1:, 1] = mask[2, 3, 4] = True
    assert blob_boxes(mask).tolist() == [[[0, 0, 0], [2, 4, 2]], [[2, 3, 4], [3, 4, 5]]]
    assert blob_boxes(np.array([1, 0, 1, 1], bool)).tolist() == [[[0], [1]], [[2], [4]]]


def test_masks_with_several_polygons_are_complete() -> None:
    polygons, vertices = np.array([[1, 0, 3], [0, 3, 6], [1, 6, 9]], np.int32), np.arange(18).reshape(9, 2)
    outputs = run_ours(
        lambda fn, types, *inputs: fn.segmentation.select_masks(*inputs),
        [np.array([1], np.int32)],
        [polygons],
        [vertices],
    )
    assert outputs[0].samples[0].tolist() == [[1, 0, 3], [1, 3, 6]]
    assert outputs[1].samples[0].tolist() == [*vertices[:3].tolist(), *vertices[6:].tolist()]


@pytest.mark.parametrize(
    ("operator", "arguments", "match"),
    [
        (
            "random_mask_pixel",
            {"value": 1, "threshold": 2.0},
            "``value`` and ``threshold`` can not be provided together",
        ),
        ("random_object_bbox", {"ignore_class": True, "classes": [1]}, "cannot be used when ``ignore_class`` is True"),
        ("random_object_bbox", {"classes": [1], "background": 1}, "coincides with background label"),
        ("random_object_bbox", {"classes": [1], "class_weights": [1.0, 2.0]}, "class_weights"),
        ("random_object_bbox", {"k_largest": 0}, "k_largest"),
        ("random_object_bbox", {"threshold": [1, 2, 3]}, "threshold"),
    ],
)
def test_invalid_arguments_are_refused(operator: str, arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(PipelineError, match=match):
        draw(operator, LABELS, 2, **arguments)
