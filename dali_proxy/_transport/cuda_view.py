"""The consumer's side of result slots on a GPU: torch tensors over the server's memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dali_proxy._transport.protocol import CUDA_SLOTS, OutputBatch
from dali_proxy._transport.slot_view import check_rows, lend
from dali_proxy._transport.slots import RETIRED
from pipeline._cuda.errors import CudaError, load_cupy
from pipeline._cuda.ipc import BufferHandle, ImportedBuffer
from pipeline._cuda.views import Lease
from pipeline._ipc.errors import ProtocolError
from pipeline._ipc.memory import SharedBlock
from pipeline._ipc.signals import finalizer

if TYPE_CHECKING:
    import torch

    from pipeline.tensors.gpu import TensorListGPU

__all__ = ["CudaSlotView", "local_tensors"]


class _Imported:
    """A slot that is mapped here, and the number of its current loans."""

    __slots__ = ("buffer", "detached", "loans", "number")

    def __init__(self, number: int, buffer: ImportedBuffer) -> None:
        self.number = number
        self.buffer = buffer
        self.loans = 0
        self.detached = False


class _LentMemory:
    """The base of a torch tensor. When the tensor dies, the slot may be reused as soon as the stream is done."""

    __slots__ = ("__cuda_array_interface__", "_closable", "_imported", "_loan", "_stream_ptr")

    def __init__(self, imported: _Imported, loan: Any, closable: deque[_Imported]) -> None:
        self._imported = imported
        self._loan = loan
        self._stream_ptr: int | None = None  # stream of the reader, once it is known
        self._closable = closable
        imported.loans += 1
        self.__cuda_array_interface__ = {
            "version": 2,
            "data": (imported.buffer.pointer, False),
            "shape": (imported.buffer.nbytes,),
            "typestr": "|u1",
        }

    def read_on_current_stream(self) -> int:
        """Record that the current stream is the reader, and return the number of the GPU in this process."""
        import torch

        device_id = self._imported.buffer.device_id
        self._stream_ptr = int(torch.cuda.current_stream(device_id).cuda_stream)
        return device_id

    @finalizer
    def __del__(self) -> None:
        imported = self._imported
        if not self._loan.ours:
            return
        try:
            if self._stream_ptr is not None:
                imported.buffer.record_free(self._stream_ptr)
        except (CudaError, AttributeError, TypeError, ImportError):
            # The context is gone, or the interpreter is shutting down: there is no stream left to wait for.
            pass
        imported.loans -= 1
        if imported.detached and not imported.loans:
            self._closable.append(imported)  # closing may wait for the GPU, which a finalizer must not do
        # The loan dies after this. Only then does the server see that the slot is free.


class CudaSlotView:
    """Maps the CUDA slots that a server lends to this process. Only one thread at a time may use it.

    Args:
        control_fd: descriptor of the control page; this object owns it.
        control_nbytes: size of the control page.
    """

    def __init__(self, control_fd: int, control_nbytes: int) -> None:
        control = SharedBlock.attach(control_fd, control_nbytes)
        self._page = control.array
        control.close()
        self._slots: dict[int, _Imported] = {}
        self._closable: deque[_Imported] = deque()

    def receive(self, output: OutputBatch) -> Callable[[], torch.Tensor | list[torch.Tensor]]:
        """Map an output. Return a function that returns the tensor of a dense output, or the list of its samples.

        The data is complete: the server has waited for its GPU. The stream that is current during the call of that
        function reads the data; the slot may be reused after this stream's work when the tensors are dropped.

        Raises:
            CudaError: the memory can't be mapped.
            ProtocolError: the message is invalid.
        """
        number = output.slot - CUDA_SLOTS
        if not 0 <= number < len(self._page) or output.generation >= RETIRED:
            raise ProtocolError(f"there is no slot {number} of generation {output.generation}")
        try:
            self._close_unused()
            if output.attach:
                self._slots[number] = self._attach(number, output)
            imported = self._slots.get(number)
            if imported is None:
                raise ProtocolError(f"slot {number} is not attached")
        except BaseException:  # the server assumes that the slot is mapped here: make it give up the slot
            self._page[number] = output.generation | RETIRED
            raise
        loan = lend(self._page, number, output.generation)
        dtype, table = output.unpack()
        rows = check_rows(table, dtype.itemsize, imported.buffer.nbytes, output.dense)
        lent = _LentMemory(imported, loan, self._closable)
        return partial(_tensors, lent, output, dtype, rows)

    def detach(self, slots: Sequence[int]) -> None:
        """Unmap slots that the server won't use again, as soon as no tensor lies in them; then notify the server."""
        for number in slots:
            imported = self._slots.pop(number, None)
            if imported is not None:
                imported.detached = True
                if not imported.loans:
                    self._closable.append(imported)
            elif number < len(self._page):
                self._page[number] = RETIRED  # it couldn't be mapped, so there is nothing to unmap
        self._close_unused()

    def close(self) -> None:
        """Unmap all slots that no tensor lies in."""
        self.detach(list(self._slots))

    def _attach(self, number: int, output: OutputBatch) -> _Imported:
        try:
            handle = BufferHandle.unpack(output.handle, output.nbytes)
        except ValueError as error:
            raise ProtocolError(f"a new CUDA slot came without its handles: {error}") from error
        return _Imported(number, ImportedBuffer(handle))

    def _close_unused(self) -> None:
        while self._closable:
            import torch

            imported = self._closable.popleft()
            torch.cuda.synchronize(imported.buffer.device_id)
            imported.buffer.close()
            self._page[imported.number] = RETIRED  # with generation 0: it is no longer mapped


