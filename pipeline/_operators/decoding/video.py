"""Decoders of videos: the frames that are asked for, of encoded bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import GpuOperator, as_pipeline_error, fail
from pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from pipeline._operator_api.output_specs import describe
from pipeline._operators.decoding.encoded import flat_bytes
from pipeline._video.clip import Clip
from pipeline._video.frames import Decoders, read_frames
from pipeline._video.missing import require_av
from pipeline._video.nvdec import require_nvdec
from pipeline._video.selection import PAD_MODES, FrameSelection, pad_frames
from pipeline._video.targets import target_for
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array
from pipeline.tensors.gpu import TensorListGPU
from pipeline.types import RGB

__all__ = ["EXPERIMENTAL_VIDEO", "VIDEO", "VideoSelections"]

_DOC = """Decodes frames of videos to FHWC, RGB.

The input holds the bytes of MP4, Matroska, WebM, AVI and other files. By default all frames are decoded; `frames`
names single ones; `start_frame`, `end_frame` or `sequence_length`, and `stride` a range. Frames are counted in the
order in which they are shown, from 0, and are exactly the ones that were asked for, wherever decoding has to begin.
device='mixed' reads the container on the CPU and decodes with NVDEC on the GPU, or on the CPU what NVDEC doesn't."""

_ARGUMENTS = (
    Argument("frames", Kind.INTS, "Numbers of frames, in any order, also several times.", None, per_sample=True),
    Argument("start_frame", Kind.INT, "The first frame of a range, 0 by default.", None, per_sample=True),
    Argument("end_frame", Kind.INT, "The frame after the last of a range.", None, per_sample=True),
    Argument("sequence_length", Kind.INT, "Frames of a range, instead of its end.", None, per_sample=True),
    Argument("stride", Kind.INT, "Distance of a range's neighbours, 1 by default.", None, per_sample=True),
    Argument(
        "pad_mode",
        Kind.STRING,
        "What stands for frames behind the end: 'constant' for `fill_value`, 'edge' or 'repeat' for the last frame, "
        "'reflect_1001' or 'symmetric' and 'reflect_101' or 'reflect' for the frames backwards, with the last one "
        "repeated or not. With 'none' a range becomes shorter, and `frames` that there are not are an error.",
        "constant",
        choices=PAD_MODES,
    ),
    Argument("fill_value", Kind.INTS, "The colour of 'constant', a value for each channel or one for all.", (0,)),
    Argument("build_index", Kind.BOOL, "Accepted for compatibility; there is always an index.", True),
    Argument("affine", Kind.BOOL, "Accepted for compatibility; `set_affinity` of the pipeline decides.", True),
)

VIDEO, EXPERIMENTAL_VIDEO = (
    register(
        OperatorSchema(
            name=name,
            doc=doc,
            inputs=(Input("encoded", "Encoded videos, the bytes of a file a sample."),),
            arguments=_ARGUMENTS,
            devices=("cpu", "mixed"),
        )
    )
    for name, doc in (
        ("decoders.video", _DOC),
        ("experimental.decoders.video", _DOC + "\n\nAn older name of `fn.decoders.video`."),
    )
)


@dataclass(frozen=True)
class VideoSelections:
    """Which frames each sample of a batch has."""

    selections: Sequence[FrameSelection]
    pad_mode: str

    @classmethod
    def of(cls, node: GraphNode, batch: Batch) -> VideoSelections:
        """Return those of an operator for a batch.

        Raises:
            ArgumentValueError: arguments that can't be used.
        """
        given = batch.arguments(node)
        frames = given.rows("frames", np.int64)
        names = ("start_frame", "end_frame", "sequence_length", "stride")
        columns = [given.scalars(name, np.int64) for name in names]
        selections = [
            FrameSelection(
                None if frames is None else frames[sample].tolist(),
                *(None if column is None else int(column[sample]) for column in columns),
            )
            for sample in range(batch.size)
        ]
        return cls(selections, node.argument("pad_mode"))

    def frames(self, sample: int, clip: Clip) -> list[int]:
        """Return the numbers of a sample's frames, and `FILL`."""
        selection, count = self.selections[sample], len(clip.index)
        wanted: list[int] = pad_frames(
            selection.numbers(count), count, self.pad_mode, shorten=selection.frames is None
        ).tolist()
        return wanted


def check_fill(node: GraphNode) -> Sequence[int]:
    """Return the argument `fill_value`.

    Raises:
        ArgumentValueError: it is no colour.
    """
    fill: Sequence[int] = node.argument("fill_value")
    if not fill or not all(0 <= value <= 255 for value in fill):
        raise ArgumentValueError(f"argument 'fill_value' must be values from 0 to 255, not {fill}")
    return fill


@implements(VIDEO, "cpu")
@implements(EXPERIMENTAL_VIDEO, "cpu")
class VideoDecoder(SampleOperator[VideoSelections]):
    """Decodes a video a call, on one thread."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        require_av()
        self._fill = check_fill(node)
        self._decoders = Decoders(0, setup.num_threads)

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[VideoSelections, Sequence[OutputSpec]]:
        made = describe("FHWC", (None, None, None, 3), np.dtype(np.uint8))
        return VideoSelections.of(self.node, batch), [made]

    def run(self, state: VideoSelections, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        clip = Clip(flat_bytes(inputs[0]))
        target = target_for(clip, RGB, None)
        made: Array = read_frames(clip, state.frames(sample, clip), target, self._decoders, self._fill)
        return made

    def close(self) -> None:
        """Let go of what decodes. The executor calls it, after the last batch."""
        self._decoders.close()


@implements(VIDEO, "mixed")
@implements(EXPERIMENTAL_VIDEO, "mixed")
class MixedVideoDecoder(GpuOperator):
    """Decodes the videos of a batch side by side, with NVDEC; their frames stay on the GPU."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        require_nvdec()
        self._fill = check_fill(node)
        self._decoders = Decoders(0, setup.num_threads)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        selections = VideoSelections.of(self.node, batch)
        encoded = inputs[0].samples
        made: list[Any] = [None] * batch.size

        def decode(sample: int) -> None:
            clip = Clip(flat_bytes(encoded[sample]), self.kernels.device_id)
            target = target_for(clip, RGB, self.kernels)
            made[sample] = read_frames(clip, selections.frames(sample, clip), target, self._decoders, self._fill)

        fail([(sample, as_pipeline_error(error)) for sample, error in batch.pool.run(decode, batch.size)])
        batch.keep_alive.extend(made)  # memory of the default stream: not to be used again before the batch has ended
        return [TensorListGPU(made, "FHWC")]

    def close(self) -> None:
        """Let go of what decodes. The executor calls it, after the last batch."""
        self._decoders.close()
