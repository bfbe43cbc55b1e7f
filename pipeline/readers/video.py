"""`readers.video`: sequences of frames of videos."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.errors import ArgumentValueError, BuildError
from pipeline.executor.pool import ThreadPool
from pipeline.graph.graph import GraphNode
from pipeline.operators.base import OutputSpec, Setup
from pipeline.operators.schema import REQUIRED, Argument, Kind, OperatorSchema
from pipeline.readers.arguments import READER_ARGUMENTS
from pipeline.readers.data_reader import reads
from pipeline.readers.loader import Loader
from pipeline.readers.video_files import VIDEO_FILE_ARGUMENTS, VideoFile, has_labels, list_videos
from pipeline.threads import THREAD_PREFIX
from pipeline.types import FLOAT, RGB, UINT8, DALIImageType
from pipeline.video.clip import Clip
from pipeline.video.frames import Decoders, read_frames
from pipeline.video.missing import require_av
from pipeline.video.nvdec import require_nvdec
from pipeline.video.selection import FILL
from pipeline.video.targets import target_for

__all__ = ["VIDEO_READER_ARGUMENTS", "VideoLoader"]

_MOST_THREADS = 8
_OPEN_DECODERS = 16  # each holds a file open, and the frames that its codec refers to


@dataclass(frozen=True)
class _FrameNumbers(Argument):
    """`enable_frame_num`, which may also be a bool."""

    def check(self, value: Any) -> Any:
        return super().check({True: "scalar", False: "none"}[value] if isinstance(value, bool) else value)


VIDEO_READER_ARGUMENTS = (
    *VIDEO_FILE_ARGUMENTS,
    Argument("sequence_length", Kind.INT, "Frames of a sequence.", REQUIRED),
    Argument(
        "step",
        Kind.INT,
        "Frames from the begin of a sequence to the begin of the next one; `sequence_length` unless it is positive.",
        -1,
    ),
    Argument("stride", Kind.INT, "Frames from one frame of a sequence to its next one.", 1),
    Argument(
        "pad_sequences",
        Kind.BOOL,
        "Let each video end with a sequence that it is too short for, whose further frames are black.",
        False,
    ),
    Argument("image_type", Kind.IMAGE_TYPE, "Colours: RGB, BGR, GRAY, or YCbCr as it is in the video.", RGB),
    Argument("dtype", Kind.DTYPE, "UINT8 or FLOAT.", UINT8),
    Argument("normalized", Kind.BOOL, "Values of 0 to 1 instead of 255; needs dtype=FLOAT.", False),
    _FrameNumbers(
        "enable_frame_num",
        Kind.STRING,
        "A further output with numbers of frames, int32: of the first one, shape (1,), for 'scalar' or True; of each, "
        "and -1 for those that were added, for 'sequence'. Not with `file_root`.",
        "none",
        choices=("none", "scalar", "sequence"),
    ),
    Argument(
        "enable_timestamps",
        Kind.BOOL,
        "A further output with the seconds at which each frame is shown, float64, and -1 for those that were added. "
        "Not with `file_root`.",
        False,
    ),
    Argument("skip_vfr_check", Kind.BOOL, "Accepted for compatibility; frame rates may vary.", False),
    Argument("channels", Kind.INT, "Accepted for compatibility; `image_type` decides.", 3),
    Argument("additional_decode_surfaces", Kind.INT, "Accepted for compatibility; FFmpeg decides.", 2),
    *READER_ARGUMENTS,
)


def _outputs(given: Any) -> list[OutputSpec]:
    """Return what is known of each output, by the constant arguments."""
    int32, uint8, float32 = (np.dtype(dtype) for dtype in (np.int32, np.uint8, np.float32))
    made = [OutputSpec("FHWC", dtype=float32 if given("dtype") is FLOAT else uint8)]
    if has_labels(given):
        made.append(OutputSpec(shape=(1,), dtype=int32))
    if not given("file_root"):
        length: int = given("sequence_length")
        numbers = given("enable_frame_num")
        if numbers not in (None, "none"):
            made.append(OutputSpec(shape=(1,) if numbers == "scalar" else (length,), dtype=int32))
        if given("enable_timestamps"):
            made.append(OutputSpec(shape=(length,), dtype=np.dtype(np.float64)))
    return made


def _count_outputs(arguments: Mapping[str, Any]) -> int:
    return len(_outputs(lambda name: arguments.get(name, 1 if name == "sequence_length" else None)))


@reads(
    OperatorSchema(
        name="readers.video",
        doc="""Reads sequences of frames of videos, FHWC.

