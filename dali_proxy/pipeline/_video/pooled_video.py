"""A video whose frames are pooled, and the requests for them that are known."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._video.clip import Clip
from dali_proxy.pipeline.types import DALIImageType

_LEAST = 16  # frames of a group: shorter groups of pictures are decoded together, with one seek


class Flight:
    """A group of frames that a thread decodes. Other threads wait for it.

    Attributes:
        needed: numbers of the frames that the thread's batch needs.
        frames: the decoded frames, by their numbers.
        errors: errors of needed frames.
        done: set when both are complete.
    """

    def __init__(self, video: PooledVideo, group: int) -> None:
        self.video, self.group = video, group
        self.needed: set[int] = set()
        self.frames: dict[int, Any] = {}
        self.errors: dict[int, Exception] = {}
        self.done = threading.Event()


class PooledVideo:
    """A video whose frames are pooled. `VideoPool` guards the attributes that change.

    Attributes:
        source: the path or URL.
        clip: the video.
        output: the color space.
        flights: groups that are being decoded, by number.
        begun: groups of which some frames have been decoded.
        wanted: for each group, how many known requests need each frame.
        requests: for each group, number of known requests that need one of its frames.
    """

    def __init__(self, source: str, clip: Clip, output: DALIImageType) -> None:
        self.source, self.clip, self.output = source, clip, output
        self.flights: dict[int, Flight] = {}
        self.begun: set[int] = set()
        self.wanted: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self.requests: defaultdict[int, int] = defaultdict(int)
        self._starts: npt.NDArray[np.int64] | None = None

    @cached_property
    def on_cores(self) -> Clip:
        """The clip, decoded by cores in place of NVDEC."""
        return self.clip.on_cores()

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """The first frame of each group: one group of pictures, or several that are short."""
        if self._starts is None:
            starts = [0]
            for key in self.clip.index.keys.tolist():
                if key - starts[-1] >= _LEAST:
                    starts.append(key)
            self._starts = np.array(starts, np.int64)
        return self._starts

    def group_of(self, number: int) -> int:
        """Return the group of a frame."""
        return int(np.searchsorted(self.starts, number, side="right")) - 1

    def frames_of(self, group: int) -> range:
        """Return the frames of a group."""
        starts = self.starts
        end = int(starts[group + 1]) if group + 1 < len(starts) else len(self.clip.index)
        return range(int(starts[group]), end)

    def is_wanted(self, number: int, group: int) -> bool:
        """Return whether known requests need a frame."""
        return number in self.wanted.get(group, ())
