"""The consumer's side of result slots on the CPU: arrays over them, which return their slot when they die."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy._transport.fields import unpack_table
from dali_proxy._transport.protocol import OutputBatch
from dali_proxy._transport.slots import RETIRED
from dali_proxy.pipeline._bulk.buffer_pool import lent_array
from dali_proxy.pipeline._concurrency.forking import forks
from dali_proxy.pipeline._cuda.pinned import PinnedMemory
from dali_proxy.pipeline._ipc.arena_reader import fits_numpy, is_numpy_shape
from dali_proxy.pipeline._ipc.block_allocator import compiled
from dali_proxy.pipeline._ipc.errors import ProtocolError
from dali_proxy.pipeline._ipc.frames import close_all
from dali_proxy.pipeline._ipc.memory import SharedBlock
from dali_proxy.pipeline._kernels.samples import Samples, contiguous_strides
from dali_proxy.pipeline.tensors.cpu import TensorListCPU

_order = threading.Lock()
_MOST_LENT = 128  # slots
_WORTH_PINNING = 1 << 16  # bytes; smaller slots hold arguments, which the GPU doesn't copy from there


class _Loan:
    """A slot on loan while tensors over it live. Its finalizer returns the slot with one byte store.

    A child process that was forked meanwhile has the tensors, too. It must not return the slot. When the parent returns
    it, the child may still read, so the memory is retired instead of reused. loan.h has the same class in C: in Python,
    a signal handler that raises in the finalizer would lose the slot.
    """

    __slots__ = ("_forked", "_forks", "_generation", "_number", "_page", "_pid", "_retired")

    def __init__(
        self, page: npt.NDArray[np.uint8], number: int, generation: int, forks: list[None], retired: int
    ) -> None:
        self._page = page
        self._number = number
        self._generation = generation
        self._forks = forks
        self._retired = retired
        self._forked = len(forks)
        self._pid = os.getpid()

    @property
    def ours(self) -> bool:
        """Whether this process borrowed the slot; False in a forked child."""
        return os.getpid() == self._pid

    def __del__(self, getpid: Callable[[], int] = os.getpid, order: Any = _order) -> None:
        # The arguments are bound here: globals are gone at interpreter exit.
        if getpid() == self._pid:
            for _ in range(2):  # releasing and acquiring a lock keeps reads before the store, even on ARM
                if order.acquire(blocking=False):
                    order.release()
            self._page[self._number] = self._generation | (self._retired if len(self._forks) != self._forked else 0)


make_loan: Any = _Loan if compiled is None else compiled.Loan
"""``make_loan(page, number, generation, forks, RETIRED)`` returns a loan of a slot, which ends when the object dies.

