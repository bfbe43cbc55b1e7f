"""Copies of results from host memory to the GPU of the training process, on a separate stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from dali_proxy._consumer.copy_sources import CopySources
from dali_proxy._consumer.side_stream import SideStream, Stream


class DeviceCopies:
    """Copies tensors to a GPU without waiting for it. Only one thread at a time may use it.

    The stream that is current during `copy` waits for the copies, and the host doesn't. They run beside the work that
    this stream still has to do.

    Args:
        device_id: number of the GPU.
        open_stream: opens a stream of the GPU.
        is_pinned: returns whether the GPU can read the memory of a tensor. Other tensors are copied on the host first.

    Raises:
        DeviceError: CuPy or the GPU is missing.
    """

    def __init__(
        self,
        device_id: int,
        open_stream: Callable[[int], Stream] = SideStream,
        is_pinned: Callable[[torch.Tensor], bool] = torch.Tensor.is_pinned,
    ) -> None:
        self._stream = open_stream(device_id)
        self._is_pinned = is_pinned
        self._sources = CopySources()

    def copy(self, values: Sequence[Any]) -> list[Any]:
        """Return the copies of tensors, and of lists of tensors, all of which are contiguous."""
        self._sources.release_finished()
        sources: list[torch.Tensor] = []
        memories: list[torch.Tensor] = []
        with self._stream.active():
            try:
                copies = [self._copied(value, sources, memories) for value in values]
            finally:
                event = self._sources.hold(self._stream, sources)
        self._stream.block_current(event, memories)
        return copies

    def close(self) -> None:
        """Wait for all copies, and release what they read."""
        self._sources.wait()
        self._stream.close()

    def _copied(self, value: Any, sources: list[torch.Tensor], memories: list[torch.Tensor]) -> Any:
        if isinstance(value, list):
            return [self._copied(sample, sources, memories) for sample in value]
        memory = self._stream.empty(value.shape, value.dtype)
        memories.append(memory)
        if value.nbytes:
            source = value if self._is_pinned(value) else self._bounced(value)
            sources.append(source)
            self._stream.copy(memory.data_ptr(), source.data_ptr(), value.nbytes)
        return memory

    def _bounced(self, value: torch.Tensor) -> torch.Tensor:
        bounced = self._stream.bounce(value.nbytes)
        return bounced.copy_(value.reshape(-1).view(torch.uint8))