Videos are MP4, Matroska, WebM, AVI and other files, of constant or varying frame rate. A sequence has
`sequence_length` frames of one video, and what is left at the end of a video that isn't enough for a sequence is left
out, unless `pad_sequences` is set. Frames are exactly those that the sequence should have: they are known by their
time stamps. The outputs are the frames, and labels, numbers of frames and time stamps where they are asked for.""",
        arguments=VIDEO_READER_ARGUMENTS,
        devices=("cpu", "gpu"),
        outputs=_count_outputs,
    )
)
class VideoLoader(Loader):
    """Frames, decoded."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        (require_nvdec if node.device == "gpu" else require_av)()
        given = node.argument
        for name in ("sequence_length", "stride"):
            if given(name) < 1:
                raise ArgumentValueError(f"argument {name!r} must be 1 or more, not {given(name)}")
        if given("dtype") not in (UINT8, FLOAT):
            raise ArgumentValueError(f"argument 'dtype' must be UINT8 or FLOAT, not {given('dtype').name}")
        if given("normalized") and given("dtype") is not FLOAT:
            raise ArgumentValueError("argument 'normalized' needs dtype=FLOAT: values of 0 to 1 are no integers")
        if given("image_type") is DALIImageType.ANY_DATA:
            raise ArgumentValueError("argument 'image_type' must be RGB, BGR, GRAY or YCbCr, not ANY_DATA")
        self.outputs = _outputs(given)
        self._length: int = given("sequence_length")
        self._stride: int = given("stride")
        self._step: int = given("step") if given("step") > 0 else self._length
        self._videos: list[VideoFile] = []
        self._clips: list[Clip] = []
        self._starts = np.empty((0, 2), np.int64)  # of each sequence: the video's number, and the first frame
        self._ends: list[int] = []  # of each video: the frame after the last that is read
        self._decoders = Decoders(_OPEN_DECODERS)

    def open(self) -> int:
        self._videos = list_videos(self.node.argument)
        device = self.setup.device_id if self.node.device == "gpu" else None
        self._clips = [Clip(video.path, device) for video in self._videos]
        self._look_into_clips()
        rows = []
        for number, (video, clip) in enumerate(zip(self._videos, self._clips, strict=True)):
            first, end = (0, clip.count) if video.bounds is None else video.bounds(clip.index)
            self._ends.append(end)
            rows += [(number, start) for start in self._starts_between(first, end)]
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
        frames = start + self._stride * np.arange(self._length)
        frames[frames >= self._ends[number]] = FILL
        given = self.node.argument
        made = [self._pixels(clip, frames)]
        if has_labels(given):
            made.append(np.array([self._videos[number].label], np.int32))
        if not given("file_root"):
            if given("enable_frame_num") != "none":
                numbers = frames if given("enable_frame_num") == "sequence" else frames[:1]
                made.append(numbers.astype(np.int32))
            if given("enable_timestamps"):
                made.append(np.where(frames == FILL, -1.0, clip.index.seconds[frames]))
        return tuple(made)

    def source_info(self, entry: int) -> str:
        number, start = self._starts[entry].tolist()
        return f"{self._videos[number].path}, frame {start}"

    def close(self) -> None:
        self._decoders.close()

    def _pixels(self, clip: Clip, frames: npt.NDArray[np.int64]) -> Any:
        given = self.node.argument
        target = target_for(clip, given("image_type"), self.setup.kernels)
        made = read_frames(clip, frames.tolist(), target, self._decoders)
        if given("dtype") is UINT8:
            return made
        with target.current():
            made = made.astype(np.float32)
            if given("normalized"):
                made *= np.float32(1 / 255)
            target.finish()
        return made

    def _starts_between(self, first: int, end: int) -> range:
        """Return where the sequences of a video begin, of which frames from `first` up to `end` are read."""
        span = (self._length - 1) * self._stride + 1  # frames from the first of a sequence to its last
        complete = range(first, max(first, end - span + 1), self._step)
        following = first + len(complete) * self._step
        if self.node.argument("pad_sequences") and following < end:
            return range(first, following + 1, self._step)
        return complete

    def _look_into_clips(self) -> None:
        threads = min(_MOST_THREADS, self.setup.num_threads, len(self._clips))
        pool = ThreadPool(threads, f"{THREAD_PREFIX}{self.node.name}-index")
        try:
            errors = pool.run(self._look_into, len(self._clips))
        finally:
            pool.close()
        if errors:
            raise errors[0][1]

    def _look_into(self, number: int) -> None:
        """Make what `open` asks for, on several threads."""
        clip = self._clips[number]
        if self._videos[number].bounds is not None or not clip.count:
            clip.make_index()
