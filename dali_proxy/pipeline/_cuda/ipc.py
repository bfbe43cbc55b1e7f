"""CUDA IPC: device memory that one process writes and others read.

No stream waits for another process: if that process died, the stream would wait forever, or read incomplete data. The
owner sends a message after its kernels have written. The reader records the event `free` after its last use, and
notifies the owner, which polls the event before it writes again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dali_proxy.pipeline._closing import Closing
from dali_proxy.pipeline._cuda.errors import CudaError, cuda_call, load_cupy
from dali_proxy.pipeline._cuda.reclaiming import reclaiming

_HANDLE = 64  # bytes of cudaIpcMemHandle_t and of cudaIpcEventHandle_t


@dataclass(frozen=True)
class BufferHandle:
    """Handles that another process needs to open an `ExportedBuffer`; plain bytes for any channel.

    Attributes:
        device: PCI address of the CUDA device: processes may number devices differently (CUDA_VISIBLE_DEVICES).
        nbytes: size of the memory.
        memory: cudaIpcMemHandle_t.
        free: cudaIpcEventHandle_t of the event `free`.
    """

    device: str
    nbytes: int
    memory: bytes
    free: bytes

    def pack(self) -> bytes:
        """Return all of it except `nbytes` as bytes."""
        return self.memory + self.free + self.device.encode()

    @classmethod
    def unpack(cls, packed: bytes, nbytes: int) -> BufferHandle:
        """Return the handle from the result of `pack`.

        Raises:
            ValueError: it has the wrong size.
        """
        memory, free, device = packed[:_HANDLE], packed[_HANDLE : 2 * _HANDLE], packed[2 * _HANDLE :]
        if not device:
            raise ValueError(f"the handle of a CUDA buffer has {len(packed)} bytes")
        return cls(device.decode(errors="replace"), nbytes, memory, free)


class _Shared(Closing):
    """Memory and an event. Subclasses open the memory and define how to free it."""

    def __init__(self, device_id: int, nbytes: int) -> None:
        self.device_id = device_id
        self.nbytes = nbytes
        self.pointer = 0
        self._free = 0
        self._runtime: Any = load_cupy().cuda.runtime

    def _device(self) -> Any:
        return load_cupy().cuda.Device(self.device_id)

    def _give_back_memory(self, pointer: int) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Free the memory and the event; the device must have finished its work on them. Idempotent.

        Raises:
            CudaError: CUDA failed to free a resource; the others are freed.
        """
        pointer, event = self.pointer, self._free
        self.pointer = self._free = 0
        failure: CudaError | None = None
        for call, handle in ((self._give_back_memory, pointer), (self._runtime.eventDestroy, event)):
            if handle:
                try:
                    with cuda_call("closing a shared buffer"), self._device():
                        call(handle)
                except CudaError as error:
                    failure = failure or error
        if failure is not None:
            raise failure


class ExportedBuffer(_Shared):
    """Device memory to share with other processes, allocated once and reused.

    Args:
        device_id: the CUDA device.
        nbytes: size of the memory: a separate cudaMalloc, because IPC handles refer to whole allocations.

    Attributes:
        pointer: device address; 0 after `close`.
        handle: handles for `ImportedBuffer`.
        written: event for the owner's use, to be recorded after its writes. Creating one for each write takes longer.
        writer: event or stream after whose work the owner has written; None if it has.

    Raises:
        CudaError: CUDA failed to create or share the memory or the event; the message names the call.

    Example:
        >>> with ExportedBuffer(0, 1 << 20) as buffer:  # doctest: +SKIP
        ...     launch_writer(buffer.pointer, stream)
        ...     stream.synchronize()
        ...     send(buffer.handle)
    """

    def __init__(self, device_id: int, nbytes: int) -> None:
        super().__init__(device_id, nbytes)
        self.writer: Any = None
        runtime = self._runtime
        flags = runtime.eventInterprocess | runtime.eventDisableTiming
        try:
            with self._device():
                with cuda_call(f"cudaMalloc of {nbytes} bytes to share"):
                    self.pointer = reclaiming(runtime.malloc)(nbytes)
                with cuda_call("cudaEventCreateWithFlags"):
                    self._free = runtime.eventCreateWithFlags(flags)
                    self.written = load_cupy().cuda.Event(block=True, disable_timing=True)
                with cuda_call("cudaIpcGetMemHandle"):
                    memory = bytes(runtime.ipcGetMemHandle(self.pointer))
                with cuda_call("cudaIpcGetEventHandle"):
                    free = bytes(runtime.ipcGetEventHandle(self._free))
                with cuda_call("cudaDeviceGetPCIBusId"):
                    device = str(runtime.deviceGetPCIBusId(device_id))
        except BaseException:
            with suppress(CudaError):
                self.close()
            raise
        self.handle = BufferHandle(device, nbytes, memory, free)

    def is_used(self) -> bool:
        """Return whether the GPU still has to finish the owner's writes or the reader's last recorded use.

        If the reader died, this is so forever.
        """
        if self.writer is not None:
            if not self.writer.done:
                return True
            self.writer = None
        return bool(self._runtime.eventQuery(self._free))

    def _give_back_memory(self, pointer: int) -> None:
        self._runtime.free(pointer)


class ImportedBuffer(_Shared):
    """Another process's `ExportedBuffer`, mapped into this process.

    A process can open a handle once. The exporting process can't open its own handle.

    Args:
        handle: from `ExportedBuffer.handle`.

    Attributes:
        device_id: the device, in this process's numbering.
        pointer: device address in this process; 0 after `close`.

    Raises:
        CudaError: CUDA failed to open the handle: this process doesn't see the device, the owner has exited, or the
            processes can't share memory.
    """

    def __init__(self, handle: BufferHandle) -> None:
        runtime = load_cupy().cuda.runtime
        with cuda_call(f"finding the owner's GPU {handle.device} (see CUDA_VISIBLE_DEVICES)"):
            device_id = int(runtime.deviceGetByPCIBusId(handle.device))
        super().__init__(device_id, handle.nbytes)
        try:
            with self._device():
                with cuda_call("cudaIpcOpenMemHandle"):
                    self.pointer = runtime.ipcOpenMemHandle(handle.memory)
                with cuda_call("cudaIpcOpenEventHandle"):
                    self._free = runtime.ipcOpenEventHandle(handle.free)
        except BaseException:
            with suppress(CudaError):
                self.close()
            raise

    def record_free(self, stream_ptr: int) -> None:
        """Record that this reader finishes with the stream's current work."""
        with cuda_call("cudaEventRecord"), self._device():
            self._runtime.eventRecord(self._free, stream_ptr)

    def _give_back_memory(self, pointer: int) -> None:
        self._runtime.ipcCloseMemHandle(pointer)
