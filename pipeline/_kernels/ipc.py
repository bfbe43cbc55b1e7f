"""CUDA IPC: device memory that one process writes and others read, ordered by CUDA events.

A buffer has two events. The owner records `ready` after its kernels have written; a reader's stream waits for it.
The reader records `free` after its last use; the owner's stream waits for it before it writes again. The host never
synchronises. A process may wait for an event only after the other process has recorded it, so the processes notify
each other by messages.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from pipeline._kernels.errors import CudaError, cuda_call, load_cupy

__all__ = ["BufferHandle", "ExportedBuffer", "ImportedBuffer"]


@dataclass(frozen=True)
class BufferHandle:
    """Handles that another process needs to open an `ExportedBuffer`; plain bytes for any channel.

    Attributes:
        device_id: the owner's CUDA device, in the owner's numbering.
        nbytes: size of the memory.
        memory: cudaIpcMemHandle_t.
        ready: cudaIpcEventHandle_t of the event `ready`.
        free: cudaIpcEventHandle_t of the event `free`.
    """

    device_id: int
    nbytes: int
    memory: bytes
    ready: bytes
    free: bytes


class _Shared:
    """Memory and two events. Subclasses open the memory and define how to free it."""

    def __init__(self, device_id: int, nbytes: int) -> None:
        self.device_id = device_id
        self.nbytes = nbytes
        self.pointer = 0
        self._ready = 0
        self._free = 0
        self._runtime: Any = load_cupy().cuda.runtime

    def _record(self, event: int, stream_ptr: int) -> None:
        with cuda_call("cudaEventRecord"), self._device():
            self._runtime.eventRecord(event, stream_ptr)

    def _wait(self, event: int, stream_ptr: int) -> None:
        with cuda_call("cudaStreamWaitEvent"), self._device():
            self._runtime.streamWaitEvent(stream_ptr, event, 0)

    def _device(self) -> Any:
        return load_cupy().cuda.Device(self.device_id)

    def _give_back_memory(self, pointer: int) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Free memory and events; the device must have finished its work on them. Idempotent.

        Raises:
            CudaError: CUDA failed to free a resource; the others are freed.
        """
        pointer, events = self.pointer, (self._ready, self._free)
        self.pointer = self._ready = self._free = 0
        failure: CudaError | None = None
        for call, handle in ((self._give_back_memory, pointer), *((self._runtime.eventDestroy, e) for e in events)):
            if handle:
                try:
                    with cuda_call("closing a shared buffer"), self._device():
                        call(handle)
                except CudaError as error:
                    failure = failure or error
        if failure is not None:
            raise failure

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class ExportedBuffer(_Shared):
    """Device memory to share with other processes, allocated once and reused.

    Args:
        device_id: the CUDA device.
        nbytes: size of the memory: a separate cudaMalloc, because IPC handles refer to whole allocations.

    Attributes:
        pointer: device address; 0 after `close`.
        handle: handles for `ImportedBuffer`.

    Raises:
        CudaError: CUDA failed to create or share memory or events; the message names the call.

    Example:
        >>> with ExportedBuffer(0, 1 << 20) as buffer:  # doctest: +SKIP
        ...     send(buffer.handle)
        ...     launch_writer(buffer.pointer, stream)
        ...     buffer.record_ready(stream.ptr)
    """

    def __init__(self, device_id: int, nbytes: int) -> None:
        super().__init__(device_id, nbytes)
        runtime = self._runtime
        flags = runtime.eventInterprocess | runtime.eventDisableTiming
        try:
            with self._device():
                with cuda_call(f"cudaMalloc of {nbytes} bytes to share"):
                    self.pointer = runtime.malloc(nbytes)
                with cuda_call("cudaEventCreateWithFlags"):
                    self._ready = runtime.eventCreateWithFlags(flags)
                    self._free = runtime.eventCreateWithFlags(flags)
                with cuda_call("cudaIpcGetMemHandle"):
                    memory = bytes(runtime.ipcGetMemHandle(self.pointer))
                with cuda_call("cudaIpcGetEventHandle"):
                    events = [bytes(runtime.ipcGetEventHandle(event)) for event in (self._ready, self._free)]
        except BaseException:
            with suppress(CudaError):
                self.close()
            raise
        self.handle = BufferHandle(device_id, nbytes, memory, *events)

    def record_ready(self, stream_ptr: int) -> None:
        """Record that the memory is complete after the stream's current work."""
        self._record(self._ready, stream_ptr)

    def wait_free(self, stream_ptr: int) -> None:
        """Make the stream wait for the reader's last recorded use, without blocking the host."""
        self._wait(self._free, stream_ptr)

    def _give_back_memory(self, pointer: int) -> None:
        self._runtime.free(pointer)

    def __enter__(self) -> ExportedBuffer:
        return self


class ImportedBuffer(_Shared):
    """Another process's `ExportedBuffer`, mapped into this process.

    A process can open a handle once. The exporting process can't open its own handle.

    Args:
        handle: from `ExportedBuffer.handle`.
        device_id: the same device in this process's numbering; the owner's number by default.

    Attributes:
        pointer: device address in this process; 0 after `close`.

    Raises:
        CudaError: CUDA failed to open the handle: the owner has exited, or the processes can't share memory.
    """

    def __init__(self, handle: BufferHandle, device_id: int | None = None) -> None:
        super().__init__(handle.device_id if device_id is None else device_id, handle.nbytes)
        runtime = self._runtime
        try:
            with self._device():
                with cuda_call("cudaIpcOpenMemHandle"):
                    self.pointer = runtime.ipcOpenMemHandle(handle.memory)
                with cuda_call("cudaIpcOpenEventHandle"):
                    self._ready = runtime.ipcOpenEventHandle(handle.ready)
                    self._free = runtime.ipcOpenEventHandle(handle.free)
        except BaseException:
            with suppress(CudaError):
                self.close()
            raise

    def wait_ready(self, stream_ptr: int) -> None:
        """Make the stream wait until the owner has written, without blocking the host."""
        self._wait(self._ready, stream_ptr)

    def record_free(self, stream_ptr: int) -> None:
        """Record that this reader finishes with the stream's current work."""
        self._record(self._free, stream_ptr)

    def _give_back_memory(self, pointer: int) -> None:
        self._runtime.ipcCloseMemHandle(pointer)

    def __enter__(self) -> ImportedBuffer:
        return self
