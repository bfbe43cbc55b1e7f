"""The frames of a video that a sample needs, by number or by time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._video.index import FrameIndex
from dali_proxy.pipeline._video.selection import pad_frames
from dali_proxy.pipeline.errors import PipelineError


@dataclass(frozen=True, eq=False)
class FrameRequest:
    """The frames of a video that a sample needs.

    Attributes:
        source: path or URL of the video.
        frames: numbers of the frames; None for `times`.
        times: presentation times in seconds; None for `frames`.
        tolerance: largest distance between a time and the time of the nearest frame, in seconds.
        pad_mode: replacement of frames before the start and after the end, one of `PAD_MODES`.
    """

    source: str
    frames: npt.NDArray[np.int64] | None
    times: npt.NDArray[np.float64] | None
    tolerance: float
    pad_mode: str

    def numbers(self, index: FrameIndex) -> list[int]:
        """Return the numbers of the frames; `FILL` for frames of one color.

        Raises:
            PipelineError: a frame doesn't exist, or no frame is near enough to a time.
        """
        count = len(index)
        frames = self.frames
        if frames is None:
            assert self.times is not None
            frames = nearest_frames(index, self.times, self.tolerance)
            beyond = (frames < 0) | (frames >= count)
            if beyond.any() and self.pad_mode == "none":
                raise PipelineError(
                    f"the video has no frame at {self.times[beyond][0]:.6f} s, only from {index.seconds[0]:.6f} to "
                    f"{index.seconds[-1]:.6f} s: choose a pad_mode"
                )
        numbers: list[int] = pad_frames(frames, count, self.pad_mode, shorten=False).tolist()
        return numbers


def nearest_frames(
    index: FrameIndex, times: npt.NDArray[np.float64], tolerance: float = np.inf
) -> npt.NDArray[np.int64]:
    """Return the numbers of the frames whose presentation times are nearest; the earlier one of two.

    Times more than half a frame before the first frame get negative numbers, and those after the last frame numbers
    from the count on, as if the video continued with the mean distance of its frames.

    Raises:
        PipelineError: a time isn't finite, or a frame isn't near enough.
    """
    if not np.isfinite(times).all():
        raise PipelineError(f"times must be finite numbers, not {times[~np.isfinite(times)][0]}")
    shown = index.seconds
    following = np.searchsorted(shown, times).clip(0, len(shown) - 1)
    previous = (following - 1).clip(0)
    near = np.where(times - shown[previous] <= shown[following] - times, previous, following)
    period = (shown[-1] - shown[0]) / (len(shown) - 1) if len(shown) > 1 else float(index.time_base)
    before, after = shown[0] - times, times - shown[-1]
    number = np.where(before > period / 2, -np.ceil(before / period - 0.5), near)
    number = np.where(after > period / 2, len(shown) - 1 + np.ceil(after / period - 0.5), number).astype(np.int64)
    distance = np.abs(shown[near] - times)
    far = (distance > tolerance) & (number >= 0) & (number < len(shown))
    if far.any():
        raise PipelineError(
            f"no frame is within {tolerance:g} s of {times[far][0]:.6f} s; the nearest one is at "
            f"{shown[near][far][0]:.6f} s"
        )
    return number
