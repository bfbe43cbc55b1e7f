"""The frames for numbers and times."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dali_proxy.pipeline._video.frame_request import FrameRequest, nearest_frames
from dali_proxy.pipeline._video.index import FrameIndex
from dali_proxy.pipeline._video.selection import FILL
from pipeline.errors import PipelineError


def index_of(*times: int) -> FrameIndex:
    return FrameIndex(np.array(times), np.zeros(1, np.int64), Fraction(1, 100))


def test_nearest_frames_of_a_varying_rate() -> None:
    index = index_of(0, 10, 12, 40)
    times = np.array([0, 0.05, 0.051, 0.11, 0.111, 0.26, 0.2601, 0.4, 0.46])
    assert nearest_frames(index, times).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 3]


def test_frames_are_found_by_times_in_single_precision() -> None:
    index = FrameIndex(np.arange(10_000) * 1001, np.zeros(1, np.int64), Fraction(1, 30_000))
    assert nearest_frames(index, index.seconds.astype(np.float32).astype(np.float64)).tolist() == [*range(10_000)]


def test_times_beyond_the_ends_continue_the_numbers() -> None:
    index = index_of(100, 110, 120)
    assert nearest_frames(index, np.array([0.96, 0.9, 0.8, 1.24, 1.3, 1.5])).tolist() == [0, -1, -2, 2, 3, 5]
    assert nearest_frames(index_of(100), np.array([1.0])).tolist() == [0]


@pytest.mark.parametrize(
    ("pad_mode", "expected"), [("edge", [0, 0, 2]), ("constant", [FILL, 0, FILL]), ("reflect", [1, 0, 0])]
)
def test_times_are_padded_like_numbers(pad_mode: str, expected: list[int]) -> None:
    for frames, times in ((np.array([-1, 0, 4]), None), (None, np.array([-0.1, 0, 0.4]))):
        request = FrameRequest("a", frames, times, np.inf, pad_mode)
        assert request.numbers(index_of(0, 10, 20)) == expected


def test_missing_frames_are_errors() -> None:
    index = index_of(0, 10, 20)
    with pytest.raises(PipelineError, match="frame 3 doesn't exist: choose a pad_mode"):
        FrameRequest("a", np.array([1, 3]), None, np.inf, "none").numbers(index)
    with pytest.raises(PipelineError, match=r"no frame at 0\.300000 s, only from 0\.000000 to 0\.200000 s"):
        FrameRequest("a", None, np.array([0.3]), np.inf, "none").numbers(index)
    with pytest.raises(PipelineError, match="must be finite numbers, not nan"):
        FrameRequest("a", None, np.array([np.nan]), np.inf, "edge").numbers(index)


def test_tolerance() -> None:
    index = index_of(0, 10, 20)
    assert nearest_frames(index, np.array([0.1001]), 1e-3).tolist() == [1]
    with pytest.raises(PipelineError, match=r"no frame is within 0\.001 s of 0\.103000 s; the nearest one is at 0\.1"):
        nearest_frames(index, np.array([0.1, 0.103]), 1e-3)
    assert FrameRequest("a", None, np.array([5.0]), 1e-3, "edge").numbers(index) == [2]