Its attribute `ours` is False in a forked child.
"""


class SlotView:
    """Maps the slots that a server lends to this process.

    Args:
        control_fd: descriptor of the control page; this object owns it.
        control_nbytes: size of the control page.
        device_id: GPU that will copy from the slots, which are pinned for it; or None.
    """

    def __init__(self, control_fd: int, control_nbytes: int, device_id: int | None = None) -> None:
        control = SharedBlock.attach(control_fd, control_nbytes)
        #: The control page: a byte for each slot.
        self.page = control.array
        control.close()
        self._mappings: dict[int, npt.NDArray[np.uint8] | None] = {}  # None: mapped for one loan at a time
        self._device_id = device_id
        self._pinned: dict[int, PinnedMemory | None] = {}

    def open(self, output: OutputBatch, fds: Iterator[int]) -> npt.NDArray[Any] | list[npt.NDArray[Any]]:
        """Return the array of a dense output, or the list of its samples. The slot stays on loan while they live.

        Args:
            output: description of a loan that wasn't opened before.
            fds: descriptors that came with the message; a new slot uses one.

        Raises:
            ProtocolError: the description is invalid.
        """
        memory = self._lent(output, fds)
        dtype, table = unpack_table(output.dtype, 1 + output.ndim, output.table)
        rows = check_rows(table, dtype.itemsize, len(memory), output.dense)
        if output.dense:
            dense: npt.NDArray[Any] = np.ndarray(rows[0][1:], dtype, buffer=memory, offset=rows[0][0])
            return dense
        return [np.ndarray(row[1:], dtype, buffer=memory, offset=row[0]) for row in rows]

    def open_batch(self, output: OutputBatch, fds: Iterator[int]) -> TensorListCPU:
        """Return an output as a batch, without work for each sample; see `open`."""
        memory = self._lent(output, fds)
        dtype, table = unpack_table(output.dtype, 1 + output.ndim, output.table)
        rows = check_rows(table, dtype.itemsize, len(memory), output.dense)
        if output.dense:
            ((offset, *shape),) = rows
            batch = TensorListCPU(np.ndarray(shape, dtype, buffer=memory, offset=offset), output.layout)
        else:
            shapes = np.ascontiguousarray(table[:, 1:])
            pointers = memory.ctypes.data + table[:, 0]
            samples = Samples(pointers, shapes, contiguous_strides(shapes, dtype.itemsize), dtype)
            batch = TensorListCPU.from_table(samples, [memory], layout=output.layout)
        batch.pinned = self.is_pinned(output)
        return batch

    def is_pinned(self, output: OutputBatch) -> bool:
        """Return whether the memory of an output is registered with CUDA."""
        return not output.private and self._pinned.get(output.slot) is not None

    @property
    def lends_many(self) -> bool:
        """Whether the process holds so many slots that it should copy further results, and return their slots.

        Each slot costs the server a descriptor.
        """
        if len(self._mappings) <= _MOST_LENT:
            return False
        return int(np.count_nonzero(self.page[list(self._mappings)] == 0)) > _MOST_LENT

    def _lent(self, output: OutputBatch, fds: Iterator[int]) -> npt.NDArray[np.uint8]:
        """Return a slot's memory, lent until the last array over it dies."""
        fd = next(fds, -1) if output.attach else -1  # always removed: the next one is the next output's
        if output.slot >= len(self.page) or output.generation >= RETIRED:
            close_all([fd] if fd >= 0 else [])
            raise ProtocolError(f"there is no slot {output.slot} of generation {output.generation}")
        try:
            mapping: npt.NDArray[np.uint8] | None
            if output.private:
                mapping = self._map_privately(output, fd)
            else:
                if output.attach:
                    self._attach(output, fd)
                mapping = self._mappings.get(output.slot)
            if mapping is None:
                raise ProtocolError(f"slot {output.slot} is not attached")
        except BaseException:  # the server assumes that the slot is mapped here: make it give up the slot
            self.page[output.slot] = output.generation | RETIRED
            raise
        return lent_array(mapping, make_loan(self.page, output.slot, output.generation, forks, RETIRED))

    def _attach(self, output: OutputBatch, fd: int) -> None:
        self.detach([output.slot])  # an older slot of this number
        self._map(output.slot, _mapped(output, fd))

    def _map_privately(self, output: OutputBatch, fd: int) -> npt.NDArray[np.uint8]:
        """Return a slot's memory that other processes have, too; nobody sees what is written to it here."""
        self._mappings.setdefault(output.slot, None)
        return _mapped(output, fd, private=True)

    def _map(self, slot: int, memory: npt.NDArray[np.uint8]) -> None:
        pinned = None
        if self._device_id is not None and memory.nbytes >= _WORTH_PINNING:
            pinned = PinnedMemory.from_memory(memory, self._device_id)
        self._pinned[slot] = pinned
        self._mappings[slot] = memory if pinned is None else np.asarray(pinned)

    def detach(self, slots: Sequence[int]) -> None:
        """Unmap slots that the server won't use again. Arrays over them stay valid."""
        for slot in slots:
            self._mappings.pop(slot, None)
            self._pinned.pop(slot, None)

    def close(self) -> None:
        """Unmap all slots. Arrays over them stay valid."""
        self._mappings.clear()
        self._pinned.clear()


def _mapped(output: OutputBatch, fd: int, private: bool = False) -> npt.NDArray[np.uint8]:
    """Return the memory of a descriptor, which this function owns."""
    if fd < 0:
        raise ProtocolError("a new slot came without its descriptor")
    block = SharedBlock.attach(fd, output.nbytes, private=private)
    memory = block.array
    block.close()
    return memory


def check_rows(table: npt.NDArray[np.int64], itemsize: int, nbytes: int, dense: bool) -> list[list[int]]:
    """Return the rows ``offset, *shape`` of a table, after a check that all arrays lie inside of `nbytes` bytes.

    Raises:
        ProtocolError: an array doesn't, or a dense output has more than one row.
    """
    rows: list[list[int]] = table.tolist()
    if len(rows) == 1:  # for example a dense output; Python is faster and exact
        offset, *shape = rows[0]
        size = math.prod(shape)
        is_good = min(rows[0]) >= 0 and not offset % itemsize and offset + size * itemsize <= nbytes
        if not is_good or (size == 0 and not is_numpy_shape(shape)):
            raise ProtocolError("an array of a result isn't in its slot")
        return rows
    offsets, shapes = table[:, 0], table[:, 1:]
    ends = np.prod(shapes, axis=1, dtype=np.float64) * itemsize + offsets  # float64 can't wrap around
    good = (offsets >= 0) & (offsets % itemsize == 0) & (ends <= nbytes) & fits_numpy(shapes)
    if not good.all() or dense:
        raise ProtocolError("an array of a result isn't in its slot")
    return rows
