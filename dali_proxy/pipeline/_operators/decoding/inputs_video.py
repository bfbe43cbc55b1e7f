"""`inputs.video`: a long video that is fed once and decoded in batches of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import BatchOperator, Setup
from dali_proxy.pipeline._operator_api.traits import Traits
from dali_proxy.pipeline._operators.decoding.input_parts import VideoSegments
from dali_proxy.pipeline._video.frames import Decoders, read_frames
from dali_proxy.pipeline._video.missing import require_av
from dali_proxy.pipeline._video.nvdec import require_nvdec
from dali_proxy.pipeline._video.selection import FILL
from dali_proxy.pipeline._video.targets import target_for
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU
from dali_proxy.pipeline.types import RGB

_DOC = """Decodes a video in batches of sequences, to FHWC. Feed the video with `Pipeline.feed_input`.

Feed one encoded video, as a batch of one sample. Each run returns the next `batch_size` sequences, and the last run the
remaining ones. Then the next fed video follows. Unlike with `fn.decoders.video`, a long video is never in memory as a
whole."""

VIDEO_INPUT, EXPERIMENTAL_VIDEO_INPUT = (
    declare_operator(
        name=name,
        doc=doc,
        arguments=(
            Argument("sequence_length", Kind.INT, "Number of frames of a sequence.", REQUIRED),
            Argument(
                "last_sequence_policy",
                Kind.STRING,
                "Last sequence of a video: shorter with 'partial', filled up with black frames with 'pad'.",
                "partial",
                choices=("partial", "pad"),
            ),
            Argument("no_copy", Kind.BOOL, "Read the fed memory in place; it must not change until then.", False),
            Argument("blocking", Kind.BOOL, "Wait until another thread feeds data.", False),
            Argument("affine", Kind.BOOL, "Accepted for compatibility; see `set_affinity` of the pipeline."),
        ),
        devices=("cpu", "mixed"),
        fed=True,
    )
    for name, doc in (
        ("inputs.video", _DOC),
        ("experimental.inputs.video", _DOC + "\n\nNVIDIA DALI's name of `fn.inputs.video`."),
    )
)


@implements(VIDEO_INPUT, "cpu", "mixed")
@implements(EXPERIMENTAL_VIDEO_INPUT, "cpu", "mixed")
class VideoInput(BatchOperator):
    """Decodes sequences in order, with one decoder per video."""

    traits = Traits(waits=True)

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        (require_av if node.device == "cpu" else require_nvdec)()
        if node.argument("sequence_length") < 1:
            raise ArgumentValueError(
                f"argument 'sequence_length' must be 1 or more, not {node.argument('sequence_length')}"
            )
        self._decoders = Decoders(2)  # for this video and the next, which may begin before this one ends

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        segments = batch.request.inputs[self.node.name]
        assert isinstance(segments, VideoSegments)
        length: int = self.node.argument("sequence_length")
        padded = self.node.argument("last_sequence_policy") == "pad"
        sequences = []
        for first, end in segments.dense.tolist():  # type: ignore[union-attr]
            frames = [*range(first, end)] + [FILL] * (length - (end - first) if padded else 0)
            target = target_for(segments.clip, RGB, self.setup.kernels)
            sequences.append(read_frames(segments.clip, frames, target, self._decoders))
        if self.node.device == "cpu":
            return [TensorListCPU(sequences, "FHWC")]
        batch.keep_alive.extend(sequences)  # memory of another stream, which must not be reused before the batch ends
        return [TensorListGPU(sequences, "FHWC")]

    def close(self) -> None:
        """Close the videos. The executor calls this after the last batch."""
        self._decoders.close()
