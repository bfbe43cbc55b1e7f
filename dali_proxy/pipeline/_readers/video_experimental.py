"""`experimental.readers.video`: sequences of frames from videos, with more ways to pad and to sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._declaration import Argument, Kind, OperatorSchema
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.operator import Setup
from dali_proxy.pipeline._operators.decoding.video import check_fill
from dali_proxy.pipeline._readers.data_reader import reads
from dali_proxy.pipeline._readers.video import VIDEO_READER_ARGUMENTS
from dali_proxy.pipeline._readers.video_files import ListFormat
from dali_proxy.pipeline._readers.video_sequences import SequenceLoader, describe_outputs
from dali_proxy.pipeline._video.selection import FILL, PAD_MODES, pad_frames

_ROUNDINGS = ("start_down_end_up", "start_up_end_down", "all_up", "all_down")
_ONLY_OF_READERS_VIDEO = {
    *("dtype", "normalized", "pad_sequences", "file_list_frame_num", "file_list_include_preceding_frame"),
    *("skip_vfr_check", "channels", "additional_decode_surfaces"),
}
_CHANGED = {
    "enable_frame_num": "Return frame numbers as an additional int32 output. 'scalar' or True returns the number of "
    "the first frame, shape (1,). 'sequence' returns the number of every frame, -1 for padding.",
    "enable_timestamps": "Return the time of each frame in seconds as an additional float64 output, -1 for padding.",
}

_ARGUMENTS = (
    *(
        replace(argument, doc=_CHANGED.get(argument.name, argument.doc))
        for argument in VIDEO_READER_ARGUMENTS
        if argument.name not in _ONLY_OF_READERS_VIDEO
    ),
    Argument(
        "file_list_format",
        Kind.STRING,
        "Unit of start and end in `file_list`: 'timestamps' in seconds, or 'frames'. Negative frame numbers count "
        "from the end. The end is exclusive.",
        "timestamps",
        choices=("frames", "timestamps"),
    ),
    Argument(
        "file_list_rounding",
        Kind.STRING,
        "Rounding of a start or an end that lies between two frames.",
        "start_down_end_up",
        choices=_ROUNDINGS,
    ),
    Argument("file_list_include_end", Kind.BOOL, "Accepted for compatibility; the end is exclusive.", True),
    Argument(
        "pad_mode",
        Kind.STRING,
        "Padding of an incomplete sequence at the end of a video. 'none' leaves the sequence out. 'constant' fills it "
        "with `fill_value`. 'edge' or 'repeat' repeats the last frame. 'reflect_1001' or 'symmetric' continues with "
        "the frames in reverse order, including the last one; 'reflect_101' or 'reflect', excluding it.",
        "none",
        choices=PAD_MODES,
    ),
    Argument("fill_value", Kind.INTS, "Color for `pad_mode='constant'`: one value, or one per channel.", (0,)),
    Argument(
        "uniform_sample",
        Kind.BOOL,
        "Return one sequence per video, whose frames are evenly spaced from the first to the last. Frames of a short "
        "video are repeated. Then `stride`, `step` and `pad_mode` have no effect.",
        False,
    ),
)


def _count_outputs(arguments: Mapping[str, Any]) -> int:
    return len(describe_outputs(lambda name: arguments.get(name, 1 if name == "sequence_length" else None)))


@reads(
    OperatorSchema(
        name="experimental.readers.video",
        doc="""Reads sequences of frames from videos, FHWC, like `fn.readers.video` but with different arguments.

A complete sequence needs `sequence_length * stride` frames of its video, including the frames that `stride` skips
after its last frame. `pad_mode` determines how an incomplete sequence at the end of a video is handled. The outputs
are the frames, uint8, and, on request, labels, frame numbers and time stamps, in this order.""",
        arguments=_ARGUMENTS,
        devices=("cpu", "gpu"),
        outputs=_count_outputs,
    )
)
class UniformVideoLoader(SequenceLoader):
    """Loads sequences of frames, or frames sampled from a whole video."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        argument = node.argument
        self.outputs = describe_outputs(argument)
        self.fill = check_fill(node)

    def list_format(self) -> ListFormat:
        argument = self.node.argument
        rounding: str = argument("file_list_rounding")
        start_up, end_up = rounding in ("start_up_end_down", "all_up"), rounding in ("start_down_end_up", "all_up")
        return ListFormat(argument("file_list_format") == "frames", start_up, end_up)

    def starts_between(self, first: int, end: int) -> Sequence[int]:
        if self.node.argument("uniform_sample"):
            return [first] if first < end else []
        complete = range(first, max(first, end - self._length * self._stride + 1), self._step)
        following = first + len(complete) * self._step
        if self.node.argument("pad_mode") != "none" and following < end:
            return range(first, following + 1, self._step)
        return complete

    def frames_from(self, start: int, first: int, end: int) -> npt.NDArray[np.int64]:
        if self.node.argument("uniform_sample"):
            return np.floor(np.linspace(first, end - 1, self._length) + 0.5).astype(np.int64)
        frames = start - first + self._stride * np.arange(self._length)
        padded = pad_frames(frames, end - first, self.node.argument("pad_mode"), shorten=False)
        return np.where(padded == FILL, FILL, padded + first)
