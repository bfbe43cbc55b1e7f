"""`ssd_random_crop`: properties of its windows, and their distribution compared with NVIDIA DALI's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.errors import PipelineError
from tests.pipeline.operators.both import Array, run_dali, run_ours

IMAGE = np.stack(np.meshgrid(np.arange(120), np.arange(100)), axis=-1).astype(np.uint8)
BOXES = np.array([[0.1, 0.1, 0.5, 0.5], [0.2, 0.3, 0.9, 0.8]], np.float32)
LABELS = np.array([7, 9], np.int32)


def crops(run: Any, count: int, labels: Array = LABELS, **arguments: Any) -> list[list[Array]]:
    graph = lambda fn, types, *inputs: fn.ssd_random_crop(*inputs, **arguments)  # noqa: E731
    return [output.samples for output in run(graph, [IMAGE] * count, [BOXES] * count, [labels] * count)]


def test_boxes_move_with_the_window() -> None:
    for image, boxes, labels in zip(*crops(run_ours, 100, num_attempts=10), strict=True):
        (left, top), (height, width, _) = image[0, 0].tolist(), image.shape
        corners = boxes * np.array([width, height] * 2) + np.array([left, top] * 2)
        whole = BOXES[[7, 9].index(labels[0]) :][: len(labels)] * np.array([120, 100] * 2)
        expected = np.clip(whole, [left, top] * 2, [left + width, top + height] * 2)
        assert np.abs(corners - expected).max() < 2  # the window is rounded to pixels


@pytest.mark.parity
@pytest.mark.parametrize("attempts", [1, 20])
def test_sizes_are_distributed_as_in_dali(attempts: int) -> None:
    count = 600
    ours, theirs = (
        np.array([image.shape[:2] for image in crops(run, count, num_attempts=attempts)[0]])
        for run in (run_ours, run_dali)
    )
    for axis in (0, 1):
        mine, its = np.sort(ours[:, axis]), np.sort(theirs[:, axis])
        values = np.concatenate([mine, its])
        distance = np.abs(np.searchsorted(mine, values, "right") - np.searchsorted(its, values, "right")).max()
        assert distance / count < 1.95 * (2 / count) ** 0.5  # Kolmogorov and Smirnov: p = 0.001


def test_labels_must_fit_the_boxes() -> None:
    with pytest.raises(PipelineError, match="1 labels for 2 boxes"):
        crops(run_ours, 2, LABELS[:1])
