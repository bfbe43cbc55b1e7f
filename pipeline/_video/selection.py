"""Which frames of a video a sample has, and what stands for those that the video lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.errors import ArgumentValueError, PipelineError

__all__ = ["FILL", "PAD_MODES", "FrameSelection", "pad_frames"]

#: Stands for a frame of one colour, instead of the number of one.
FILL = -1

#: Names of `pad_mode`, as NVIDIA DALI has them.
PAD_MODES = ("none", "constant", "edge", "repeat", "reflect_1001", "symmetric", "reflect_101", "reflect")

_Frames = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FrameSelection:
    """Frames by their numbers, or every so many of a range. None stands for what wasn't given.

    Attributes:
        frames: the numbers, in any order.
        start: the first of a range.
        end: the end of a range, exclusive.
        length: how many frames, instead of an end.
        stride: the distance of neighbours.

    Raises:
        ArgumentValueError: for values that can't be used, or don't go together.
    """

    frames: Sequence[int] | None = None
    start: int | None = None
    end: int | None = None
    length: int | None = None
    stride: int | None = None

    def __post_init__(self) -> None:
        ranged = {
            "start_frame": self.start,
            "end_frame": self.end,
            "sequence_length": self.length,
            "stride": self.stride,
        }
        given = [name for name, value in ranged.items() if value is not None]
        if self.frames is not None and given:
            raise ArgumentValueError(f"arguments 'frames' and {given[0]!r} exclude each other")
        if self.end is not None and self.length is not None:
            raise ArgumentValueError("arguments 'end_frame' and 'sequence_length' exclude each other")
        for name in ("sequence_length", "stride"):
            value = ranged[name]
            if value is not None and value < 1:
                raise ArgumentValueError(f"argument {name!r} must be 1 or more, not {value}")

    def of(self, count: int) -> _Frames:
        """Return the numbers of the frames, some of which a video of `count` frames may lack.

        Raises:
            PipelineError: the range begins behind the end of the video, or is empty.

        Example:
            >>> FrameSelection(start=2, length=3, stride=4).of(8).tolist()
            [2, 6, 10]
        """
        if self.frames is not None:
            return np.array(self.frames, np.int64).reshape(-1)
        start, stride = self.start or 0, self.stride or 1
        if start >= count:
            raise PipelineError(f"start_frame {start} is not in the video, which has {count} frames")
        if self.length is not None:
            return start + stride * np.arange(self.length)
        end = count if self.end is None else self.end
        if end <= start:
            raise PipelineError(f"end_frame {end} must be more than start_frame {start}")
        return np.arange(start, end, stride)


def pad_frames(frames: _Frames, count: int, mode: str, shorten: bool) -> _Frames:
    """Replace the numbers of frames that a video lacks.

    Args:
        frames: numbers.
        count: frames that the video has.
        mode: one of `PAD_MODES`.
        shorten: with mode "none", leave such frames out rather than raise an error.

    Returns:
        Numbers of frames that there are, and `FILL` in mode "constant".

    Raises:
        PipelineError: a frame is lacking, in mode "none".

    Example:
        >>> [pad_frames(np.arange(5), 3, mode, True).tolist() for mode in ("none", "constant", "edge")]
        [[0, 1, 2], [0, 1, 2, -1, -1], [0, 1, 2, 2, 2]]
        >>> [pad_frames(np.arange(5), 3, mode, True).tolist() for mode in ("reflect_1001", "reflect_101")]
        [[0, 1, 2, 2, 1], [0, 1, 2, 1, 0]]
    """
    lacking = (frames < 0) | (frames >= count)
    if not lacking.any():
        return frames
    if mode == "none":
        if shorten:
            return frames[~lacking]
        raise PipelineError(
            f"the video has {count} frames, so frame {frames[lacking][0]} doesn't exist: choose a pad_mode"
        )
    if mode == "constant":
        return np.where(lacking, FILL, frames)
    if mode in ("edge", "repeat"):
        return np.clip(frames, 0, count - 1)
    if mode in ("reflect_1001", "symmetric"):
        there_and_back = frames % (2 * count)
        return np.minimum(there_and_back, 2 * count - 1 - there_and_back)
    if count == 1:
        return np.zeros_like(frames)
    there_and_back = frames % (2 * count - 2)
    return np.minimum(there_and_back, 2 * count - 2 - there_and_back)