def _tensors(
    lent: _LentMemory, output: OutputBatch, dtype: np.dtype[Any], rows: list[list[int]]
) -> torch.Tensor | list[torch.Tensor]:
    import torch

    memory = torch.as_tensor(lent, device=f"cuda:{lent.read_on_current_stream()}")
    torch_dtype = getattr(torch, dtype.name)
    tensors = []
    for offset, *shape in rows:
        nbytes = dtype.itemsize
        for length in shape:
            nbytes *= length
        tensors.append(memory[offset : offset + nbytes].view(torch_dtype).view(shape))
    return tensors[0] if output.dense else tensors


def local_tensors(output: TensorListGPU) -> torch.Tensor | list[torch.Tensor]:
    """Return torch tensors over a batch of this process. The current stream waits for the batch.

    When the last tensor is dropped, the batch's memory returns to the pool of the stream that produced it, and that
    stream waits for reads on the current stream. The same holds for streams whose memory the batch only forwards.
    """
    import torch

    cupy = load_cupy()
    device_id = output.device_id()
    reader = int(torch.cuda.current_stream(device_id).cuda_stream)
    arrays: list[Any] = [output.dense] if output.dense is not None else list(output.samples)
    with cupy.cuda.Device(device_id):
        ready = output.ready
        if not all(array.flags.c_contiguous for array in arrays):
            with output.stream:
                arrays = [cupy.ascontiguousarray(array) for array in arrays]
                ready = output.stream.record()
        if ready is not None:
            cupy.cuda.runtime.streamWaitEvent(reader, ready.ptr, 0)
    lease = Lease(partial(_give_back, output, arrays, reader, device_id))
    tensors = [
        torch.as_tensor(lease.view(array.data.ptr, array.shape, array.dtype, device_id), device=f"cuda:{device_id}")
        for array in arrays
    ]
    if output.dense is not None:
        return tensors[0]
    return torch.stack(tensors) if output.is_dense_tensor() else tensors


def _give_back(output: TensorListGPU, arrays: list[Any], reader: int, device_id: int) -> None:
    """Order the stream that produced a batch after its last reader. The memory is free when these arguments die."""
    pools = [stream for stream in (output.stream, *output.lenders) if stream is not None]
    if not pools:
        return
    cupy = load_cupy()
    with cupy.cuda.Device(device_id):
        event = cupy.cuda.Event(disable_timing=True)
        cupy.cuda.runtime.eventRecord(event.ptr, reader)
        for stream in pools:
            stream.wait_event(event)
