"""Selects the frames of a sample, and pads the frames that a video lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError

#: Marks a frame of one color in place of a frame number.
FILL = -1

#: Values of `pad_mode`, as in NVIDIA DALI.
PAD_MODES = ("none", "constant", "edge", "repeat", "reflect_1001", "symmetric", "reflect_101", "reflect")

_Frames = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FrameSelection:
    """Frames by number, or a range with a stride. None means that an argument wasn't given.

    Attributes:
        frames: frame numbers in any order.
        start: first frame of a range.
        end: end of a range, exclusive.
        length: number of frames, instead of an end.
        stride: distance between consecutive frames.

    Raises:
        ArgumentValueError: a value is invalid, or two values are mutually exclusive.
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
        names = [name for name, value in ranged.items() if value is not None]
        if self.frames is not None and names:
            raise ArgumentValueError(f"arguments 'frames' and {names[0]!r} are mutually exclusive")
        if self.end is not None and self.length is not None:
            raise ArgumentValueError("arguments 'end_frame' and 'sequence_length' are mutually exclusive")
        for name in ("sequence_length", "stride"):
            value = ranged[name]
            if value is not None and value < 1:
                raise ArgumentValueError(f"argument {name!r} must be 1 or more, not {value}")

    def numbers(self, count: int) -> _Frames:
        """Return the frame numbers for a video of `count` frames; they may exceed it.

        Raises:
            PipelineError: the range begins after the end of the video, or is empty.

        Example:
            >>> FrameSelection(start=2, length=3, stride=4).numbers(8).tolist()
            [2, 6, 10]
        """
        if self.frames is not None:
            return np.array(self.frames, np.int64).reshape(-1)
        start, stride = self.start or 0, self.stride or 1
        if start >= count:
            raise PipelineError(f"start_frame {start} isn't in the video, which has {count} frames")
        if self.length is not None:
            return start + stride * np.arange(self.length)
        end = count if self.end is None else self.end
        if end <= start:
            raise PipelineError(f"end_frame {end} must be more than start_frame {start}")
        return np.arange(start, end, stride)


def pad_frames(frames: _Frames, count: int, mode: str, shorten: bool) -> _Frames:
    """Replace the numbers of frames that a video lacks.

    Args:
        frames: frame numbers.
        count: number of frames in the video.
        mode: one of `PAD_MODES`.
        shorten: with mode "none", drop missing frames instead of raising an error.

    Returns:
        Numbers of existing frames, and `FILL` in mode "constant".

    Raises:
        PipelineError: a frame is missing, in mode "none".

    Example:
        >>> [pad_frames(np.arange(5), 3, mode, True).tolist() for mode in ("none", "constant", "edge")]
        [[0, 1, 2], [0, 1, 2, -1, -1], [0, 1, 2, 2, 2]]
        >>> [pad_frames(np.arange(5), 3, mode, True).tolist() for mode in ("reflect_1001", "reflect_101")]
        [[0, 1, 2, 2, 1], [0, 1, 2, 1, 0]]
    """
    missing = (frames < 0) | (frames >= count)
    if not missing.any():
        return frames
    if mode == "none":
        if shorten:
            return frames[~missing]
        raise PipelineError(
            f"the video has {count} frames, so frame {frames[missing][0]} doesn't exist: choose a pad_mode"
        )
    if mode == "constant":
        return np.where(missing, FILL, frames)
    if mode in ("edge", "repeat"):
        return np.clip(frames, 0, count - 1)
    if mode in ("reflect_1001", "symmetric"):
        there_and_back = frames % (2 * count)
        return np.minimum(there_and_back, 2 * count - 1 - there_and_back)
    if count == 1:
        return np.zeros_like(frames)
    there_and_back = frames % (2 * count - 2)
    return np.minimum(there_and_back, 2 * count - 2 - there_and_back)
