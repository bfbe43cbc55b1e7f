"""Issuing of prepared batches on a GPU: one copy, one launch, and an event that only the GPU waits for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dali_proxy._consumer.copy_sources import CopySources
from dali_proxy._consumer.side_stream import Event, SideStream, Stream
from dali_proxy._transport.opener import host_tensors
from dali_proxy._transport.prepared import Launched, Prepared, PreparedOutput
from dali_proxy._transport.protocol import unpacked
from dali_proxy._transport.slot_view import check_rows
from pipeline._bulk.buffer_pool import buffer_size
from pipeline._concurrency.cost import Cost, spent
from pipeline._concurrency.locks import Level, new_rlock
from pipeline._ipc.errors import ProtocolError
from pipeline._kernels.evaluate import evaluation_defines
from pipeline.tensors.cpu import Array

if TYPE_CHECKING:
    import torch

__all__ = ["IssuedOutputs", "Launcher"]


class IssuedOutputs:
    """The outputs of a batch that the GPU may still be computing: the caller's stream waits for them, not the host.

    Args:
        outputs: one tensor for each output that is one array, else a list of tensors.
        memories: memory of the tensors on the GPU.
        event: event after the tensors on the GPU are written; None without such tensors.
        stream: stream that writes the tensors on the GPU.
    """

    def __init__(
        self, outputs: tuple[Any, ...], memories: Sequence[torch.Tensor], event: Event | None, stream: Stream | None
    ) -> None:
        self._outputs = outputs
        self._memories = memories
        self._event = event
        self._stream = stream

    def tensors(self) -> tuple[Any, ...]:
        """See `DeferredOutputs`."""
        if self._event is not None:
            assert self._stream is not None  # it recorded the event
            self._stream.block_current(self._event, self._memories)
        return self._outputs


class Launcher:
    """Issues batches, one after the other. Thread-safe.

    The server has computed all parameters of the batches and samples. The slot of a batch returns to the server after
    the copy has ended: the next `issue` or `release_finished` releases it.

    Args:
        device_id: number of the GPU; None if all outputs are on the CPU.
        open_stream: opens a stream of the GPU.

    Raises:
        DeviceError: the GPU is missing.

    Attributes:
        batches: number of issued batches.
        cost: time that the threads of this process spent on issuing.
    """

    def __init__(self, device_id: int | None, open_stream: Callable[[int], Stream] = SideStream) -> None:
        self._stream = None if device_id is None else open_stream(device_id)
        self._lock = new_rlock(Level.LAUNCHER, "launcher")  # a signal handler that closes may interrupt its holder
        self._sources = CopySources()  # slots and bounce buffers
        self.batches = 0
        self.cost = Cost()

    def issue(self, prepared: Prepared, arrays: Sequence[Array | list[Array]], pinned: bool) -> IssuedOutputs:
        """Issue a batch, without waiting for the GPU.

        Args:
            prepared: description of the copies and launches.
            arrays: arrays of the message: the block, if any, and the outputs on the CPU.
            pinned: whether the block is registered with CUDA.

        Raises:
            ProtocolError: the server's message is inconsistent.
            CudaError: CUDA failed.
        """
        with self._lock:
            return self._issue(prepared, arrays, pinned)

    def release_finished(self) -> None:
        """Release the memory that the GPU has read. A thread that is issuing a batch does this itself."""
        if self._lock.acquire(blocking=False):
            try:
                self._sources.release_finished()
            finally:
                self._lock.release()

    def close(self) -> None:
        """Wait for all issued copies and release their memory."""
        with self._lock:
            self._sources.wait()
            if self._stream is not None:
                self._stream.close()

    def _issue(self, prepared: Prepared, arrays: Sequence[Array | list[Array]], pinned: bool) -> IssuedOutputs:
        begin = spent()
        self._sources.release_finished()
        on_cpu = prepared.outputs.count(None)
        blocks, rest = arrays[: len(arrays) - on_cpu], iter(arrays[len(arrays) - on_cpu :])
        launched: list[Any] = []
        memories: list[torch.Tensor] = []
        event = None
        if len(blocks) == 1 and self._stream is not None and isinstance(blocks[0], np.ndarray):
            with self._stream.active():
                launched, memories, event = self._issue_block(self._stream, prepared, blocks[0], pinned)
        elif blocks or on_cpu != len(prepared.outputs):
            raise ProtocolError(
                "a prepared batch has no block, or more than one, or needs a GPU that the pipeline doesn't have"
            )
        on_gpu = iter(launched)
        outputs = tuple(host_tensors(next(rest)) if output is None else next(on_gpu) for output in prepared.outputs)
        self.batches += 1
        self.cost = self.cost.plus(spent().minus(begin))
        return IssuedOutputs(outputs, memories, event, self._stream)

    def _issue_block(
        self, stream: Stream, prepared: Prepared, block: npt.NDArray[np.uint8], pinned: bool
    ) -> tuple[list[Any], list[torch.Tensor], Event]:
        import torch

        outputs = [output for output in prepared.outputs if output is not None]
        _check(prepared, outputs, block.nbytes)
        shaped = [_Shaped(output, stream) for output in outputs]
        launches = [(output.launch, each) for output, each in zip(outputs, shaped, strict=True) if output.launch]
        held: Any = block
        source = _address(block)
        if launches:
            # Sizes are rounded to a few values, so that the allocator can reuse memory of earlier batches.
            copied = stream.empty((buffer_size(prepared.launched_nbytes),), torch.uint8)
            for launch, each in launches:
                _addresses(block, launch, 0)[:] += each.memory.data_ptr()
                _addresses(block, launch, launch.source_offset)[:] += copied.data_ptr()
        try:
            if not pinned:
                bounced = stream.bounce(block.nbytes)
                bounced.numpy()[:] = block
                held, source = bounced, bounced.data_ptr()
            if launches:
                stream.copy(copied.data_ptr(), source, prepared.launched_nbytes)
            for output, each in zip(outputs, shaped, strict=True):
                if output.launch is None and output.nbytes:
                    stream.copy(each.memory.data_ptr(), source + output.copied, output.nbytes)
            for launch, _ in launches:
                defines = evaluation_defines(launch.expression, launch.row_bytes)
                stream.launch(defines, copied.data_ptr() + launch.images, (launch.blocks, launch.count))
        except BaseException:
            with suppress(Exception):  # the first error says more
                self._sources.hold(stream, held)
            raise
        event = self._sources.hold(stream, held)
        return [each.tensors for each in shaped], [each.memory for each in shaped], event


class _Shaped:
    """Memory of an output on the GPU, and its tensors."""

    __slots__ = ("memory", "tensors")

    def __init__(self, output: PreparedOutput, stream: Stream) -> None:
        import torch

        dtype, table = unpacked(output)
        rows = check_rows(table, dtype.itemsize, output.nbytes, output.dense)
        torch_dtype = getattr(torch, output.dtype)
        self.tensors: Any
        if output.dense:
            self.memory = self.tensors = stream.empty(rows[0][1:], torch_dtype)
            if self.memory.nbytes != output.nbytes:
                raise ProtocolError(f"an output of {self.memory.nbytes} bytes comes as {output.nbytes}")
            return
        itemsize = dtype.itemsize
        self.memory = stream.empty((-(-output.nbytes // itemsize),), torch_dtype)
        sizes = table[:, 1:].prod(axis=1).tolist()
        self.tensors = [
            self.memory[row[0] // itemsize :][:size].view(row[1:]) for row, size in zip(rows, sizes, strict=True)
        ]


def _addresses(block: npt.NDArray[np.uint8], launch: Launched, offset: int) -> npt.NDArray[np.int64]:
    """Return the addresses at an offset in all rows of a launch's table."""
    addresses: npt.NDArray[np.int64] = np.ndarray(
        (launch.count,), np.int64, block, launch.images + offset, (launch.row_bytes,)
    )
    return addresses


def _check(prepared: Prepared, outputs: Sequence[PreparedOutput], nbytes: int) -> None:
    """Check that all data lie in the block, and all data for launches in the copied section of the block.

    Raises:
        ProtocolError: an offset is out of range.
    """
    good = bool(outputs) and prepared.launched_nbytes <= nbytes
    for output in outputs:
        launch = output.launch
        if launch is None:
            good &= output.copied + output.nbytes <= nbytes
        else:
            end = launch.images + launch.count * launch.row_bytes
            good &= end <= prepared.launched_nbytes and launch.images % 8 == launch.row_bytes % 8 == 0
            good &= launch.source_offset % 8 == 0 and 8 <= launch.source_offset <= launch.row_bytes - 8
            good &= 0 < launch.count <= 65535 and launch.blocks > 0
    if not good:
        raise ProtocolError("the data of a prepared batch isn't in its block")


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])  # `array.ctypes` takes ten times as long
