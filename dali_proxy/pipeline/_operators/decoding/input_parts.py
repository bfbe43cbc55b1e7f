"""Batches of sequences of a video that was fed to a pipeline."""

from __future__ import annotations

import numpy as np

from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._video.clip import Clip
from dali_proxy.pipeline.errors import InputError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU


class VideoSegments(TensorListCPU):
    """A batch of sequences of a video, before they are decoded; `bounds` has the indices of all, (N, 2).

    Each sample has the indices of the first frame and of the frame after the last.
    """

    __slots__ = ("clip",)

    def __init__(self, clip: Clip, bounds: np.ndarray) -> None:
        super().__init__(bounds)
        self.clip = clip


def split_video(
    batch: TensorList, node: GraphNode, max_batch_size: int, device_id: int | None = None
) -> list[VideoSegments]:
    """Return the batches of a video that is fed to `inputs.video`.

    Args:
        batch: batch with one sample, the encoded video.
        node: the operator.
        max_batch_size: number of sequences of each batch except the last.
        device_id: GPU of the pipeline.

    Raises:
        InputError: the batch has several samples, or isn't in host memory.
        DecodeError: the sample isn't a video.
    """
    if len(batch) != 1 or not isinstance(batch, TensorListCPU):
        raise InputError(f"input {node.name!r}: expected a batch of one video in host memory")
    data = batch.samples[0]
    clip = Clip(data if node.argument("no_copy") else data.copy(), None if node.device == "cpu" else device_id)
    length: int = node.argument("sequence_length")
    count = len(clip.index)
    firsts = np.arange(0, count, length)
    bounds = np.column_stack([firsts, np.minimum(firsts + length, count)])
    return [
        VideoSegments(clip, bounds[first : first + max_batch_size]) for first in range(0, len(bounds), max_batch_size)
    ]
