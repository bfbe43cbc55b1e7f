"""Batches that a loop has taken together, and that its iterator returns one after the other."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import torch

from dali_proxy._common.nested import find, replace
from dali_proxy._loader.batches import NumberedIndices

__all__ = ["TakenBatch", "TakenBatches"]


class TakenBatch(NamedTuple):
    """A batch whose results have arrived.

    Attributes:
        batch: the user's structure, with tensors in place of the placeholders.
        numbered: its number and its dataset indices.
        position: state of the worker's dataset after it.
        variant: form of the pipeline that computed it.
        worker_wait: seconds that the loop waited until it was submitted.
        result_wait: seconds that the loop then waited for its results.
    """

    batch: Any
    numbered: NumberedIndices
    position: bytes | None
    variant: int
    worker_wait: float
    result_wait: float


class TakenBatches:
    """A queue of batches.

    Between two batches, the training's code replaces the loader's in the caches of the core. So taking a batch takes
    several times as long as taking another one immediately after it, and a loop takes all batches that are ready.

    A tensor on a GPU belongs to the stream that was current when it was taken: that stream waits for its data, and its
    memory is reused after the work of that stream. A batch that is returned while another stream is current is copied
    for that stream.
    """

    def __init__(self) -> None:
        self._waiting: deque[TakenBatch] = deque()
        self._devices: set[torch.device] | None = None  # GPUs of the first batch, as of all others
        self._stream: torch.cuda.Stream | None = None  # that was current when the batches were taken

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, taken: TakenBatch) -> None:
        """Add a batch that was taken just now."""
        if self._devices is None:
            self._devices = {tensor.device for tensor in find(taken.batch, torch.Tensor) if tensor.is_cuda}
        if self._devices and not self._waiting:
            self._stream = torch.cuda.current_stream(next(iter(self._devices)))
        self._waiting.append(taken)

    @property
    def last(self) -> TakenBatch:
        """The batch that was taken last, and hasn't been returned."""
        return self._waiting[-1]

    @property
    def may_grow(self) -> bool:
        """Whether a batch may be taken before the loop asks for it: its tensors would be the same as if taken then."""
        return len(self._devices or ()) <= 1 and not torch.is_inference_mode_enabled()

    def next(self, now: bool) -> TakenBatch:
        """Return the first batch and remove it.

        Args:
            now: whether it was taken by the same call of the user.
        """
        taken, stream = self._waiting[0], self._stream
        if stream is not None and not now and (current := torch.cuda.current_stream(stream.device)) != stream:
            taken = taken._replace(batch=_copied(taken.batch, stream, current))
        self._waiting.popleft()  # not earlier: the copy may fail
        return taken


def _copied(batch: Any, stream: torch.cuda.Stream, current: torch.cuda.Stream) -> Any:
    """Return a batch of one stream with copies of its tensors on the GPU for the current one."""
    current.wait_stream(stream)
    copied = replace(batch, torch.Tensor, lambda tensor: tensor.clone() if tensor.is_cuda else tensor)
    stream.wait_stream(current)
    return copied
