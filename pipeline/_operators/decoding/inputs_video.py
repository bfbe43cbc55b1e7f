"""`inputs.video`: a long video that is fed once, and decoded a batch of sequences at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import REQUIRED, Argument, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.operator import BatchOperator, Setup
from pipeline._operators.decoding.input_parts import VideoParts
from pipeline._video.frames import Decoders, read_frames
from pipeline._video.missing import require_av
from pipeline._video.nvdec import require_nvdec
from pipeline._video.selection import FILL
from pipeline._video.targets import target_for
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import TensorListCPU
from pipeline.tensors.gpu import TensorListGPU
from pipeline.types import RGB

__all__ = ["EXPERIMENTAL_VIDEO_INPUT", "VIDEO_INPUT"]

_DOC = """Decodes a video that is fed by `Pipeline.feed_input`, a batch of sequences at a time, to FHWC.

What is fed is one encoded video, as a batch of one. Each run gives its next `batch_size` sequences, the last run the
rest, and then the next video that was fed comes. So a long video never lies decoded in memory, as it does with
`fn.decoders.video`."""

VIDEO_INPUT, EXPERIMENTAL_VIDEO_INPUT = (
    register(
        OperatorSchema(
            name=name,
            doc=doc,
            arguments=(
                Argument("sequence_length", Kind.INT, "Frames of a sequence.", REQUIRED),
                Argument(
                    "last_sequence_policy",
                    Kind.STRING,
                    "The last sequence of a video is shorter with 'partial', and filled with black frames with 'pad'.",
                    "partial",
                    choices=("partial", "pad"),
                ),
                Argument("no_copy", Kind.BOOL, "Read the fed memory in place; it must not change until then.", False),
                Argument("blocking", Kind.BOOL, "Wait for data that another thread feeds.", False),
                Argument("affine", Kind.BOOL, "Accepted for compatibility; `set_affinity` of the pipeline decides."),
            ),
            devices=("cpu", "mixed"),
            fed=True,
        )
    )
    for name, doc in (
        ("inputs.video", _DOC),
        ("experimental.inputs.video", _DOC + "\n\nThe name that NVIDIA DALI has for `fn.inputs.video`."),
    )
)


@implements(VIDEO_INPUT, "cpu", "mixed")
@implements(EXPERIMENTAL_VIDEO_INPUT, "cpu", "mixed")
class VideoInput(BatchOperator):
    """Decodes in order, with one decoder: sequences of one video come one after the other."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        (require_av if node.device == "cpu" else require_nvdec)()
        if node.argument("sequence_length") < 1:
            raise ArgumentValueError(
                f"argument 'sequence_length' must be 1 or more, not {node.argument('sequence_length')}"
            )
        self._decoders = Decoders(2)  # of this video, and of the next one, which may begin before this one has ended

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        parts = batch.request.inputs[self.node.name]
        assert isinstance(parts, VideoParts)
        length: int = self.node.argument("sequence_length")
        padded = self.node.argument("last_sequence_policy") == "pad"
        made = []
        for first, end in parts.dense.tolist():  # type: ignore[union-attr]
            frames = [*range(first, end)] + [FILL] * (length - (end - first) if padded else 0)
            target = target_for(parts.clip, RGB, self.setup.kernels)
            made.append(read_frames(parts.clip, frames, target, self._decoders))
        if self.node.device == "cpu":
            return [TensorListCPU(made, "FHWC")]
        batch.keep_alive.extend(made)  # memory of another stream: not to be used again before the batch has ended
        return [TensorListGPU(made, "FHWC")]

    def close(self) -> None:
        """Close the videos. The executor calls it, after the last batch."""
        self._decoders.close()
