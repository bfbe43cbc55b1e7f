"""The server's side of results: it stages outputs in slots, then publishes them to the consumer that fetches them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from dali_proxy._transport.exchange import LocalExchange
from dali_proxy._transport.fields import DTYPES
from dali_proxy._transport.prepared import Launched, Prepared, PreparedOutput
from dali_proxy._transport.protocol import CUDA_SLOTS, OutputBatch, Result
from dali_proxy._transport.slots import Borrower, Slot, SlotOwner, SlotPool
from dali_proxy.pipeline._bulk.buffer_pool import lent_array
from dali_proxy.pipeline._bulk.gather import gather
from dali_proxy.pipeline._cuda.errors import CudaError, cuda_call
from dali_proxy.pipeline._cuda.launch import address_offsets
from dali_proxy.pipeline._ipc.arena import ALIGNMENT
from dali_proxy.pipeline._ipc.errors import ProtocolError
from dali_proxy.pipeline._ipc.frames import MAX_BODY
from dali_proxy.pipeline._ipc.memory import SharedBlock
from dali_proxy.pipeline._operator_api.request import DeviceMemory
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

if TYPE_CHECKING:
    from dali_proxy._transport.cuda_slots import CudaPublisher
    from dali_proxy.pipeline._compiler.device_planner import PlannedBatch, Target

_LONGEST_TABLES = MAX_BODY // 2  # maximum size of a result's tables, in bytes; the rest of the message needs space, too

#: Names of dtypes: `dtype.name` is slow.
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Account:
    """The account of the slots that one consumer has borrowed, from `ResultPublisher.account`.

    Attributes:
        control_fds: descriptors of its control pages, for `Welcome`.
        control_nbytes: size of each control page.
    """

    def __init__(self, borrowers: Sequence[Borrower[Any]]) -> None:
        self.borrowers = tuple(borrowers)
        self.control_fds = tuple(borrower.control.fd for borrower in borrowers)
        self.control_nbytes = borrowers[0].control.nbytes

    def take_detached(self) -> tuple[int, ...]:
        """Return the slots for a `SlotsDetached` message, if any; `publish` includes them in its message, too."""
        detached: tuple[int, ...] = ()
        for first, borrower in zip((0, CUDA_SLOTS), self.borrowers, strict=False):
            if borrower.detached:  # usually not: no lock is needed to see that
                detached += tuple([number + first for number in borrower.take_detached()])
        return detached

    def close(self) -> None:
        """End the account of a consumer that has disconnected. The slots that it holds aren't reused."""
        for borrower in self.borrowers:
            borrower.close()


#: An output's message, its slot, and the object itself if it has no slot.
_StagedOutput: TypeAlias = tuple[OutputBatch, Slot[Any] | None, Any]


class StagedResult:
    """The outputs of a batch in slots, until they are published or discarded.

    The slots return to their pool when it dies; `discard` returns them at once.

    Args:
        outputs: for each output its message, its slot, and the object itself if it has no slot.
        prepared: planned GPU work that turns these into the pipeline's outputs, or None.
        copies: for each slot that the GPU fills an event after which it is filled, and the output.

    Attributes:
        prepared: see above.
        nbytes: bytes that the outputs occupy.
        on_gpu: whether the GPU fills slots. Then call `wait` before you publish the result.
    """

    def __init__(
        self,
        outputs: Sequence[_StagedOutput],
        prepared: Prepared | None = None,
        copies: Sequence[tuple[Any, TensorListGPU]] = (),
    ) -> None:
        self._outputs = list(outputs)
        self._copies = list(copies)
        self.prepared = prepared
        self.on_gpu = bool(copies)
        self.nbytes = 0
        for output, _, _ in outputs:
            self.nbytes += output.nbytes

    def wait(self) -> None:
        """Wait until the GPU has filled the slots.

        Raises:
            CudaError: the GPU failed.
        """
        while self._copies:
            event, _ = self._copies.pop()
            with cuda_call("the batch's work on the GPU"):
                if not event.done:  # to ask doesn't give up the GIL, which to wait does, even if nothing is left to do
                    event.synchronize()

    def share(self) -> StagedResult:
        """Return the same result for another consumer. Only results on the CPU that weren't published can be shared."""
        self._outputs = [(replace(output, private=True), slot, value) for output, slot, value in self._outputs]
        for _, slot, _ in self._outputs:
            assert slot is not None  # see above
            slot.pool.share(slot)
        return StagedResult(self._outputs, self.prepared)

    def take(self) -> list[_StagedOutput]:
        """Return the outputs, once; an empty list afterwards."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def discard(self) -> None:
        """Return the slots to their pool, after the GPU's work. Do nothing after publication."""
        with suppress(CudaError):
            self.wait()
        for _, slot, _ in self.take():
            if slot is not None:
                slot.discard()

    def __del__(self) -> None:
        for _, slot, _ in self._outputs:
            if slot is not None:
                slot.pool.abandon(slot)


