"""Issuing of prepared batches on a GPU: copies, launches, and an event that only the GPU waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from dali_proxy._consumer.copy_sources import CopySources
from dali_proxy._consumer.side_stream import Event, SideStream, Stream
from dali_proxy._transport.fields import unpack_table
from dali_proxy._transport.opener import host_tensors
from dali_proxy._transport.prepared import Launched, Prepared, PreparedOutput
from dali_proxy._transport.slot_view import check_rows
from dali_proxy.pipeline._bulk.buffer_pool import buffer_size
from dali_proxy.pipeline._concurrency.cost import Cost, spent
from dali_proxy.pipeline._concurrency.locks import Level, new_rlock
from dali_proxy.pipeline._ipc.errors import ProtocolError
from dali_proxy.pipeline._kernels.evaluate import evaluation_defines
from dali_proxy.pipeline.tensors.cpu import Array

if TYPE_CHECKING:
    import torch

#: An array of a message, and whether its memory is registered with CUDA.
_Source: TypeAlias = tuple[Any, bool]
#: An output on the GPU, and what its launch reads or its copy copies.
_Output: TypeAlias = tuple[PreparedOutput, _Source]


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

    def issue(self, prepared: Prepared, arrays: Sequence[Array | list[Array]], pinned: Sequence[bool]) -> IssuedOutputs:
        """Issue a batch, without waiting for the GPU.

        Args:
            prepared: description of the copies and launches.
            arrays: arrays of the message: the block, if any, and the outputs that no launch computes.
            pinned: for each array, whether its memory is registered with CUDA.

        Raises:
            ProtocolError: the server's message is inconsistent.
            CudaError: CUDA failed.
        """
        with self._lock:
            begin = spent()
            self._sources.release_finished()
            issued = self._issue(prepared, list(zip(arrays, pinned, strict=True)))
            self.batches += 1
            self.cost = self.cost.plus(spent().minus(begin))
            return issued

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

    def _issue(self, prepared: Prepared, arrays: Sequence[_Source]) -> IssuedOutputs:
        is_launched = any(output is not None and output.launch is not None for output in prepared.outputs)
        block = arrays[0] if is_launched and arrays else None
        rest = iter(arrays[is_launched:])
        sources = [block if output and output.launch else next(rest, None) for output in prepared.outputs]
        if None in sources or next(rest, None) is not None:
            raise ProtocolError("a prepared batch has too few arrays, or too many")
        on_gpu = [(output, source) for output, source in zip(prepared.outputs, sources, strict=True) if output]
        issued: Iterator[Any] = iter(())
        memories: list[torch.Tensor] = []
        event = None
        if on_gpu:
            if self._stream is None:
                raise ProtocolError("a prepared batch needs a GPU, but the pipeline has none")
            with self._stream.active():
                shaped, event = self._issue_on_gpu(self._stream, block, cast("list[_Output]", on_gpu))
            issued, memories = iter([each.tensors for each in shaped]), [each.memory for each in shaped]
        outputs = tuple(
            next(issued) if output else host_tensors(cast("_Source", source)[0])
            for output, source in zip(prepared.outputs, sources, strict=True)
        )
        return IssuedOutputs(outputs, memories, event, self._stream)

    def _issue_on_gpu(
        self, stream: Stream, block: _Source | None, outputs: Sequence[_Output]
    ) -> tuple[list[_Shaped], Event]:
        import torch

        for output, (array, _) in outputs:
            _check(output, array)
        shaped = [_Shaped(output, stream) for output, _ in outputs]
        launches = [(output.launch, each) for (output, _), each in zip(outputs, shaped, strict=True) if output.launch]
        held: list[Any] = []
        copied = None
        try:
            if block is not None:
                # Sizes are rounded to a few values, so that the allocator can reuse memory of earlier batches.
                copied = stream.empty((buffer_size(block[0].nbytes),), torch.uint8)
                for launch, each in launches:
                    _addresses(block[0], launch, 0)[:] += each.memory.data_ptr()
                    for offset in launch.source_offsets:
                        _addresses(block[0], launch, offset)[:] += copied.data_ptr()
                _copy(stream, copied, block, held)
            for (output, source), each in zip(outputs, shaped, strict=True):
                if output.launch is None and output.nbytes:
                    _copy(stream, each.memory, source, held)
            for launch, _ in launches:
                assert copied is not None  # there is a block for launches
                defines = evaluation_defines(launch.expression, launch.row_bytes)
                stream.launch(defines, copied.data_ptr() + launch.images, (launch.blocks, launch.count))
        except BaseException:
            with suppress(Exception):  # the first error says more
                self._sources.hold(stream, held)
            raise
        return shaped, self._sources.hold(stream, held)


class _Shaped:
    """Memory of an output on the GPU, and its tensors."""

    __slots__ = ("memory", "tensors")

    def __init__(self, output: PreparedOutput, stream: Stream) -> None:
        import torch

        from dali_proxy.pipeline.tensors.torch_memory import arranged

        dtype, table = unpack_table(output.dtype, 1 + output.ndim, output.table)
        rows = check_rows(table, dtype.itemsize, output.nbytes, output.dense)
        self.memory = stream.empty((-(-output.nbytes // dtype.itemsize),), getattr(torch, output.dtype))
        self.tensors = arranged(self.memory, rows, output.dense)
        if output.dense and self.tensors.nbytes != output.nbytes:
            raise ProtocolError(f"an output of {self.tensors.nbytes} bytes comes as {output.nbytes}")


def _addresses(block: npt.NDArray[np.uint8], launch: Launched, offset: int) -> npt.NDArray[np.int64]:
    """Return the addresses at an offset in all rows of a launch's table."""
    addresses: npt.NDArray[np.int64] = np.ndarray(
        (launch.count,), np.int64, block, launch.images + offset, (launch.row_bytes,)
    )
    return addresses


def _copy(stream: Stream, target: torch.Tensor, source: _Source, held: list[Any]) -> None:
    """Copy an array to the device; add the memory that the copy reads to `held`."""
    array, pinned = source
    memory, address = array, _address(array)
    if not pinned:
        memory = stream.bounce(array.nbytes)
        memory.numpy()[:] = array
        address = memory.data_ptr()
    held.append(memory)
    stream.copy(target.data_ptr(), address, array.nbytes)


def _check(output: PreparedOutput, source: Any) -> None:
    """Check that the data of an output are those of its source: an array of bytes.

    Raises:
        ProtocolError: they aren't.
    """
    good = isinstance(source, np.ndarray) and source.ndim == 1 and source.dtype == np.uint8
    launch = output.launch
    if good and launch is None:
        good = source.nbytes == output.nbytes
    elif good and launch is not None:
        good = launch.images + launch.count * launch.row_bytes <= source.nbytes
        good &= launch.images % 8 == launch.row_bytes % 8 == 0
        good &= all(each % 8 == 0 and 8 <= each <= launch.row_bytes - 8 for each in launch.source_offsets)
        good &= 0 < launch.count <= 65535 and launch.blocks > 0
    if not good:
        raise ProtocolError("the data of a prepared batch aren't in the arrays that came with it")


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])  # `array.ctypes` takes ten times as long
