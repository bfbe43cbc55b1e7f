"""`experimental.readers.video`: sequences of frames of videos, padded and sampled in more ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._declaration.schema import Argument, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._operator_api.operator import Setup
from pipeline._operators.decoding.video import check_fill
from pipeline._readers.data_reader import reads
from pipeline._readers.video import VIDEO_READER_ARGUMENTS
from pipeline._readers.video_files import ListFormat
from pipeline._readers.video_sequences import SequenceLoader, describe_outputs
from pipeline._video.selection import FILL, PAD_MODES, pad_frames

__all__ = ["UniformVideoLoader"]

_ROUNDINGS = ("start_down_end_up", "start_up_end_down", "all_up", "all_down")
_ONLY_OF_READERS_VIDEO = {
    *("dtype", "normalized", "pad_sequences", "file_list_frame_num", "file_list_include_preceding_frame"),
    *("skip_vfr_check", "channels", "additional_decode_surfaces"),
}
_CHANGED = {
    "enable_frame_num": "A further output with numbers of frames, int32: of the first one, shape (1,), for 'scalar' or "
    "True; of each, and -1 for those that were added, for 'sequence'.",
    "enable_timestamps": "A further output with the seconds at which each frame is shown, float64, and -1 for those "
    "that were added.",
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
        "What start and end in `file_list` are: 'timestamps' in seconds, or numbers of 'frames', of which negative "
        "ones count from the end. The end is not part of the range.",
        "timestamps",
        choices=("frames", "timestamps"),
    ),
    Argument(
        "file_list_rounding",
        Kind.STRING,
        "Which frame a start or an end between two frames takes.",
        "start_down_end_up",
        choices=_ROUNDINGS,
    ),
    Argument("file_list_include_end", Kind.BOOL, "Accepted for compatibility; an end is not part of the range.", True),
    Argument(
        "pad_mode",
        Kind.STRING,
        "What stands for frames that the last sequence of a video lacks: 'constant' for `fill_value`, 'edge' or "
        "'repeat' for the last frame, 'reflect_1001' or 'symmetric' and 'reflect_101' or 'reflect' for the frames "
        "backwards, with the last one repeated or not. With 'none' such a sequence is left out.",
        "none",
        choices=PAD_MODES,
    ),
    Argument("fill_value", Kind.INTS, "The colour of 'constant', a value for each channel or one for all.", (0,)),
    Argument(
        "uniform_sample",
        Kind.BOOL,
        "Give one sequence of each video, from its first frame to its last, evenly distributed. Frames of a short one "
        "are repeated. `stride`, `step` and `pad_mode` mean nothing then.",
        False,
    ),
)


def _count_outputs(arguments: Mapping[str, Any]) -> int:
    return len(describe_outputs(lambda name: arguments.get(name, 1 if name == "sequence_length" else None)))


@reads(
    OperatorSchema(
        name="experimental.readers.video",
        doc="""Reads sequences of frames of videos, FHWC: `fn.readers.video` with other arguments.

A sequence needs `sequence_length * stride` frames of its video: those that `stride` skips behind its last one count.
`pad_mode` says what becomes of a video's last sequence when there are fewer. The outputs are the frames, uint8, and
labels, numbers of frames and time stamps where they are asked for.""",
        arguments=_ARGUMENTS,
        devices=("cpu", "gpu"),
        outputs=_count_outputs,
    )
)
class UniformVideoLoader(SequenceLoader):
    """Frames of sequences, or of whole videos."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        given = node.argument
        self.outputs = describe_outputs(given)
        self.fill = check_fill(node)

    def list_format(self) -> ListFormat:
        given = self.node.argument
        rounding: str = given("file_list_rounding")
        start_up, end_up = rounding in ("start_up_end_down", "all_up"), rounding in ("start_down_end_up", "all_up")
        return ListFormat(given("file_list_format") == "frames", start_up, end_up)

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