class ResultPublisher:
    """Puts outputs into slots and lends the slots to consumers. Thread-safe.

    Args:
        device_id: GPU that outputs may lie on, or None.
        local: exchange for GPU outputs if the consumer is in this process (``mode="thread"``).
    """

    def __init__(self, device_id: int | None = None, local: LocalExchange | None = None) -> None:
        self.pool: SlotPool[SharedBlock] = SlotPool(SharedBlock.create)
        self._local = local
        self._cuda: CudaPublisher | None = None
        if device_id is not None and local is None:
            from dali_proxy._transport.cuda_slots import CudaPublisher

            self._cuda = CudaPublisher(device_id)
        #: Where the executor allocates memory of the GPU; None for its own pools.
        self.device_memory: DeviceMemory | None = self._cuda if local is None else local.memory

    def allocate(self, output: int, nbytes: int) -> tuple[npt.NDArray[np.uint8], SlotOwner[SharedBlock]]:
        """Return slot memory for an output on the CPU, which `stage` then needn't copy, and its owner.

        The slot returns to its pool when the last array over the memory dies, unless the output was staged. So a batch
        that fails needs no cleanup.
        """
        slot = self.pool.allocate(nbytes)
        owner = SlotOwner(slot)
        return lent_array(slot.memory.array[:nbytes], owner), owner

    def account(self) -> Account:
        """Create the account of a consumer that has connected."""
        pools: list[SlotPool[Any]] = [self.pool] if self._cuda is None else [self.pool, self._cuda.pool]
        return Account([pool.borrower() for pool in pools])

    def stage(self, outputs: Sequence[TensorListCPU | TensorListGPU]) -> StagedResult:
        """Put the outputs of a batch into slots; copy only those that aren't in one already.

        Because it may copy, don't call it on the thread that serves all clients.

        Raises:
            IPCError: there is no memory.
        """
        staged: list[_StagedOutput] = []
        copies: list[tuple[Any, TensorListGPU]] = []
        try:
            is_dense = True
            for output in outputs:
                if isinstance(output, TensorListCPU):
                    staged.append(self._stage_cpu(output))
                else:
                    staged.append(self._stage_gpu(output, copies))
                is_dense &= staged[-1][0].dense
            if not is_dense:
                _check_tables([output for output, _, _ in staged])
        except BaseException:
            StagedResult(staged, copies=copies).discard()
            raise
        return StagedResult(staged, copies=copies)

    def stage_planned(self, planned: PlannedBatch) -> StagedResult:
        """Put the data of a planned batch into slots, all that launches read into one; see `stage`."""
        staged: list[_StagedOutput] = []
        try:
            if planned.nbytes:
                staged.append(self._stage_bytes(planned.nbytes, planned.write))
            for output in planned.outputs:
                if output.target is None:
                    staged.append(self._stage_cpu(output.batch))
                elif output.launch is None:
                    staged.append(self._stage_source(output.batch, output.target))
        except BaseException:
            StagedResult(staged).discard()
            raise
        return StagedResult(staged, prepared(planned))

    def publish(
        self, account: Account, client: int, seq: int, staged: StagedResult, **more: Any
    ) -> tuple[Result, tuple[int, ...]]:
        """Lend a staged result to a consumer. Return the message and its descriptors; send both at once.

        Args:
            account: the consumer's account.
            client: client that submitted the request.
            seq: the client's number for the request.
            staged: the result, from `stage`.
            **more: other fields of the message.

        Raises:
            IPCError: the consumer holds too many results, or is gone.
        """
        outputs = staged.take()
        lent: list[tuple[Slot[Any], Borrower[Any], bool]] = []
        messages: list[OutputBatch] = []
        fds: list[int] = []
        is_dense = True
        try:
            for output, slot, value in outputs:
                is_dense &= output.dense
                if slot is None:
                    assert self._local is not None  # see _stage_gpu
                    messages.append(replace(output, slot=self._local.put(value)))
                    continue
                borrower = account.borrowers[0 if slot.pool is self.pool else 1]
                if output.private and borrower.generations[slot.number]:  # another loop of the process has it
                    output, slot = self._copied(output, slot)
                generation, attach = slot.pool.lend(slot, borrower, output.private)
                lent.append((slot, borrower, attach))
                handle = output.handle if attach else b""
                messages.append(replace(output, generation=generation, attach=attach, handle=handle))
                if attach and slot.pool is self.pool:
                    fds.append(slot.memory.fd)
        except BaseException:
            for slot, borrower, attached in lent:
                slot.pool.recall(slot, borrower, attached)
            for message in messages:
                if message.device == "local" and self._local is not None:
                    self._local.take(message.slot)
            StagedResult(outputs[len(messages) :]).discard()
            raise
        if is_dense:
            more = {**more, "indices": "", "names": ""}
        result = Result(
            client=client,
            seq=seq,
            outputs=tuple(messages),
            detached=account.take_detached(),
            prepared=staged.prepared,
            **more,
        )
        return result, tuple(fds)

    def trim(self) -> None:
        """Free idle slots. The caller should then send each consumer the slots from its `take_detached`."""
        self.pool.trim()
        if self._cuda is not None:
            self._cuda.pool.trim()

    def close(self) -> None:
        """Free all memory of this process. Tensors that consumers hold on the CPU stay valid."""
        self.pool.close()
        if self._cuda is not None:
            self._cuda.close()

    def _copied(self, output: OutputBatch, shared: Slot[SharedBlock]) -> tuple[OutputBatch, Slot[SharedBlock]]:
        """Return an output of a shared slot in one of its own. This takes the shared one back."""
        slot = self.pool.allocate(shared.memory.nbytes)
        slot.memory.array[: shared.memory.nbytes] = shared.memory.array
        shared.discard()
        return replace(output, slot=slot.number, nbytes=slot.memory.nbytes, private=False), slot

    def _stage_cpu(self, output: TensorListCPU) -> _StagedOutput:
        slot, offset = _slot_of(output)
        if slot is None:
            return self._stage_copy(output)
        try:
            dense = output.dense
            assert dense is not None  # see _slot_of
            return _describe(output, slot, dense.dtype, np.array([[offset, *dense.shape]]), True), slot, None
        except BaseException:
            slot.discard()
            raise

    def _stage_copy(self, output: TensorListCPU) -> _StagedOutput:
        table = output.table()
        dense = output.is_dense_tensor()
        if dense:
            size, count = int(table.sizes[0]), len(table)
            offsets, nbytes = np.arange(count) * size, size * count
        else:
            ends = np.cumsum(-(-table.sizes // ALIGNMENT) * ALIGNMENT)
            offsets, nbytes = np.concatenate(([0], ends[:-1])), int(ends[-1])
        slot = self.pool.allocate(nbytes)
        try:
            assert slot.array is not None  # the memory is on the CPU
            gather(output, slot.array, offsets)
            if dense:
                rows = np.array([[0, count, *table.shapes[0].tolist()]])
            else:
                rows = np.column_stack((offsets, table.shapes))
            return _describe(output, slot, table.dtype, rows, dense), slot, None
        except BaseException:
            slot.discard()
            raise

    def _stage_source(self, output: TensorListCPU, target: Target) -> _StagedOutput:
        """Stage the bytes of an output that the consumer copies to its GPU, in the layout of the target."""
        slot, offset = _slot_of(output)
        if slot is None:
            return self._stage_bytes(target.nbytes, lambda memory: gather(output, memory, target.table.pointers))
        return _bytes_of(slot, offset, target.nbytes), slot, None

    def _stage_bytes(self, nbytes: int, write: Callable[[npt.NDArray[np.uint8]], object]) -> _StagedOutput:
        slot = self.pool.allocate(nbytes)
        try:
            assert slot.array is not None  # the memory is on the CPU
            write(slot.array)
        except BaseException:
            slot.discard()
            raise
        return _bytes_of(slot, 0, nbytes), slot, None

    def _stage_gpu(self, output: TensorListGPU, copies: list[tuple[Any, TensorListGPU]]) -> _StagedOutput:
        if self._local is not None:
            return (
                OutputBatch(
                    device="local", device_id=0, dtype="uint8", layout="", dense=True, ndim=0, table=b"", slot=0
                ),
                None,
                output,
            )
        if self._cuda is None:
            raise ProtocolError("an output is on a GPU, but the server was made without a GPU")
        described, slot, written = self._cuda.stage(output)
        copies.append((written, output))
        return described, slot, None


def _slot_of(output: TensorListCPU) -> tuple[Slot[SharedBlock] | None, int]:
    """Take the slot that a dense output lies in from its owner; return it and the output's offset, or None and 0."""
    owner, dense = output.owner, output.dense
    if dense is None or not isinstance(owner, SlotOwner) or not dense.flags.c_contiguous or owner.slot is None:
        return None, 0
    offset = dense.ctypes.data - owner.slot.memory.address
    return (owner.take(), offset) if 0 <= offset <= owner.slot.memory.nbytes - dense.nbytes else (None, 0)


def _check_tables(outputs: Sequence[OutputBatch]) -> None:
    nbytes = sum([len(output.table) for output in outputs])
    if nbytes > _LONGEST_TABLES:
        arrays = sum(len(output.table) // (8 * (1 + output.ndim)) for output in outputs)
        raise ProtocolError(
            f"the shapes of {arrays} arrays in {len(outputs)} outputs take {nbytes} bytes, and a message has room for "
            f"{_LONGEST_TABLES}: make smaller batches, or samples of one shape"
        )


def _describe(
    output: TensorListCPU, slot: Slot[Any], dtype: np.dtype[Any], table: npt.NDArray[np.int64], dense: bool
) -> OutputBatch:
    name = _NAMES.get(dtype)
    if name is None:
        raise ProtocolError(f"results of {dtype} can't be sent")
    return OutputBatch(
        device="cpu",
        device_id=0,
        dtype=name,
        layout=output.layout(),
        dense=dense,
        ndim=table.shape[1] - 1,
        table=table.tobytes(),
        slot=slot.number,
        nbytes=slot.memory.nbytes,
    )


def _bytes_of(slot: Slot[SharedBlock], offset: int, nbytes: int) -> OutputBatch:
    assert slot.array is not None  # the memory is on the CPU
    return _describe(TensorListCPU(slot.array), slot, slot.array.dtype, np.array([[offset, nbytes]]), True)


def prepared(planned: PlannedBatch) -> Prepared:
    """Describe the GPU work of a batch."""
    outputs: list[PreparedOutput | None] = []
    for output in planned.outputs:
        target, launch = output.target, output.launch
        if target is None:
            outputs.append(None)
            continue
        table = target.table
        if table.dtype.name not in DTYPES:
            raise ProtocolError(f"results of {table.dtype} can't be sent")
        dense_row = np.array([[0, len(table), *table.shapes[0]]])
        rows = dense_row if target.dense else np.column_stack((table.pointers, table.shapes))
        launched = None
        if launch is not None:
            rows_dtype = launch.tables[0].dtype
            launched = Launched(
                images=output.offsets[0],
                count=launch.grid[1],
                row_bytes=rows_dtype.itemsize,
                source_offsets=address_offsets(rows_dtype)[1:],  # the first is the address of the result
                expression=dict(launch.defines)["EXPRESSION"],
                blocks=launch.grid[0],
            )
        outputs.append(
            PreparedOutput(
                dtype=table.dtype.name,
                dense=target.dense,
                ndim=rows.shape[1] - 1,
                table=rows.tobytes(),
                nbytes=target.nbytes,
                launch=launched,
            )
        )
    return Prepared(tuple(outputs))
