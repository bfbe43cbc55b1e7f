"""`readers.video`: sequences of frames from videos."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Kind, OperatorSchema
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.operator import OutputSpec, Setup
from dali_proxy.pipeline._readers.arguments import READER_ARGUMENTS
from dali_proxy.pipeline._readers.data_reader import reads
from dali_proxy.pipeline._readers.video_files import VIDEO_FILE_ARGUMENTS, ListFormat
from dali_proxy.pipeline._readers.video_sequences import SequenceLoader, describe_outputs
from dali_proxy.pipeline._video.frames import Target
from dali_proxy.pipeline._video.selection import FILL
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.types import FLOAT, RGB, UINT8


@dataclass(frozen=True)
class _FrameNumbers(Argument):
    """`enable_frame_num`, which may also be a bool."""

    def check(self, value: Any) -> Any:
        return super().check({True: "scalar", False: "none"}[value] if isinstance(value, bool) else value)


VIDEO_READER_ARGUMENTS = (
    *VIDEO_FILE_ARGUMENTS,
    Argument("sequence_length", Kind.INT, "Number of frames in a sequence.", REQUIRED),
    Argument(
        "step",
        Kind.INT,
        "Distance between the starts of consecutive sequences, in frames. If it isn't positive, "
        "`sequence_length * stride` is used.",
        -1,
    ),
    Argument("stride", Kind.INT, "Distance between consecutive frames of a sequence.", 1),
    Argument(
        "pad_sequences",
        Kind.BOOL,
        "Return the incomplete sequence at the end of each video, too, and fill it with black frames.",
        False,
    ),
    Argument(
        "image_type",
        Kind.IMAGE_TYPE,
        "Color space of the output: RGB, BGR, GRAY, or YCbCr as stored in the video.",
        RGB,
    ),
    Argument("dtype", Kind.DTYPE, "Dtype of the frames: UINT8 or FLOAT.", UINT8),
    Argument("normalized", Kind.BOOL, "Scale values to the range from 0 to 1; needs dtype=FLOAT.", False),
    _FrameNumbers(
        "enable_frame_num",
        Kind.STRING,
        "Return frame numbers as an additional int32 output. 'scalar' or True returns the number of the first frame, "
        "shape (1,). 'sequence' returns the number of every frame, -1 for padding. Has no effect with `file_root`.",
        "none",
        choices=("none", "scalar", "sequence"),
    ),
    Argument(
        "enable_timestamps",
        Kind.BOOL,
        "Return the time of each frame in seconds as an additional float64 output, -1 for padding. Has no effect with "
        "`file_root`.",
        False,
    ),
    Argument("skip_vfr_check", Kind.BOOL, "Accepted for compatibility; frame rates may vary.", False),
    Argument("channels", Kind.INT, "Accepted for compatibility; `image_type` decides.", 3),
    Argument("additional_decode_surfaces", Kind.INT, "Accepted for compatibility; FFmpeg decides.", 2),
    *READER_ARGUMENTS,
)


def _outputs(argument: Any) -> list[OutputSpec]:
    return describe_outputs(
        argument, np.float32 if argument("dtype") is FLOAT else np.uint8, bool(argument("file_root"))
    )


def _count_outputs(arguments: Mapping[str, Any]) -> int:
    return len(_outputs(lambda name: arguments.get(name, 1 if name == "sequence_length" else None)))


@reads(
    OperatorSchema(
        name="readers.video",
        doc="""Reads sequences of frames from videos, FHWC.

Supports MP4, Matroska, WebM, AVI and other containers, with constant or variable frame rate. A sequence has
`sequence_length` frames of one video. An incomplete sequence at the end of a video is left out, unless
`pad_sequences` is set. Frames are located by their time stamps, so that a sequence contains exactly the requested
frames. The outputs are the frames and, on request, labels, frame numbers and time stamps, in this order.""",
        arguments=VIDEO_READER_ARGUMENTS,
        devices=("cpu", "gpu"),
        outputs=_count_outputs,
    )
)
class VideoLoader(SequenceLoader):
    """Loads sequences of frames, as integers or floats."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        argument = node.argument
        if argument("dtype") not in (UINT8, FLOAT):
            raise ArgumentValueError(f"argument 'dtype' must be UINT8 or FLOAT, not {argument('dtype').name}")
        if argument("normalized") and argument("dtype") is not FLOAT:
            raise ArgumentValueError("argument 'normalized' needs dtype=FLOAT: values from 0 to 1 aren't integers")
        self.outputs = _outputs(argument)

    def list_format(self) -> ListFormat:
        frames: bool = self.node.argument("file_list_frame_num")
        preceding = not frames and self.node.argument("file_list_include_preceding_frame")
        return ListFormat(frames, start_up=not preceding, end_up=preceding)

    def starts_between(self, first: int, end: int) -> range:
        span = (self._length - 1) * self._stride + 1  # frames from the first of a sequence to its last, inclusive
        complete = range(first, max(first, end - span + 1), self._step)
        following = first + len(complete) * self._step
        if self.node.argument("pad_sequences") and following < end:
            return range(first, following + 1, self._step)
        return complete

    def frames_from(self, start: int, first: int, end: int) -> npt.NDArray[np.int64]:
        frames = start + self._stride * np.arange(self._length)
        frames[frames >= end] = FILL
        return frames

    def finish(self, pixels: Any, target: Target) -> Any:
        argument = self.node.argument
        if argument("dtype") is UINT8:
            return pixels
        with target.current():
            values = pixels.astype(np.float32)
            if argument("normalized"):
                values *= np.float32(1 / 255)
            return target.finish(values)
