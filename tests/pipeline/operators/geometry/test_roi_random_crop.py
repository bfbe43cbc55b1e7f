"""`roi_random_crop`: all allowed positions, with the same frequency."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from pipeline.errors import PipelineError
from tests.pipeline.operators.both import run_dali, run_ours

COUNT = 900


def positions(run: Any, **arguments: Any) -> Counter[int]:
    (output,) = run(lambda fn, types: fn.roi_random_crop(**arguments), batch_size=COUNT)
    assert output.samples[0].dtype == np.int64
    return Counter(int(sample[0]) for sample in output.samples)


@pytest.mark.parametrize(
    ("roi", "limits", "expected"),
    [
        ((2, 4), None, range(0, 3)),
        ((2, 11), None, range(2, 8)),
        ((1, 3), 6, range(0, 2)),
        ((3, 6), 6, range(2, 3)),
        ((2, 2), None, range(-2, 3)),
    ],
)
def test_windows_keep_the_region(roi: tuple[int, int], limits: int | None, expected: range) -> None:
    arguments: dict[str, Any] = {"crop_shape": [4], "roi_start": [roi[0]], "roi_end": [roi[1]]}
    if limits is not None:
        arguments["in_shape"] = [limits]
    counts = positions(run_ours, **arguments)
    assert sorted(counts) == list(expected)
    assert min(counts.values()) > 0.7 * COUNT / len(expected)


@pytest.mark.parity
def test_windows_are_those_of_dali() -> None:
    arguments = {"crop_shape": [4], "roi_start": [2], "roi_shape": [2]}
    assert positions(run_ours, **arguments).keys() == positions(run_dali, **arguments).keys()


def test_windows_lie_inside_of_the_input() -> None:
    data = [np.zeros((5, 9, 3), np.uint8)] * 20
    (output,) = run_ours(
        lambda fn, types, x: fn.roi_random_crop(x, crop_shape=[4, 4], roi_start=[0, 6], roi_shape=[2, 3]), data
    )
    found = np.stack(output.samples)
    assert set(found[:, 0].tolist()) <= {0, 1}
    assert set(found[:, 1].tolist()) == {5}


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({}, "but not both"),
        ({"roi_end": [9]}, "out of bounds"),
        ({"roi_end": [3], "crop_shape": [9]}, "bigger than the input"),
    ],
)
def test_invalid_windows_are_refused(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(PipelineError, match=match):
        positions(run_ours, **{"crop_shape": [4], "roi_start": [2], "in_shape": [8], **arguments})
