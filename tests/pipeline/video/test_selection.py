"""The frames of a sample, and the replacement of those that a video lacks."""

from __future__ import annotations

import numpy as np
import pytest

from dali_proxy.pipeline._video.selection import PAD_MODES, FrameSelection, pad_frames
from pipeline.errors import ArgumentValueError, PipelineError


def test_ranges_of_every_kind() -> None:
    for count in range(1, 7):
        for start in range(count):
            for stride in range(1, 4):
                for end in range(start + 1, 9):
                    chosen = FrameSelection(start=start, end=end, stride=stride).numbers(count)
                    assert chosen.tolist() == list(range(start, end, stride))
                    same = FrameSelection(start=start, length=len(chosen), stride=stride).numbers(count)
                    assert same.tolist() == chosen.tolist()
                assert FrameSelection(start=start, stride=stride).numbers(count).tolist() == [
                    *range(start, count, stride)
                ]
    assert FrameSelection([3, 1, 1]).numbers(2).tolist() == [3, 1, 1]


@pytest.mark.parametrize("mode", [mode for mode in PAD_MODES if mode not in ("none", "constant")])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_padding_is_that_of_numpy(mode: str, count: int) -> None:
    frames = np.arange(-7, 20)
    names = {"edge": "edge", "repeat": "edge", "reflect_1001": "symmetric", "reflect_101": "reflect"}
    expected = np.pad(np.arange(count), (7, 20 - count), names.get(mode, mode))  # type: ignore[call-overload]
    assert pad_frames(frames, count, mode, shorten=True).tolist() == expected.tolist()


def test_missing_frames() -> None:
    frames = np.array([1, 4, -2, 2])
    assert pad_frames(frames, 3, "constant", shorten=False).tolist() == [1, -1, -1, 2]
    assert pad_frames(frames, 3, "none", shorten=True).tolist() == [1, 2]
    with pytest.raises(PipelineError, match="the video has 3 frames, so frame 4 doesn't exist"):
        pad_frames(frames, 3, "none", shorten=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"frames": [1], "stride": 2}, "'frames' and 'stride' are mutually"),
        ({"frames": [1], "start": 2}, "'frames' and 'start_frame' are mutually"),
        ({"end": 3, "length": 2}, "'end_frame' and 'sequence_length' are mutually"),
        ({"stride": 0}, "'stride' must be 1 or more, not 0"),
        ({"length": -1}, "'sequence_length' must be 1 or more, not -1"),
    ],
)
def test_impossible_arguments_are_refused(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ArgumentValueError, match=message):
        FrameSelection(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(("start", "end", "message"), [(7, None, "start_frame 7 isn't in"), (3, 3, "more than start")])
def test_ranges_outside_of_the_video(start: int, end: int | None, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        FrameSelection(start=start, end=end).numbers(7)
