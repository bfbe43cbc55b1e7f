"""The consumer's side of results: torch tensors over the slots that the server lends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dali_proxy.transport.exchange import LocalExchange
from dali_proxy.transport.protocol import CUDA_SLOTS, OutputBatch, Result
from dali_proxy.transport.slot_view import SlotView
from pipeline.ipc.errors import ProtocolError
from pipeline.ipc.frames import close_all
from pipeline.tensors.cpu import TensorListCPU

if TYPE_CHECKING:
    import torch

    from dali_proxy.transport.cuda_view import CudaSlotView

__all__ = ["ResultOpener"]


class ResultOpener:
    """The consumer's side: makes torch tensors of what the server publishes. Used by one thread at a time.

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
        self._cuda: CudaSlotView | None = None
        self._cpu = SlotView(control_fds[0], control_nbytes, device_id)
        if len(control_fds) > 1:
            from dali_proxy.transport.cuda_view import CudaSlotView

            self._cuda = CudaSlotView(control_fds[1], control_nbytes)

    def open(self, result: Result, fds: Sequence[int] = ()) -> tuple[torch.Tensor | list[torch.Tensor], ...]:
        """Return each output: a tensor when it is dense, else the list of its samples' tensors.

        Nothing is copied. The tensors are the user's to keep and to write to; dropping them returns their memory.
        On a GPU, the current stream waits for the data; use on another stream must be ordered after it by the user.

        Args:
            result: a message that wasn't opened before.
            fds: its descriptors; owned from now on.

        Raises:
            ProtocolError: what the server says can't be.
        """
        left: Iterator[int] = iter(fds)
        try:
            self.detach(result.detached)
            return tuple([self._open(output, left) for output in result.outputs])
        finally:
            close_all(left)

    def open_batches(self, result: Result, fds: Sequence[int] = ()) -> list[TensorListCPU]:
        """Return each output as a batch on the CPU; as `open`, for whoever goes on computing with them."""
        left: Iterator[int] = iter(fds)
        try:
            self.detach(result.detached)
            return [self._cpu.open_batch(output, left) for output in result.outputs]
        finally:
            close_all(left)

    def detach(self, slots: Sequence[int]) -> None:
        """Unmap what a `SlotsDetached` message names; tensors over it stay valid."""
        self._cpu.detach([slot for slot in slots if slot < CUDA_SLOTS])
        if self._cuda is not None:
            self._cuda.detach([slot - CUDA_SLOTS for slot in slots if slot >= CUDA_SLOTS])

    def close(self) -> None:
        """Forget the server's memory. Tensors over it stay valid."""
        self._cpu.close()
        if self._cuda is not None:
            self._cuda.close()

    def _open(self, output: OutputBatch, fds: Iterator[int]) -> torch.Tensor | list[torch.Tensor]:
        import torch

        if output.device == "cpu":
            arrays = self._cpu.open(output, fds)
            if isinstance(arrays, list):
                return [torch.from_numpy(each) for each in arrays]
            tensor: torch.Tensor = torch.from_numpy(arrays)
            return tensor
        if output.device == "cuda" and self._cuda is not None:
            return self._cuda.open(output)
        if output.device == "local" and self._local is not None:
            from dali_proxy.transport.cuda_view import local_tensors

            return local_tensors(self._local.take(output.slot))
        raise ProtocolError(f"a result on {output.device!r} can't be opened here")
