"""`readers.sequence`: sequences of frames that are image files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from dali_proxy.pipeline._bulk.files import BatchOfFiles, FileBuffers
from dali_proxy.pipeline._bulk.paths import PathTable
from dali_proxy.pipeline._declaration import REQUIRED, Argument, Kind, OperatorSchema
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import decode
from dali_proxy.pipeline._operator_api.operator import OutputSpec, Setup
from dali_proxy.pipeline._readers.arguments import READER_ARGUMENTS
from dali_proxy.pipeline._readers.data_reader import reads
from dali_proxy.pipeline._readers.file_lists import IMAGES, list_files, list_folders, matcher
from dali_proxy.pipeline._readers.loader import Loader
from dali_proxy.pipeline.errors import ArgumentValueError, BuildError, DecodeError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import DALIImageType


@dataclass(frozen=True)
class _Sequence:
    """A sequence of one stream: its folder, the names of all its frames, and the indices of the chosen ones."""

    folder: str
    frames: list[str]
    which: range


@reads(
    OperatorSchema(
        name="readers.sequence",
        doc="""Reads sequences of frames from image files.

Each folder directly below `file_root` is a stream. The images in it are its frames, sorted by name. All frames of a
sequence come from one stream; incomplete sequences at the end of a stream are left out. The output is FHWC uint8. All
frames of a sequence must have the same size.""",
        arguments=(
            Argument("file_root", Kind.STRING, "Folder with one subfolder per stream.", REQUIRED),
            Argument("sequence_length", Kind.INT, "Number of frames in a sequence.", REQUIRED),
            Argument("step", Kind.INT, "Distance between the starts of consecutive sequences, in frames.", 1),
            Argument("stride", Kind.INT, "Distance between consecutive frames of a sequence.", 1),
            Argument(
                "image_type",
                Kind.IMAGE_TYPE,
                "Color space of the output: RGB, BGR, GRAY or ANY_DATA.",
                DALIImageType.RGB,
            ),
            *READER_ARGUMENTS,
        ),
        deprecated="\nThis operator may be removed in future releases.",
    )
)
class SequenceLoader(Loader):
    """Loads and decodes the frames of sequences."""

    together = 8
    outputs = (OutputSpec("FHWC", dtype=np.dtype(np.uint8)),)

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        for name in ("sequence_length", "step", "stride"):
            if node.argument(name) < 1:
                raise ArgumentValueError(f"argument {name!r} must be 1 or more, not {node.argument(name)}")
        self._type: DALIImageType = node.argument("image_type")
        self._warn = node.location.warn
        if self._type is DALIImageType.YCbCr:
            raise ArgumentValueError("argument 'image_type' must be RGB, BGR, GRAY or ANY_DATA, not YCbCr")
        self._root: str = node.argument("file_root")
        self._sequences: list[_Sequence] = []
        self._buffers = FileBuffers()

    def open(self) -> int:
        length, step, stride = (self.node.argument(name) for name in ("sequence_length", "step", "stride"))
        span = (length - 1) * stride + 1  # frames from the first of a sequence to its last, inclusive
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
        return self.read_together([entry])[0]

    def read_together(self, entries: Sequence[int]) -> list[tuple[Array, ...]]:
        sequences = [self._sequences[entry] for entry in entries]
        paths = [
            os.path.join(self._root, sequence.folder, sequence.frames[which])
            for sequence in sequences
            for which in sequence.which
        ]
        files = BatchOfFiles(PathTable.from_paths(paths), self._buffers)
        files.read(0, len(paths))
        if files.failures:
            raise files.failures[0].error
        contents, length = files.batch().samples, len(sequences[0].which)
        return [
            (self._decode(paths[first : first + length], contents[first : first + length]),)
            for first in range(0, len(paths), length)
        ]

    def _decode(self, paths: Sequence[str], contents: Sequence[Array]) -> Array:
        """Return the frames of a sequence, given their paths and the contents of these files."""
        pixels: Array | None = None
        for number, (path, content) in enumerate(zip(paths, contents, strict=True)):
            try:
                frame = self._decode_frame(content, None if pixels is None else pixels[number])
            except DecodeError as error:
                raise PipelineError(f"the frame {path!r}: {error}") from error
            if pixels is None:
                pixels = np.empty((len(paths), *frame.shape), np.uint8)
                pixels[0] = frame
            elif frame.shape != pixels.shape[1:]:
                raise PipelineError(
                    f"the frames of a sequence must have the same shape (height, width, channels): {path!r} has "
                    f"{frame.shape}, but the previous ones have {pixels.shape[1:]}"
                )
        assert pixels is not None
        return pixels

    def _decode_frame(self, content: Array, target: Array | None) -> Array:
        """Return a frame: `target`, or an array of another shape."""
        if target is not None:
            with suppress(ValueError):  # another shape
                return decode(content, output_type=self._type, out=target, warn=self._warn)
        return decode(content, output_type=self._type, warn=self._warn)
