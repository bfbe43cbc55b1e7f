"""The consumer's side of results: torch tensors over the slots that the server lends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from dali_proxy._transport.exchange import LocalExchange
from dali_proxy._transport.protocol import CUDA_SLOTS, OutputBatch, Result
from dali_proxy._transport.slot_view import SlotView
from pipeline._ipc.errors import ChannelClosedError, ProtocolError
from pipeline._ipc.frames import close_all
from pipeline.tensors.cpu import TensorListCPU

if TYPE_CHECKING:
    import torch

    from dali_proxy._transport.cuda_view import CudaSlotView

__all__ = ["Opened", "ResultOpener", "host_tensors"]

T = TypeVar("T")
Take = Callable[[], "torch.Tensor | list[torch.Tensor]"]


class Opened:
    """The outputs of a result, mapped and lent to this process.

    Args:
        takes: of each output, makes a tensor when it is dense, else the list of its samples' tensors.
    """

    def __init__(self, takes: Sequence[Take]) -> None:
        self._takes = takes

    def tensors(self) -> tuple[Any, ...]:
        """Return the outputs. On a GPU, the stream that is current now waits for the data."""
        return tuple(take() for take in self._takes)


class ResultOpener:
    """The consumer's side: makes torch tensors of what the server publishes.

    Used by one thread at a time; `close` may come from any other, and from finalizers.

    Args:
        control_fds: descriptors that came with `Welcome`; owned from now on.
        control_nbytes: size of each control page.
        local: the server's, when it runs in this process.
        device_id: a GPU that will copy from the server's memory, or None.
    """

    def __init__(
        self,
        control_fds: Sequence[int],
        control_nbytes: int,
        local: LocalExchange | None = None,
        device_id: int | None = None,
    ) -> None:
        self._local = local
        self._lock = threading.Lock()  # held while memory is mapped and lent
        self._closed = False
        self._cuda: CudaSlotView | None = None
        self._cpu = SlotView(control_fds[0], control_nbytes, device_id)
        if len(control_fds) > 1:
            from dali_proxy._transport.cuda_view import CudaSlotView

            self._cuda = CudaSlotView(control_fds[1], control_nbytes)

    def open(self, result: Result, fds: Sequence[int] = ()) -> tuple[torch.Tensor | list[torch.Tensor], ...]:
        """Return each output; as `receive`, for whoever wants it now."""
        return self.receive(result, fds).tensors()

    def receive(self, result: Result, fds: Sequence[int] = ()) -> Opened:
        """Map the outputs.

        Nothing is copied. The tensors are the user's to keep and to write to; dropping them returns their memory.
        On a GPU, the stream on which they are taken waits for the data; use on another stream must be ordered after it
        by the user.

        Args:
            result: a message that wasn't opened before.
            fds: its descriptors; owned from now on.

        Raises:
            ChannelClosedError: this was closed.
            ProtocolError: what the server says can't be.
        """
        return Opened(self._open_all(result, fds, self._open))

    def open_batches(self, result: Result, fds: Sequence[int] = ()) -> list[TensorListCPU]:
        """Return each output as a batch on the CPU; as `open`, for whoever goes on computing with them."""
        return self._open_all(result, fds, self._cpu.open_batch)

    def open_prepared(self, result: Result, fds: Sequence[int] = ()) -> tuple[list[Any], bool]:
        """Return each output, all on the CPU, as an array or the list of its samples' arrays; as `open`.

        Returns:
            The outputs, and whether the memory of the first one is registered with CUDA.
        """
        made = self._open_all(result, fds, self._cpu.open)
        return made, bool(result.outputs) and self._cpu.is_pinned(result.outputs[0].slot)

    def detach(self, slots: Sequence[int]) -> None:
        """Unmap what a `SlotsDetached` message names; tensors over it stay valid."""
        with suppress(ChannelClosedError), self._using():
            self._detach(slots)

    def close(self) -> None:
        """Forget the server's memory. Tensors over it stay valid.

        Never waits: if a result is just being opened, it is opened as a whole, and the memory forgotten after it.
        """
        self._closed = True
        if not self._lock.acquire(blocking=False):
            return  # who holds it closes, and may be below us on this thread's own stack
        try:
            self._cpu.close()
            if self._cuda is not None:
                self._cuda.close()
        finally:
            self._lock.release()

    @contextmanager
    def _using(self) -> Iterator[None]:
        try:
            with self._lock:
                if self._closed:
                    raise ChannelClosedError("the connection to the server was closed before its result was opened")
                yield
        finally:
            if self._closed:  # meanwhile
                self.close()

    def _detach(self, slots: Sequence[int]) -> None:
        self._cpu.detach([slot for slot in slots if slot < CUDA_SLOTS])
        if self._cuda is not None:
            self._cuda.detach([slot - CUDA_SLOTS for slot in slots if slot >= CUDA_SLOTS])

    def _open_all(
        self, result: Result, fds: Sequence[int], opened: Callable[[OutputBatch, Iterator[int]], T]
    ) -> list[T]:
        """Open every output, those after one that fails, too: the server counts on it that they are mapped here."""
        left: Iterator[int] = iter(fds)
        made: list[T] = []
        failed: Exception | None = None
        try:
            with self._using():
                self._detach(result.detached)
                for output in result.outputs:
                    try:
                        made.append(opened(output, left))
                    except Exception as error:  # noqa: BLE001  # it is raised below
                        failed = failed or error
            if failed is not None:
                made = []  # the error refers to this frame, and must not keep them
                raise failed
            return made
        finally:
            failed = None
            close_all(left)

    def _open(self, output: OutputBatch, fds: Iterator[int]) -> Take:
        if output.device == "cpu":
            return partial(host_tensors, self._cpu.open(output, fds))
        if output.device == "cuda" and self._cuda is not None:
            return self._cuda.receive(output)
        if output.device == "local" and self._local is not None:
            from dali_proxy._transport.cuda_view import local_tensors

            return partial(local_tensors, self._local.take(output.slot))
        raise ProtocolError(f"a result on {output.device!r} can't be opened here")


def host_tensors(arrays: npt.NDArray[Any] | list[npt.NDArray[Any]]) -> torch.Tensor | list[torch.Tensor]:
    """Return an array as a tensor over the same memory, and a list of them as a list."""
    import torch

    if isinstance(arrays, np.ndarray):
        tensor: torch.Tensor = torch.from_numpy(arrays)
        return tensor
    return [torch.from_numpy(each) for each in arrays]
