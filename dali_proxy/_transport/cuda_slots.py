"""The server's side of result slots on a GPU: CUDA memory that consumers map by IPC."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from dali_proxy._transport.protocol import CUDA_SLOTS, OutputBatch
from dali_proxy._transport.slots import Slot, SlotOwner, SlotPool
from dali_proxy.pipeline._cuda.errors import load_cupy
from dali_proxy.pipeline._cuda.ipc import ExportedBuffer
from dali_proxy.pipeline._ipc.arena import ALIGNMENT
from dali_proxy.pipeline.tensors.gpu import TensorListGPU


class CudaPublisher:
    """Puts outputs into CUDA slots, and lets an executor write them there.

    The caller waits for the GPU before it lends the slots (see `StagedResult`).

    Args:
        device_id: the GPU.

    Attributes:
        pool: the slots. Memory that a consumer has mapped is only freed after the consumer has unmapped it.
    """

    def __init__(self, device_id: int) -> None:
        self._device_id = device_id
        self.pool: SlotPool[ExportedBuffer] = SlotPool(self._make, needs_consent=True, is_used=ExportedBuffer.is_used)

    def on(self, stream: Any) -> AbstractContextManager[None]:
        """Return a context in which CuPy allocates from its own pools."""
        return nullcontext()

    def output_memory(self, nbytes: int) -> Any:
        """Return a slot as memory for an output that the current stream computes, which `stage` then needn't copy.

        Returns:
            A `cupy.cuda.MemoryPointer`; None on another GPU.

        Raises:
            CudaError: there is no memory.
            IPCError: the pool is closed.
        """
        cuda = load_cupy().cuda
        if cuda.runtime.getDevice() != self._device_id:
            return None
        slot = self.pool.allocate(max(nbytes, 1))
        slot.memory.writer = cuda.get_current_stream()  # of a batch that fails, too
        memory = cuda.UnownedMemory(slot.memory.pointer, slot.memory.nbytes, SlotOwner(slot), self._device_id)
        return cuda.MemoryPointer(memory, 0)

    def stage(self, output: TensorListGPU) -> tuple[OutputBatch, Slot[ExportedBuffer], Any]:
        """Copy an output into a slot, on the current stream, unless it is in a slot.

        The caller keeps the output until the third result, an event, has completed.

        Raises:
            CudaError: there is no memory, or the GPU failed.
        """
        cupy = load_cupy()
        dense = output.is_dense_tensor()
        slot = _slot_of(output)
        if slot is not None:
            slot.memory.writer = output.ready
            offset = int(output.dense.data.ptr) - slot.memory.pointer
            return self._describe(output, slot, output.dense.dtype.name, [offset], True), slot, output.ready
        sources = output.samples if output.dense is None else [output.dense]
        step = 1 if dense else ALIGNMENT
        offsets = np.cumsum([0, *(-(-source.nbytes // step) * step for source in sources)]).tolist()
        slot = self.pool.allocate(max(offsets[-1], 1))
        try:
            with cupy.cuda.Device(self._device_id):
                copied = self._copy(output, sources, slot, offsets)
            return self._describe(output, slot, sources[0].dtype.name, offsets, dense), slot, copied
        except BaseException:
            slot.discard()
            raise

    def _describe(
        self, output: TensorListGPU, slot: Slot[ExportedBuffer], dtype: str, offsets: list[int], dense: bool
    ) -> OutputBatch:
        if dense:
            rows = [(offsets[0], len(output), *output.shape()[0])]
        else:
            rows = [(offset, *shape) for offset, shape in zip(offsets, output.shape(), strict=False)]
        table = np.array(rows, np.int64)
        return OutputBatch(
            device="cuda",
            device_id=self._device_id,
            dtype=dtype,
            layout=output.layout(),
            dense=dense,
            ndim=table.shape[1] - 1,
            table=table.tobytes(),
            slot=slot.number + CUDA_SLOTS,
            nbytes=slot.memory.nbytes,
            handle=slot.memory.handle.pack(),
        )

    def close(self) -> None:
        """Free all memory after the GPU has finished; what consumers have mapped is freed when the process ends."""
        if self.pool.stats().slots:  # else nothing has used the GPU, and there may be none
            cupy = load_cupy()
            with cupy.cuda.Device(self._device_id) as device:
                device.synchronize()
        self.pool.close(keep_mapped=True)

    def _make(self, nbytes: int) -> ExportedBuffer:
        return ExportedBuffer(self._device_id, nbytes)

    def _copy(
        self, output: TensorListGPU, sources: Sequence[Any], slot: Slot[ExportedBuffer], offsets: list[int]
    ) -> Any:
        cupy = load_cupy()
        stream = cupy.cuda.get_current_stream()
        if output.ready is not None and (output.stream is None or output.stream.ptr != stream.ptr):
            stream.wait_event(output.ready)
        runtime = cupy.cuda.runtime
        for source, offset in zip(sources, offsets, strict=False):
            address = slot.memory.pointer + offset
            if source.nbytes and source.flags.c_contiguous:  # in a tenth of the time of `copyto`
                runtime.memcpyAsync(address, source.data.ptr, source.nbytes, runtime.memcpyDeviceToDevice, stream.ptr)
            elif source.nbytes:
                memory = cupy.cuda.UnownedMemory(address, source.nbytes, slot, self._device_id)
                pointer = cupy.cuda.MemoryPointer(memory, 0)
                cupy.copyto(cupy.ndarray(source.shape, source.dtype, pointer), source)
        copied = slot.memory.writer = slot.memory.written
        copied.record(stream)
        return copied


def _slot_of(output: TensorListGPU) -> Slot[ExportedBuffer] | None:
    """Take the slot that a dense output lies in; return None if it lies in none."""
    array: Any = output.dense
    if array is None or output.ready is None or not array.flags.c_contiguous:
        return None
    owner = getattr(array.data.mem, "_owner", None)
    return owner.take() if isinstance(owner, SlotOwner) else None
