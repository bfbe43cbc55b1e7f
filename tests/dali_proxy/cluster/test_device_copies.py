"""The way of a batch to the GPU of the training process: a connection, pinned memory, a copy on a separate stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
import torch

from dali_proxy._cluster.batch_pickle import dumps, loads
from dali_proxy._cluster.cluster_consumer import ClusterConsumer
from dali_proxy._cluster.device_copies import DeviceCopies
from dali_proxy._cluster.result_stream import ResultReceiver, ResultSender
from dali_proxy._worker.placeholders import BatchRef
from dali_proxy._worker.tickets import Ticket
from dali_proxy.pipeline._cuda import pinned
from tests.dali_proxy.host_stream import Event, HostStream
from tests.waiting import wait_until

SIDE = 300  # of an image: its memory is pinned
ON_GPU = (True, False, True)


class Registered:
    """Memory that looks registered with CUDA."""

    addresses: ClassVar[set[int]] = set()

    def __init__(self, memory: Any) -> None:
        self.memory = memory
        self.__array_interface__ = memory.__array_interface__
        self.addresses.add(memory.ctypes.data)


class BusyStream(HostStream):
    """A stream whose work runs only when the test calls `work`."""

    def block_current(self, event: Event, memories: Any) -> None:
        self.waited_for += [memory.data_ptr() for memory in memories]


class Way:
    """A server's side and the training process's side of a connection."""

    def __init__(self, sender: ResultSender, receiver: ResultReceiver, copies: DeviceCopies) -> None:
        pool: Any = None
        self.consumer = ClusterConsumer(pool, ON_GPU, copies)
        self.arrived: deque[tuple[int, list[Any]]] = deque()
        self._sender = sender
        assert receiver.connect(sender.address, lambda *result: self.arrived.append(result), lambda: None)

    def send(self, outputs: tuple[Any, ...]) -> Any:
        """Send a batch, and return it as the training process receives it, before its outputs are copied."""
        data, buffers = dumps(BatchRef(Ticket(b"server", 1, 2, 2), 0), lambda ticket: outputs)
        wait_until(lambda: self._sender.send(1, buffers))
        wait_until(lambda: self.arrived)
        return loads(data, self.arrived.popleft()[1])


@contextmanager
def connected(copies: DeviceCopies) -> Iterator[Way]:
    sender, receiver = ResultSender("127.0.0.1"), ResultReceiver(pin_for=0)
    way = Way(sender, receiver, copies)
    try:
        yield way
    finally:
        way.consumer.close()
        receiver.close()
        assert sender._connection is not None
        sender._connection.close()


def outputs_of(number: int) -> tuple[Any, ...]:
    """Return a dense output, one that stays on the CPU, and one of several shapes, the last of which is empty."""
    images = torch.full((4, SIDE, SIDE), float(number))
    return images, images.byte(), [torch.full((SIDE, SIDE), number), torch.tensor(number), torch.empty(0, 3)]


def check(found: tuple[Any, ...], number: int, device: str) -> None:
    for value, wanted, on_gpu in zip(found, outputs_of(number), ON_GPU, strict=True):
        samples = [value] if isinstance(wanted, torch.Tensor) else value
        for one, other in zip(samples, [wanted] if isinstance(wanted, torch.Tensor) else wanted, strict=True):
            assert one.device.type == (device if on_gpu else "cpu")
            assert torch.equal(one.cpu(), other)


@pytest.fixture
def _registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let memory look pinned, without a GPU."""
    monkeypatch.setattr(pinned.PinnedMemory, "from_memory", lambda memory, _: Registered(memory))
    monkeypatch.setattr(Registered, "addresses", set())


def is_registered(tensor: torch.Tensor) -> bool:
    return tensor.data_ptr() in Registered.addresses


@pytest.mark.usefixtures("_registers")
def test_results_are_received_into_pinned_memory_and_copied_once() -> None:
    stream = HostStream()
    with connected(DeviceCopies(0, lambda device_id: stream, is_registered)) as way:
        found = way.consumer.outputs(way.send(outputs_of(1)).ticket)
    check(found, 1, "cpu")
    assert (stream.copies, stream.bounced) == (3, 1), "only the small tensor isn't in pinned memory"
    for memory in (found[0], *found[2]):
        assert memory.data_ptr() in stream.waited_for
    assert is_registered(found[1]), "it stays where it was received"


@pytest.mark.usefixtures("_registers")
def test_memory_that_the_gpu_still_reads_is_not_reused() -> None:
    stream = BusyStream()
    with connected(DeviceCopies(0, lambda device_id: stream, is_registered)) as way:
        found = [way.consumer.outputs(way.send(outputs_of(number)).ticket) for number in range(3)]
        stream.work()
        for number, outputs in enumerate(found):
            check(outputs, number, "cpu")
        del outputs, found
        way.consumer.outputs(way.send(outputs_of(3)).ticket)
        allocated = len(Registered.addresses)
        stream.work()
        for number in range(4, 8):
            way.consumer.outputs(way.send(outputs_of(number)).ticket)
            stream.work()
        assert len(Registered.addresses) == allocated, "memory that was read is reused"


@pytest.mark.usefixtures("_registers")
def test_memory_is_kept_after_a_copy_that_failed() -> None:
    class FailingStream(BusyStream):
        def empty(self, shape: Any, dtype: torch.dtype) -> torch.Tensor:
            if self.copies == 1:
                raise MemoryError("out of memory")
            return super().empty(shape, dtype)

    stream = FailingStream()
    copies = DeviceCopies(0, lambda device_id: stream, is_registered)
    with connected(copies) as way:
        batch = way.send(outputs_of(1))
        with pytest.raises(MemoryError):
            way.consumer.outputs(batch.ticket)
        assert len(copies._sources._copying) == 1
        stream.copies = 2  # there is memory again
        found = way.consumer.outputs(batch.ticket)
        stream.work()
        check(found, 1, "cpu")


@pytest.mark.gpu
def test_batches_arrive_on_the_gpu_through_pinned_memory() -> None:
    with connected(DeviceCopies(0)) as way:
        busy = torch.zeros(1 << 26, device="cuda")
        kept: list[Any] = []
        for number in range(30):
            batch = way.send(outputs_of(number))
            assert batch.ticket.arrived[0].is_pinned()
            for _ in range(20):
                busy += 1  # the current stream has work, so the copies may end late
            kept.append(way.consumer.outputs(batch.ticket))
            del batch  # the memory that the GPU reads would be overwritten by the next batches
        for number, outputs in enumerate(kept):
            check(outputs, number, "cuda")
