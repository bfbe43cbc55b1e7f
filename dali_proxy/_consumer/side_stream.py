"""A separate CUDA stream in the training process, for copies and launches that don't block the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._cuda.errors import cuda_call, load_cupy
from dali_proxy.pipeline._cuda.streams import new_stream

if TYPE_CHECKING:
    import torch


class Event(Protocol):
    """A CUDA event: a point in the order of a stream's work."""

    def query(self) -> bool:
        """Return whether all work before the event is done, without waiting."""

    def synchronize(self) -> None:
        """Wait until all work before the event is done."""


class Stream(Protocol):
    """An ordered queue of copies and launches. Only one thread at a time may use it."""

    def active(self) -> Any:
        """Return a context manager in which the other methods may be called."""

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Allocate device memory. Later work reuses freed memory."""

    def bounce(self, nbytes: int) -> torch.Tensor:
        """Allocate host memory that `copy` can read, ``uint8[nbytes]``."""

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Issue a copy from pinned memory to the device, by addresses."""

    def launch(self, defines: tuple[tuple[str, str], ...], table: int, grid: tuple[int, int]) -> None:
        """Issue a launch of `evaluate.cu`, whose table is on the device at an address."""

    def record_event(self) -> Event:
        """Record an event after all issued work."""

    def block_current(self, event: Event, memories: Sequence[torch.Tensor]) -> None:
        """Let the current stream wait for an event, and prevent reuse of the memory until that stream is done."""

    def close(self) -> None:
        """Free the resources that launches share."""


# Streams of this process, by GPU. They are never freed: the allocator's memory for a stream must not be used on a new
# stream with the same handle.
_streams: dict[int, Any] = {}


class SideStream:
    """A separate CUDA stream in this process, whose memory comes from torch's caching allocator.

    CUDA isn't initialized before the first batch, so a process that only starts a server has no CUDA context.

    Args:
        device_id: number of the GPU.

    Raises:
        DeviceError: CuPy or the GPU is missing.
    """

    def __init__(self, device_id: int) -> None:
        self._device_id = device_id
        self._kernels = KernelContext(device_id)
        self._stream: Any = None  # the same stream as `_torch_stream`, for CuPy
        self._torch_stream: Any = None

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make the stream and its GPU current."""
        import torch

        if self._torch_stream is None:
            self._open()
        # The loop may be in inference mode for the batch that it requests; this batch is a later one.
        with torch.inference_mode(False), torch.cuda.stream(self._torch_stream):
            yield

    def _open(self) -> None:
        import torch

        torch.cuda.init()  # type: ignore[no-untyped-call]
        if self._device_id not in _streams:
            cuda = load_cupy().cuda
            with cuda_call("opening a stream"), cuda.Device(self._device_id):
                _streams[self._device_id] = new_stream()
        self._stream = _streams[self._device_id]
        self._torch_stream = torch.cuda.ExternalStream(  # type: ignore[no-untyped-call]
            self._stream.ptr, device=self._device_id
        )

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Allocate memory from the allocator's pool for this stream."""
        import torch

        return torch.empty(shape, dtype=dtype, device=self._torch_stream.device)

    def bounce(self, nbytes: int) -> torch.Tensor:
        """Allocate pinned memory."""
        import torch

        return torch.empty(nbytes, dtype=torch.uint8, device="cpu", pin_memory=True)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Issue `cudaMemcpyAsync`."""
        runtime = load_cupy().cuda.runtime
        with cuda_call("cudaMemcpyAsync"):
            runtime.memcpyAsync(target, source, nbytes, runtime.memcpyHostToDevice, self._stream.ptr)

    def launch(self, defines: tuple[tuple[str, str], ...], table: int, grid: tuple[int, int]) -> None:
        """Issue a launch of `evaluate.cu`."""
        self._kernels.launch("evaluate.cu", "evaluate", defines, [table], grid, self._stream)

    def record_event(self) -> Event:
        """Record a CUDA event."""
        import torch

        event: Event = self._torch_stream.record_event(torch.cuda.Event())  # type: ignore[no-untyped-call]
        return event

    def block_current(self, event: Any, memories: Sequence[torch.Tensor]) -> None:
        """Let torch's current stream wait for an event."""
        import torch

        current = torch.cuda.current_stream(self._device_id)
        current.wait_event(event)
        for memory in memories:
            memory.record_stream(current)

    def close(self) -> None:
        """Free the kernels."""
        if self._stream is not None:
            self._kernels.close()
