"""A video that was fed, as the batches of sequences that a pipeline makes of it."""

from __future__ import annotations

import numpy as np

from pipeline._graph.graph import GraphNode
from pipeline._operator_api.request import TensorList
from pipeline._video.clip import Clip
from pipeline.errors import InputError
from pipeline.tensors.cpu import TensorListCPU

__all__ = ["VideoParts", "split_video"]


class VideoParts(TensorListCPU):
    """Sequences of a video, the samples of one batch, before they are decoded.

    Each sample is its first frame and the one after its last.

    Args:
        clip: the video.
        bounds: of shape (N, 2).
    """

    __slots__ = ("clip",)

    def __init__(self, clip: Clip, bounds: np.ndarray) -> None:
        super().__init__(bounds)
        self.clip = clip


def split_video(
    batch: TensorList, node: GraphNode, max_batch_size: int, device_id: int | None = None
) -> list[VideoParts]:
    """Return the batches of a video that is fed to `inputs.video`.

    Args:
        batch: the one sample is the encoded video.
        node: the operator.
        max_batch_size: sequences of each batch but the last.
        device_id: the pipeline's GPU.

    Raises:
        InputError: there are several samples.
        DecodeError: it is no video.
    """
    if len(batch) != 1 or not isinstance(batch, TensorListCPU):
        raise InputError(f"input {node.name!r}: expected a batch of one video in host memory")
    data = batch.samples[0]
    clip = Clip(data if node.argument("no_copy") else data.copy(), None if node.device == "cpu" else device_id)
    length: int = node.argument("sequence_length")
    count = len(clip.index)
    firsts = np.arange(0, count, length)
    bounds = np.column_stack([firsts, np.minimum(firsts + length, count)])
    return [VideoParts(clip, bounds[first : first + max_batch_size]) for first in range(0, len(bounds), max_batch_size)]
