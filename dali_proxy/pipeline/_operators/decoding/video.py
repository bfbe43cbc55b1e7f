"""`decoders.video`: chosen frames of encoded videos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dali_proxy.pipeline._codecs.encoded import flat_bytes
from dali_proxy.pipeline._declaration import Argument, Input, Kind, Role, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, as_pipeline_error, fail
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from dali_proxy.pipeline._operator_api.output_specs import describe
from dali_proxy.pipeline._operators.decoding.cache_arguments import CACHE_ARGUMENTS
from dali_proxy.pipeline._video.clip import Clip
from dali_proxy.pipeline._video.frames import Decoders, read_frames
from dali_proxy.pipeline._video.missing import require_av
from dali_proxy.pipeline._video.nvdec import require_nvdec
from dali_proxy.pipeline._video.selection import PAD_MODES, FrameSelection, pad_frames
from dali_proxy.pipeline._video.targets import target_for
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.tensors.gpu import TensorListGPU
from dali_proxy.pipeline.types import RGB

_DOC = """Decodes frames of videos to FHWC, RGB.

The input is the bytes of MP4, Matroska, WebM, AVI and other files. By default all frames are decoded. `frames` selects
single frames; `start_frame`, `end_frame` or `sequence_length`, and `stride` select a range. Frames are numbered in
display order, from 0. The output has exactly the selected frames, independent of the keyframes of the video.
With device='mixed', the CPU reads the container and NVDEC decodes on the GPU; the CPU decodes what NVDEC doesn't
support."""

_ARGUMENTS = (
    Argument("frames", Kind.INTS, "Numbers of frames, in any order. A number may be repeated.", None, per_sample=True),
    Argument("start_frame", Kind.INT, "First frame of a range; by default 0.", None, per_sample=True),
    Argument("end_frame", Kind.INT, "Frame after the last frame of a range.", None, per_sample=True),
    Argument("sequence_length", Kind.INT, "Length of a range, instead of `end_frame`.", None, per_sample=True),
    Argument("stride", Kind.INT, "Distance between frames of a range; by default 1.", None, per_sample=True),
    Argument(
        "pad_mode",
        Kind.STRING,
        "Replacement of frames after the end: 'constant' for `fill_value`, 'edge' or 'repeat' for the last frame, "
        "'reflect_1001' or 'symmetric' for the frames backwards with the last one repeated, 'reflect_101' or 'reflect' "
        "for the frames backwards without repetition. With 'none', ranges are cut, and missing `frames` raise an "
        "error.",
        "constant",
        choices=PAD_MODES,
    ),
    Argument("fill_value", Kind.INTS, "Colour for 'constant': one value per channel, or one for all.", (0,)),
    Argument("build_index", Kind.BOOL, "Accepted for compatibility; the index is always built.", True),
    Argument("affine", Kind.BOOL, "Accepted for compatibility; see `set_affinity` of the pipeline.", True),
    *CACHE_ARGUMENTS,
)

VIDEO = declare_operator(
    name="decoders.video",
    role=Role.DECODER,
    doc=_DOC,
    inputs=(Input("encoded", "Encoded videos: the bytes of one file per sample."),),
    arguments=_ARGUMENTS,
    devices=("cpu", "mixed"),
)


@dataclass(frozen=True)
class VideoSelections:
    """The selected frames of each sample of a batch.

    Attributes:
        selections: selection of each sample.
        pad_mode: replacement of frames after the end of a video.
    """

    selections: Sequence[FrameSelection]
    pad_mode: str

    @classmethod
    def from_arguments(cls, node: GraphNode, batch: Batch) -> VideoSelections:
        """Return the selections from the arguments of an operator for a batch.

        Raises:
            ArgumentValueError: an argument is invalid.
        """
        arguments = batch.arguments(node)
        frames = arguments.optional(arguments.rows, "frames", np.int64)
        names = ("start_frame", "end_frame", "sequence_length", "stride")
        columns = [arguments.optional(arguments.scalars, name, np.int64) for name in names]
        selections = [
            FrameSelection(
                None if frames is None else frames[sample].tolist(),
                *(None if column is None else int(column[sample]) for column in columns),
            )
            for sample in range(batch.size)
        ]
        return cls(selections, node.argument("pad_mode"))

    def frames(self, sample: int, clip: Clip) -> list[int]:
        """Return the frame numbers of a sample. The number `FILL` stands for a frame of the colour `fill_value`."""
        selection, count = self.selections[sample], len(clip.index)
        return pad_frames(selection.numbers(count), count, self.pad_mode, shorten=selection.frames is None).tolist()


def check_fill(node: GraphNode) -> Sequence[int]:
    """Return the argument `fill_value`.

    Raises:
        ArgumentValueError: a value isn't from 0 to 255.
    """
    fill: Sequence[int] = node.argument("fill_value")
    if not fill or not all(0 <= value <= 255 for value in fill):
        raise ArgumentValueError(f"argument 'fill_value' must be values from 0 to 255, not {fill}")
    return fill


@implements(VIDEO, "cpu")
class VideoDecoder(SampleOperator[VideoSelections]):
    """Decodes one video per call, on one thread."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        require_av()
        self._fill = check_fill(node)
        self._decoders = Decoders(0, setup.num_threads)

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[VideoSelections, Sequence[OutputSpec]]:
        spec = describe("FHWC", (None, None, None, 3), np.dtype(np.uint8))
        return VideoSelections.from_arguments(self.node, batch), [spec]

    def run(self, state: VideoSelections, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        clip = Clip(flat_bytes(inputs[0]), ranges=True)
        target = target_for(clip, RGB, None)
        return read_frames(clip, state.frames(sample, clip), target, self._decoders, self._fill)

    def close(self) -> None:
        """Close the decoders. The executor calls this after the last batch."""
        self._decoders.close()


@implements(VIDEO, "mixed")
class MixedVideoDecoder(GpuOperator):
    """Decodes the videos of a batch in parallel, with NVDEC. The frames stay on the GPU."""

    traits = replace(GpuOperator.traits, only_launches=False)

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        require_nvdec()
        self._fill = check_fill(node)
        self._decoders = Decoders(0, setup.num_threads)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        selections = VideoSelections.from_arguments(self.node, batch)
        encoded = inputs[0].samples
        result: list[Any] = [None] * batch.size

        def decode(sample: int) -> None:
            clip = Clip(flat_bytes(encoded[sample]), self.kernels.device_id)
            target = target_for(clip, RGB, self.kernels)
            result[sample] = read_frames(clip, selections.frames(sample, clip), target, self._decoders, self._fill)

        fail([(sample, as_pipeline_error(error)) for sample, error in batch.pool.run(decode, batch.size)])
        # The frames' memory belongs to the default stream. It must not be reused before the batch ends.
        batch.keep_alive.extend(result)
        return [TensorListGPU(result, "FHWC")]

    def close(self) -> None:
        """Close the decoders. The executor calls this after the last batch."""
        self._decoders.close()
