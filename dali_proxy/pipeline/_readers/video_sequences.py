"""The base class of video readers: it lists the sequences of videos, and decodes their frames."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX
from dali_proxy.pipeline._concurrency.thread_pool import ThreadPool
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.operator import OutputSpec, Setup
from dali_proxy.pipeline._readers.loader import Loader
from dali_proxy.pipeline._readers.video_files import ListFormat, VideoFile, has_labels, list_videos
from dali_proxy.pipeline._video.clip import Clip
from dali_proxy.pipeline._video.frames import Decoders, Target, read_frames
from dali_proxy.pipeline._video.missing import require_av
from dali_proxy.pipeline._video.nvdec import require_nvdec
from dali_proxy.pipeline._video.selection import FILL
from dali_proxy.pipeline._video.targets import target_for
from dali_proxy.pipeline.errors import ArgumentValueError, BuildError
from dali_proxy.pipeline.types import DALIImageType

_MOST_THREADS = 8
_OPEN_DECODERS = 16  # each holds an open file and its codec's reference frames, on a GPU in the GPU's memory


def describe_outputs(argument: Any, dtype: Any = np.uint8, only_labels: bool = False) -> list[OutputSpec]:
    """Return the known properties of each output for constant arguments.

    Args:
        argument: function that returns an argument by its name.
        dtype: dtype of the pixels.
        only_labels: whether frame numbers and time stamps are left out.
    """
    int32 = np.dtype(np.int32)
    outputs = [OutputSpec("FHWC", dtype=np.dtype(dtype))]
    if has_labels(argument):
        outputs.append(OutputSpec(shape=(1,), dtype=int32))
    if not only_labels:
        length: int = argument("sequence_length")
        numbers = argument("enable_frame_num")
        if numbers not in (None, "none"):
            outputs.append(OutputSpec(shape=(1,) if numbers == "scalar" else (length,), dtype=int32))
        if argument("enable_timestamps"):
            outputs.append(OutputSpec(shape=(length,), dtype=np.dtype(np.float64)))
    return outputs


class SequenceLoader(Loader):
    """Loads sequences of frames from videos."""

    #: Color of padding frames.
    fill: Sequence[int] = (0,)

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        (require_nvdec if node.device == "gpu" else require_av)()
        argument = node.argument
        for name in ("sequence_length", "stride"):
            if argument(name) < 1:
                raise ArgumentValueError(f"argument {name!r} must be 1 or more, not {argument(name)}")
        if argument("image_type") is DALIImageType.ANY_DATA:
            raise ArgumentValueError("argument 'image_type' must be RGB, BGR, GRAY or YCbCr, not ANY_DATA")
        self._length: int = argument("sequence_length")
        self._stride: int = argument("stride")
        self._step: int = argument("step") if argument("step") > 0 else self._length * self._stride
        self._videos: list[VideoFile] = []
        self._clips: list[Clip] = []
        self._starts = np.empty((0, 2), np.int64)  # for each sequence: index of the video, and first frame
        self._bounds: list[tuple[int, int]] = []  # for each video: first frame, and end of the range
        threads = setup.num_threads + 1 if node.device == "gpu" else _OPEN_DECODERS
        self._decoders = Decoders(min(_OPEN_DECODERS, threads))

    @abstractmethod
    def list_format(self) -> ListFormat:
        """Return the meaning of the start and end in a `file_list`."""

    @abstractmethod
    def starts_between(self, first: int, end: int) -> Sequence[int]:
        """Return the first frames of a video's sequences within its range from `first` up to `end`."""

    @abstractmethod
    def frames_from(self, start: int, first: int, end: int) -> npt.NDArray[np.int64]:
        """Return the frame numbers of a sequence, `FILL` for padding; `first` and `end` as in `starts_between`."""

    def open(self) -> int:
        self._videos = list_videos(self.node.argument, self.list_format())
        device = self.setup.device_id if self.node.device == "gpu" else None
        self._clips = [Clip(video.path, device) for video in self._videos]
        self._index_clips()
        rows = []
        for number, (video, clip) in enumerate(zip(self._videos, self._clips, strict=True)):
            first, end = (0, clip.count) if video.bounds is None else video.bounds(clip.index)
            self._bounds.append((first, end))
            rows += [(number, start) for start in self.starts_between(first, end)]
        if not rows:
            raise BuildError(
                f"no sequences of {self._length} frames, {self._stride} apart, in the {len(self._clips)} videos, the "
                f"longest of which has {max(clip.count for clip in self._clips)} frames"
            )
        self._starts = np.array(rows, np.int64)
        return len(rows)

    def read(self, entry: int) -> tuple[Any, ...]:
        number, start = self._starts[entry].tolist()
        clip = self._clips[number]
        frames = self.frames_from(start, *self._bounds[number])
        argument = self.node.argument
        target = target_for(clip, argument("image_type"), self.setup.kernels)
        outputs = [self.finish(read_frames(clip, frames.tolist(), target, self._decoders, self.fill), target)]
        if has_labels(argument):
            outputs.append(np.array([self._videos[number].label], np.int32))
        if len(self.outputs) > len(outputs):
            if argument("enable_frame_num") != "none":
                numbers = frames if argument("enable_frame_num") == "sequence" else frames[:1]
                outputs.append(numbers.astype(np.int32))
            if argument("enable_timestamps"):
                outputs.append(np.where(frames == FILL, -1.0, clip.index.seconds[frames]))
        return tuple(outputs)

    def finish(self, pixels: Any, target: Target) -> Any:
        """Return the output for the pixels of a sequence."""
        return pixels

    def source_info(self, entry: int) -> str:
        number, start = self._starts[entry].tolist()
        return f"{self._videos[number].path}, frame {start}"

    def close(self) -> None:
        self._decoders.close()

    def _index_clips(self) -> None:
        threads = min(_MOST_THREADS, self.setup.num_threads, len(self._clips))
        pool = ThreadPool(threads, f"{THREAD_PREFIX}{self.node.name}-index")
        try:
            errors = pool.run(self._index_clip, len(self._clips))
        finally:
            pool.close()
        if errors:
            raise errors[0][1]

    def _index_clip(self, number: int) -> None:
        """Create the index that `open` needs; called on several threads."""
        clip = self._clips[number]
        if self._videos[number].bounds is not None or not clip.count:
            clip.make_index()
