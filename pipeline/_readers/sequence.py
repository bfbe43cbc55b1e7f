"""`readers.sequence`: short videos whose frames are images in a folder."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from pipeline._bulk.read_file import read_file
from pipeline._declaration.schema import REQUIRED, Argument, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._imaging import decode
from pipeline._operator_api.operator import OutputSpec, Setup
from pipeline._readers.arguments import READER_ARGUMENTS
from pipeline._readers.data_reader import reads
from pipeline._readers.file_lists import IMAGES, list_files, list_folders, matcher
from pipeline._readers.loader import Loader
from pipeline.errors import ArgumentValueError, BuildError, DecodeError, PipelineError
from pipeline.tensors.cpu import Array
from pipeline.types import DALIImageType

__all__ = ["SequenceLoader"]


@dataclass(frozen=True)
class _Sequence:
    """Frames of one stream: its folder, the names of all its frames, and which of them."""

    folder: str
    frames: list[str]
    which: range


@reads(
    OperatorSchema(
        name="readers.sequence",
        doc="""Reads sequences of frames, each frame an image in a file.

Each folder below `file_root` is a stream, the images in it are its frames in the order of their names. A sequence
has frames of one stream, and sequences that a stream is too short for are left out. The output is FHWC uint8. All
frames of a sequence must have one size.""",
        arguments=(
            Argument("file_root", Kind.STRING, "The folder with a folder for each stream.", REQUIRED),
            Argument("sequence_length", Kind.INT, "Frames of a sequence.", REQUIRED),
            Argument("step", Kind.INT, "Frames from the begin of a sequence to the begin of the next one.", 1),
            Argument("stride", Kind.INT, "Frames from one frame of a sequence to its next one.", 1),
            Argument("image_type", Kind.IMAGE_TYPE, "Colours: RGB, BGR, GRAY or ANY_DATA.", DALIImageType.RGB),
            *READER_ARGUMENTS,
        ),
    )
)
class SequenceLoader(Loader):
    """Frames, decoded."""

    outputs = (OutputSpec("FHWC", dtype=np.dtype(np.uint8)),)

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        for name in ("sequence_length", "step", "stride"):
            if node.argument(name) < 1:
                raise ArgumentValueError(f"argument {name!r} must be 1 or more, not {node.argument(name)}")
        self._type: DALIImageType = node.argument("image_type")
        if self._type is DALIImageType.YCbCr:
            raise ArgumentValueError("argument 'image_type' must be RGB, BGR, GRAY or ANY_DATA, not YCbCr")
        self._root: str = node.argument("file_root")
        self._sequences: list[_Sequence] = []

    def open(self) -> int:
        length, step, stride = (self.node.argument(name) for name in ("sequence_length", "step", "stride"))
        span = (length - 1) * stride + 1  # frames from the first of a sequence to its last
        fits = matcher(IMAGES, case_sensitive=False)
        streams = [folder for folder in list_folders(self._root) if not folder.startswith(".")]
        for folder in streams:
            frames = [name for name in list_files(os.path.join(self._root, folder), fits) if name[0] != "."]
            self._sequences += [
                _Sequence(folder, frames, range(first, first + span, stride))
                for first in range(0, len(frames) - span + 1, step)
            ]
        if not self._sequences:
            raise BuildError(
                f"no sequences of {length} frames, {stride} apart, in the {len(streams)} folders below file_root "
                f"{self._root!r}"
            )
        return len(self._sequences)

    def read(self, entry: int) -> tuple[Array, ...]:
        sequence = self._sequences[entry]
        made: Array | None = None
        for number, which in enumerate(sequence.which):
            path = os.path.join(self._root, sequence.folder, sequence.frames[which])
            try:
                frame = decode(read_file(path), output_type=self._type)
            except DecodeError as error:
                raise PipelineError(f"the frame {path!r}: {error}") from error
            if made is None:
                made = np.empty((len(sequence.which), *frame.shape), np.uint8)
            if frame.shape != made.shape[1:]:
                raise PipelineError(
                    f"the frames of a sequence must have the same shape (height, width, channels): {path!r} has "
                    f"{frame.shape}, but the previous ones have {made.shape[1:]}"
                )
            made[number] = frame
        assert made is not None
        return (made,)
