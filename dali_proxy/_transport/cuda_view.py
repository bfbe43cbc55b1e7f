"""The consumer's side of result slots on a GPU: torch tensors with a copy of the server's memory."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dali_proxy._transport.fields import unpack_table
from dali_proxy._transport.protocol import CUDA_SLOTS, OutputBatch
from dali_proxy._transport.slot_view import check_rows, make_loan
from dali_proxy._transport.slots import RETIRED
from dali_proxy.pipeline._concurrency.forking import forks
from dali_proxy.pipeline._cuda.errors import cuda_call, load_cupy
from dali_proxy.pipeline._cuda.ipc import BufferHandle, ImportedBuffer
from dali_proxy.pipeline._ipc.errors import ProtocolError
from dali_proxy.pipeline._ipc.memory import SharedBlock
from dali_proxy.pipeline._ipc.signals import finalizer

if TYPE_CHECKING:
    import torch


class _Imported:
    """A slot that is mapped here, and the number of its outputs that are neither copied nor dropped."""

    __slots__ = ("buffer", "detached", "loans", "number")

    def __init__(self, number: int, buffer: ImportedBuffer) -> None:
        self.number = number
        self.buffer = buffer
        self.loans = 0
        self.detached = False


class _Arrived:
    """An output in a slot. When it dies, the server may reuse the slot as soon as the recorded copy is done."""

    __slots__ = ("_closable", "_loan", "imported")

    def __init__(self, imported: _Imported, loan: Any, closable: deque[_Imported]) -> None:
        self.imported = imported
        self._loan = loan
        self._closable = closable
        imported.loans += 1

    @finalizer
    def __del__(self) -> None:
        if not self._loan.ours:
            return
        self.imported.loans -= 1
        if self.imported.detached and not self.imported.loans:
            self._closable.append(self.imported)  # closing may wait for the GPU, which a finalizer must not do
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

        The data is complete: the server has waited for its GPU. The function copies it into memory of torch's caching
        allocator, on the stream that is current when it is called. The slot may be reused when the copy is done.

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
        loan = make_loan(self._page, number, output.generation, forks, RETIRED)
        dtype, table = unpack_table(output.dtype, 1 + output.ndim, output.table)
        rows = check_rows(table, dtype.itemsize, imported.buffer.nbytes, output.dense)
        return _Output(_Arrived(imported, loan, self._closable), dtype, rows, output.dense)

    def detach(self, slots: Sequence[int]) -> None:
        """Unmap slots that the server won't use again, as soon as they are copied; then notify the server."""
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
        """Unmap all slots that are copied."""
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


class _Output:
    """An output that has arrived. The first call copies it, after which its slot returns to the server."""

    __slots__ = ("_arrived", "_dense", "_dtype", "_rows", "_tensors")

    def __init__(self, arrived: _Arrived, dtype: np.dtype[Any], rows: list[list[int]], dense: bool) -> None:
        self._arrived: _Arrived | None = arrived
        self._dtype, self._rows, self._dense = dtype, rows, dense
        self._tensors: torch.Tensor | list[torch.Tensor] = []

    def __call__(self) -> torch.Tensor | list[torch.Tensor]:
        if self._arrived is not None:  # a call that fails, for lack of memory, can be repeated
            self._tensors = self._copied(self._arrived.imported.buffer)
            self._arrived = None
        return self._tensors

    def _copied(self, buffer: ImportedBuffer) -> torch.Tensor | list[torch.Tensor]:
        import torch

        from dali_proxy.pipeline.tensors.torch_memory import arranged, refuse_capture

        refuse_capture()
        device, itemsize = torch.device("cuda", buffer.device_id), self._dtype.itemsize
        end = max([row[0] + itemsize * math.prod(row[1:]) for row in self._rows], default=0)
        with torch.inference_mode(False):
            memory = torch.empty(-(-end // itemsize), dtype=getattr(torch, self._dtype.name), device=device)
            tensors: torch.Tensor | list[torch.Tensor] = arranged(memory, self._rows, self._dense)
        if end:
            stream = int(torch.cuda.current_stream(device).cuda_stream)
            runtime = load_cupy().cuda.runtime
            with cuda_call("copying a result from the server's memory"):
                runtime.memcpyAsync(memory.data_ptr(), buffer.pointer, end, runtime.memcpyDeviceToDevice, stream)
            buffer.record_free(stream)
        return tensors
