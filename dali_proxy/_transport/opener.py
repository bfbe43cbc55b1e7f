"""The consumer's side of results: torch tensors over the slots that the server lends, made when they are taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from dali_proxy._transport.exchange import LocalExchange
from dali_proxy._transport.protocol import CUDA_SLOTS, OutputBatch, Result
from dali_proxy._transport.slot_view import SlotView
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._ipc.errors import ChannelClosedError, ProtocolError
from dali_proxy.pipeline._ipc.frames import close_all
from dali_proxy.pipeline.tensors.cpu import TensorListCPU

if TYPE_CHECKING:
    import torch

    from dali_proxy._transport.cuda_view import CudaSlotView

OutputFunction = Callable[[], "torch.Tensor | list[torch.Tensor]"]
"""Returns a tensor if the output is dense, else the list of its samples."""


class DeferredOutputs(Protocol):
    """Outputs of a batch that has arrived, or that the GPU is computing."""

    def tensors(self) -> tuple[Any, ...]:
        """Return the outputs: one tensor each, or a list of tensors where shapes differ.

        On a GPU, the stream that is current now waits for the data; the host doesn't.
        """


class OutputFunctions:
    """Deferred outputs, each with its own function.

    Args:
        functions: one function for each output.
    """

    def __init__(self, functions: Sequence[OutputFunction]) -> None:
        self._functions = functions

    def tensors(self) -> tuple[Any, ...]:
        """See `DeferredOutputs`."""
        return tuple([function() for function in self._functions])


def copied_from_cpu(output: Any) -> Any:
    """Return an output, one tensor or a list; copy its tensors on the CPU."""
    if isinstance(output, list):
        return [copied_from_cpu(sample) for sample in output]
    return output if output.is_cuda else output.clone()


def on_gpu(output: Any, device_id: int) -> Any:
    """Return an output, one tensor or a list; copy those of its tensors that lie on another GPU."""
    if isinstance(output, list):
        return [on_gpu(sample, device_id) for sample in output]
    if not output.is_cuda or output.device.index == device_id:
        return output
    return output.to(f"cuda:{device_id}", non_blocking=True)


T = TypeVar("T")

_CLOSED = "the connection to the server was closed before its result was opened"


class ResultOpener:
    """Opens published results as torch tensors.

    Only one thread at a time may use it; any thread and any finalizer may call `close`.

    Args:
        control_fds: descriptors that came with `Welcome`; this object owns them.
        control_nbytes: size of each control page.
        local: exchange with a server in this process.
        device_id: GPU that will copy from the server's memory, or None.

    Attributes:
        cpu: the slots on the CPU.
    """

    def __init__(
        self,
        control_fds: Sequence[int],
        control_nbytes: int,
        local: LocalExchange | None = None,
        device_id: int | None = None,
    ) -> None:
        self._local = local
        self._lock = new_lock(Level.RESULT_OPENER, "result opener")  # held while memory is mapped and lent
        self._closed = False
        self._cuda: CudaSlotView | None = None
        self.cpu = SlotView(control_fds[0], control_nbytes, device_id)
        if len(control_fds) > 1:
            from dali_proxy._transport.cuda_view import CudaSlotView

            self._cuda = CudaSlotView(control_fds[1], control_nbytes)

    def receive(self, result: Result, fds: Sequence[int] = ()) -> DeferredOutputs:
        """Map the outputs.

        The user may keep the tensors and write to them: nothing else ever changes them. Those on the CPU lie in the
        server's slots, which are lent until the tensors are dropped. Those on a GPU are memory of torch's caching
        allocator, and belong to the stream that is current when they are taken.

        Args:
            result: a message that wasn't opened before.
            fds: its descriptors; this object owns them.

        Raises:
            ChannelClosedError: `close` was called.
            ProtocolError: the message is invalid.
        """
        return OutputFunctions(self._open_all(result, fds, self._open))

    def open_batches(self, result: Result, fds: Sequence[int] = ()) -> list[TensorListCPU]:
        """Return each output as a batch on the CPU, for more operators; see `receive`."""
        return self._open_all(result, fds, self.cpu.open_batch)

    def open_prepared(self, result: Result, fds: Sequence[int] = ()) -> tuple[list[Any], list[bool]]:
        """Return each output, all on the CPU, as an array or as the list of its samples' arrays; see `receive`.

        Returns:
            The outputs, and for each of them whether its memory is registered with CUDA.
        """
        arrays = self._open_all(result, fds, self.cpu.open)
        return arrays, [self.cpu.is_pinned(output) for output in result.outputs]

    def detach(self, slots: Sequence[int]) -> None:
        """Unmap the slots of a `SlotsDetached` message. Tensors over them stay valid."""
        with suppress(ChannelClosedError), self._using():
            self._detach(slots)

    def close(self) -> None:
        """Unmap the server's memory. Tensors over it stay valid.

        Never waits: if another thread is opening a result, it finishes that and then unmaps the memory.
        """
        self._closed = True
        if not self._lock.acquire(blocking=False):
            return  # the holder of the lock unmaps the memory; it may be an outer call on this thread
        try:
            self.cpu.close()
            if self._cuda is not None:
                self._cuda.close()
        finally:
            self._lock.release()

    @contextmanager
    def _using(self) -> Iterator[None]:
        try:
            with self._lock:
                if self._closed:
                    raise ChannelClosedError(_CLOSED)
                yield
        finally:
            if self._closed:  # another thread called `close` meanwhile
                self.close()

    def _detach(self, slots: Sequence[int]) -> None:
        self.cpu.detach([slot for slot in slots if slot < CUDA_SLOTS])
        if self._cuda is not None:
            self._cuda.detach([slot - CUDA_SLOTS for slot in slots if slot >= CUDA_SLOTS])

    def _open_all(
        self, result: Result, fds: Sequence[int], opened: Callable[[OutputBatch, Iterator[int]], T]
    ) -> list[T]:
        """Open every output, even after one that fails: the server assumes that all are mapped here."""
        remaining: Iterator[int] = iter(fds)
        results: list[T] = []
        failed: Exception | None = None
        try:
            with self._lock:
                if self._closed:
                    raise ChannelClosedError(_CLOSED)
                if result.detached:
                    self._detach(result.detached)
                for output in result.outputs:
                    try:
                        results.append(opened(output, remaining))
                    except Exception as error:  # noqa: BLE001  # it is raised below
                        failed = failed or error
            if failed is not None:
                results = []  # the error refers to this frame and must not keep them alive
                raise failed
            return results
        finally:
            failed = None
            if fds:
                close_all(remaining)
            if self._closed:  # another thread called `close` meanwhile
                self.close()

    def _open(self, output: OutputBatch, fds: Iterator[int]) -> OutputFunction:
        if output.device == "cpu":
            return partial(host_tensors, self.cpu.open(output, fds))
        if output.device == "cuda" and self._cuda is not None:
            return self._cuda.receive(output)
        if output.device == "local" and self._local is not None:
            from dali_proxy.pipeline.tensors.torch_memory import owned_tensors

            return partial(owned_tensors, self._local.take(output.slot))
        raise ProtocolError(f"a result on {output.device!r} can't be opened here")


def host_tensors(arrays: npt.NDArray[Any] | list[npt.NDArray[Any]]) -> torch.Tensor | list[torch.Tensor]:
    """Return an array as a tensor over the same memory; a list of arrays as a list of tensors."""
    import torch

    if isinstance(arrays, np.ndarray):
        tensor: torch.Tensor = torch.from_numpy(arrays)
        return tensor
    return [torch.from_numpy(each) for each in arrays]
