"""Memory of torch's caching allocator: results on a GPU have it, and an executor of this process can use it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from dali_proxy.pipeline._cuda.errors import load_cupy
from dali_proxy.pipeline.errors import FrameworkArgumentError

if TYPE_CHECKING:
    from dali_proxy.pipeline.tensors.gpu import TensorListGPU

__all__ = ["TorchMemory", "arranged", "lent_tensors", "owned_tensors", "refuse_capture"]

_ROUNDED = 512  # bytes, as torch's allocator rounds


class _Block:
    """Owner of memory that `TorchMemory` has allocated. A tensor that the user has fed has no such owner."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


class TorchMemory:
    """Lets an executor of this process allocate from torch's caching allocator.

    The outputs of its batches then are torch's memory, which `owned_tensors` needn't copy.
    """

    def __init__(self) -> None:
        self._streams: dict[int, Any] = {}

    @contextmanager
    def on(self, stream: Any) -> Iterator[None]:
        """Let CuPy allocate from torch's pool of a stream, on this thread.

        Args:
            stream: the `cupy.cuda.Stream` that uses the memory first. Its GPU is the current device.
        """
        cuda = load_cupy().cuda
        device = torch.device("cuda", cuda.runtime.getDevice())
        torch_stream = self._streams.get(stream.ptr)
        if torch_stream is None:
            external: Any = torch.cuda.ExternalStream
            torch_stream = self._streams[stream.ptr] = external(stream.ptr, device=device)

        def allocate(nbytes: int) -> Any:
            try:
                # A multiple of all sizes of elements, so that `view` can change the dtype of a block.
                tensor = torch.empty(-(-nbytes // _ROUNDED) * _ROUNDED, dtype=torch.uint8, device=device)
            except torch.OutOfMemoryError as error:
                raise cuda.memory.OutOfMemoryError(nbytes, torch.cuda.memory_allocated(device)) from error
            memory = cuda.UnownedMemory(tensor.data_ptr(), nbytes, _Block(tensor), device.index)
            return cuda.MemoryPointer(memory, 0)

        # A loop in inference mode may run the batch on its own thread.
        with torch.inference_mode(False), torch.cuda.stream(torch_stream), cuda.using_allocator(allocate):
            yield

    def output_memory(self, nbytes: int) -> None:
        """Return None: outputs are in the memory of `on`."""


def refuse_capture() -> None:
    """Raise if the current stream is being captured into a CUDA graph.

    Raises:
        FrameworkArgumentError: it is.
    """
    if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():  # type: ignore[no-untyped-call]
        raise FrameworkArgumentError(
            "a batch can't be taken while the current stream is captured into a CUDA graph: each replay would read the "
            "memory of this batch again. Take the batch before the capture, copy it to a tensor that the graph reads, "
            "and copy each later batch to that tensor before you replay the graph"
        )


def arranged(memory: torch.Tensor, rows: Sequence[Sequence[int]], dense: bool) -> Any:
    """Return the tensors of an output that lie in one block.

    Args:
        memory: the block: contiguous, of the output's dtype.
        rows: offset in bytes and shape of each tensor.
        dense: whether the output is one tensor; otherwise the result is a list.
    """
    tensors = []
    for offset, *shape in rows:
        first = offset // memory.itemsize
        tensors.append(memory[first : first + math.prod(shape)].view(shape))
    return tensors[0] if dense else tensors


def owned_tensors(output: TensorListGPU) -> torch.Tensor | list[torch.Tensor]:
    """Return a batch of this process as tensors of torch's caching allocator. The current stream waits for the batch.

    Data that isn't in such memory already (see `TorchMemory`) is copied. Nothing else refers to the memory, so the
    tensors never change unless the user changes them.

    Returns:
        One tensor if the samples have one shape, else a list.
    """
    refuse_capture()
    with torch.inference_mode(False):
        tensors: torch.Tensor | list[torch.Tensor] | None = _tensors_in_blocks(output)
        if tensors is not None:
            return tensors
        with lent_tensors(output) as lent:
            return [tensor.clone() for tensor in lent] if isinstance(lent, list) else lent.clone()


@contextmanager
def lent_tensors(output: TensorListGPU) -> Iterator[torch.Tensor | list[torch.Tensor]]:
    """Yield tensors over the memory of a batch of this process, for work on the current stream.

    The current stream waits for the batch. At the end, the streams to whose pools the memory returns wait for the work
    that the current stream has been given.
    """
    cupy = load_cupy()
    device_id = output.device_id()
    reader = int(torch.cuda.current_stream(device_id).cuda_stream)
    arrays: list[Any] = [output.dense] if output.dense is not None else list(output.samples)
    with cupy.cuda.Device(device_id):
        _wait(output, reader)
        if not all(array.flags.c_contiguous for array in arrays):
            with output.stream:
                arrays = [cupy.ascontiguousarray(array) for array in arrays]
                cupy.cuda.runtime.streamWaitEvent(reader, output.stream.record().ptr, 0)
        tensors = [torch.as_tensor(array, device=f"cuda:{device_id}") for array in arrays]
        try:
            if output.dense is not None:
                yield tensors[0]
            else:
                yield torch.stack(tensors) if output.is_dense_tensor() else tensors
        finally:
            pools = [stream for stream in (output.stream, *output.lenders) if stream is not None]
            if pools:
                event = cupy.cuda.Event(disable_timing=True)
                cupy.cuda.runtime.eventRecord(event.ptr, reader)
                for stream in pools:
                    stream.wait_event(event)


def _wait(output: TensorListGPU, reader: int) -> None:
    if output.ready is not None:
        load_cupy().cuda.runtime.streamWaitEvent(reader, output.ready.ptr, 0)


def _tensors_in_blocks(output: TensorListGPU) -> Any:
    """Return the tensors of a batch in memory of `TorchMemory`, without a copy; None if it isn't in such memory."""
    dense = output.dense
    arrays: Sequence[Any] = [dense] if dense is not None else output.samples
    tensors = []
    blocks: dict[int, torch.Tensor] = {}
    for array in arrays:
        block = _block_of(array)
        if block is None or not array.flags.c_contiguous:
            return None
        blocks[id(block)] = block
        memory = block.view(getattr(torch, array.dtype.name))
        tensors.append(arranged(memory, [(array.data.ptr - block.data_ptr(), *array.shape)], True))
    device_id = output.device_id()
    current = torch.cuda.current_stream(device_id)
    with load_cupy().cuda.Device(device_id):
        _wait(output, current.cuda_stream)
    for block in blocks.values():
        block.record_stream(current)
    if dense is not None:
        return tensors[0]
    return torch.stack(tensors) if output.is_dense_tensor() else tensors


def _block_of(array: Any) -> torch.Tensor | None:
    """Return the memory of `TorchMemory` that an array lies in, or None."""
    owner = array.data
    while owner is not None:
        if isinstance(owner, _Block):
            return owner.tensor
        owner = getattr(owner, "mem", None) or getattr(owner, "_owner", None)
    return None
