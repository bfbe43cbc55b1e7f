from __future__ import annotations

import gc
import os
import threading

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from dali_proxy._transport.exchange import LocalExchange
from dali_proxy._transport.fields import DTYPES
from dali_proxy._transport.opener import ResultOpener
from dali_proxy._transport.protocol import OutputBatch, Result
from dali_proxy._transport.publisher import ResultPublisher
from dali_proxy._transport.slot_view import SlotView
from dali_proxy.pipeline._ipc.errors import ChannelClosedError, IPCError, ProtocolError
from dali_proxy.pipeline._ipc.memory import SharedBlock
from pipeline.tensors import TensorListCPU


class Consumer:
    def __init__(self, publisher):
        self.publisher = publisher
        self.account = publisher.account()
        self.opener = ResultOpener([os.dup(fd) for fd in self.account.control_fds], self.account.control_nbytes)

    def fetch(self, staged):
        result, fds = self.publisher.publish(self.account, 1, 2, staged)
        assert (result.client, result.seq) == (1, 2)
        return self.opener.receive(result, [os.dup(fd) for fd in fds]).tensors()

    def close(self):
        self.opener.close()
        self.account.close()


@pytest.fixture
def publisher():
    publisher = ResultPublisher()
    yield publisher
    publisher.close()


@pytest.fixture
def consumer(publisher):
    consumer = Consumer(publisher)
    yield consumer
    consumer.close()


@pytest.mark.parametrize("dtype", DTYPES)
def test_dense_output_is_one_tensor(publisher, consumer, dtype):
    data = np.arange(24).reshape(2, 3, 4).astype(dtype)
    (tensor,) = consumer.fetch(publisher.stage([TensorListCPU(data)]))
    assert tensor.dtype == getattr(torch, dtype)
    np.testing.assert_array_equal(tensor.numpy(), data)


def test_ragged_outputs_are_lists_of_tensors(publisher, consumer):
    samples = [np.full((length, 3), length, np.float32) for length in (5, 1, 0, 9)]
    scalars, ragged = consumer.fetch(publisher.stage([TensorListCPU([np.array(3)] * 4), TensorListCPU(samples)]))
    assert scalars.tolist() == [3, 3, 3, 3]
    for tensor, sample in zip(ragged, samples, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), sample)
        assert tensor.data_ptr() % 64 == 0


def test_output_that_lies_in_a_slot_is_not_copied(publisher, consumer):
    memory, owner = publisher.allocate(0, 600)
    output = TensorListCPU(memory.reshape(10, 60))
    output.dense[:] = 3
    output.owner = owner
    staged = publisher.stage([output])
    assert publisher.pool.stats().slots == 1
    output.dense[5] = 4  # the consumer sees it, so the memory is the same
    (tensor,) = consumer.fetch(staged)
    assert tensor[5, 0] == 4
    assert tensor[4, 0] == 3


def test_slot_is_returned_if_its_output_cannot_be_described(publisher, monkeypatch):
    monkeypatch.setattr("dali_proxy._transport.publisher._NAMES", {})
    memory, owner = publisher.allocate(0, 640)
    output = TensorListCPU(memory.reshape(8, 80))
    output.owner = owner
    for refused in (output, TensorListCPU(np.zeros((8, 10), np.uint8))):
        with pytest.raises(ProtocolError, match="results of uint8 can't be sent"):
            publisher.stage([refused])
        stats = publisher.pool.stats()
        assert stats.idle == stats.slots


def test_result_whose_description_is_too_long_is_an_error(publisher, monkeypatch):
    monkeypatch.setattr("dali_proxy._transport.publisher._LONGEST_TABLES", 1000)
    batch = TensorListCPU([np.zeros((number, 2), np.uint8) for number in range(1, 51)])
    with pytest.raises(ProtocolError, match=r"the shapes of 50 arrays in 1 outputs take 1200 bytes.*smaller batches"):
        publisher.stage([batch])
    assert publisher.pool.stats().idle == 1


def test_output_may_be_part_of_a_slot(publisher, consumer):
    memory, owner = publisher.allocate(0, 640)
    memory[:] = np.arange(640) % 251
    output = TensorListCPU(memory.reshape(10, 64)[4:6])
    output.owner = owner
    (tensor,) = consumer.fetch(publisher.stage([output]))
    np.testing.assert_array_equal(tensor.numpy().ravel(), np.arange(256, 384) % 251)


def test_output_given_twice_is_two_tensors(publisher, consumer):
    memory, owner = publisher.allocate(0, 64)
    output = TensorListCPU(memory.reshape(8, 8))
    output.dense[:] = 1
    output.owner = owner
    one, two = consumer.fetch(publisher.stage([output, output]))
    one[:] = 5
    assert (two == 1).all()


def test_strided_output_in_a_slot_is_copied(publisher, consumer):
    memory, owner = publisher.allocate(0, 64)
    memory[:] = np.arange(64)
    output = TensorListCPU(memory.reshape(8, 8).T)
    output.owner = owner
    (tensor,) = consumer.fetch(publisher.stage([output]))
    np.testing.assert_array_equal(tensor.numpy(), np.arange(64).reshape(8, 8).T)


def test_tensors_may_be_kept_by_the_user(publisher, consumer):
    tensors = [consumer.fetch(publisher.stage([TensorListCPU(np.full((4, 100), n))]))[0][1:] for n in range(30)]
    consumer.close()
    publisher.close()
    for n, tensor in enumerate(tensors):
        assert (tensor == n).all()
        tensor += 1


def test_memory_is_bounded_by_held_tensors(publisher, consumer):
    for number in range(500):
        (tensor,) = consumer.fetch(publisher.stage([TensorListCPU(np.full((8, 8), number))]))
        assert tensor[3, 3] == number
    assert publisher.pool.stats().slots <= 2


def test_staged_result_may_be_dropped(publisher, consumer):
    staged = publisher.stage([TensorListCPU(np.zeros((2, 2))), TensorListCPU(np.zeros((2, 2)))])
    assert staged.nbytes > 0
    staged.discard()
    staged.discard()
    assert publisher.pool.stats().idle == 2


def test_memory_of_a_failed_batch_is_returned_after_the_last_write(publisher):
    memory, owner = publisher.allocate(0, 1000)
    view = memory.reshape(10, 100)[3:]
    del memory, owner
    assert publisher.pool.stats().idle == 0
    del view
    assert publisher.pool.stats().idle == 1


def test_staged_result_that_is_dropped_returns_its_slots(publisher):
    publisher.stage([TensorListCPU(np.zeros((2, 2)))])
    assert publisher.pool.stats().idle == 1


def test_failure_while_staging_leaves_no_slots_lent(publisher):
    class Broken(TensorListCPU):
        def table(self):
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        publisher.stage([TensorListCPU(np.zeros((2, 2))), Broken([np.zeros(2), np.zeros(3)])])
    stats = publisher.pool.stats()
    assert stats.slots == stats.idle


def test_tensors_may_die_in_any_thread_and_in_cycles(publisher, consumer):
    def take():
        (tensor,) = consumer.fetch(publisher.stage([TensorListCPU(np.zeros((2, 2)))]))
        cycle = [tensor]
        cycle.append(cycle)

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    gc.collect()
    assert publisher.pool.stats().lent == 0


def test_detached_slots_come_with_the_next_result(publisher, consumer):
    consumer.fetch(publisher.stage([TensorListCPU(np.zeros(2**16))]))
    publisher.trim()
    result, fds = publisher.publish(consumer.account, 1, 2, publisher.stage([TensorListCPU(np.zeros(3))]))
    (tensor,) = consumer.opener.receive(result, [os.dup(fd) for fd in fds]).tensors()
    assert tensor.shape == (3,)
    assert consumer.account.take_detached() == ()


def test_descriptors_of_a_result_that_is_refused_are_closed(consumer):
    bad = OutputBatch(
        device="cpu",
        device_id=0,
        dtype="uint8",
        layout="",
        dense=True,
        ndim=1,
        table=bytes(16),
        slot=0,
        generation=1,
        nbytes=4096,
        attach=True,
    )
    for outputs in (
        (bad,),
        (
            OutputBatch(
                device="moon", device_id=0, dtype="uint8", layout="", dense=True, ndim=1, table=bytes(16), slot=0
            ),
        ),
    ):
        reader, writer = os.pipe()
        with pytest.raises(ProtocolError):
            consumer.opener.receive(Result(client=0, seq=0, outputs=outputs), [reader, writer]).tensors()
        for fd in (reader, writer):
            with pytest.raises(OSError, match="Bad file"):
                os.fstat(fd)


def test_closed_opener_says_so(publisher, consumer):
    consumer.fetch(publisher.stage([TensorListCPU(np.zeros(3))]))
    consumer.opener.close()
    reader, writer = os.pipe()
    with pytest.raises(ChannelClosedError):
        consumer.opener.receive(Result(client=0, seq=0, outputs=()), [reader, writer]).tensors()
    for fd in (reader, writer):
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(fd)
    consumer.opener.detach([0])


def test_result_is_opened_completely_before_its_memory_is_dropped(publisher, consumer, monkeypatch):
    arrays = [np.full(3, 4), np.full(3, 5)]
    consumer.fetch(publisher.stage([TensorListCPU(array) for array in arrays]))
    lent = SlotView._lent

    def close_first(view, output, fds):
        monkeypatch.undo()
        thread = threading.Thread(target=consumer.opener.close)
        thread.start()
        thread.join()
        consumer.opener.close()  # a finalizer on this thread, too
        return lent(view, output, fds)

    monkeypatch.setattr(SlotView, "_lent", close_first)
    tensors = consumer.fetch(publisher.stage([TensorListCPU(array) for array in arrays]))
    assert [tensor.tolist() for tensor in tensors] == [array.tolist() for array in arrays]
    with pytest.raises(ChannelClosedError):
        consumer.fetch(publisher.stage([TensorListCPU(np.zeros(3))]))


def test_output_that_cannot_be_mapped_does_not_cost_the_others(publisher, consumer, monkeypatch):
    arrays = [np.full(3, value) for value in range(4)]
    attach = SharedBlock.attach

    def no_memory(fd, nbytes, **options):
        os.close(fd)
        monkeypatch.undo()
        raise IPCError("no memory")

    monkeypatch.setattr(SharedBlock, "attach", no_memory)
    with pytest.raises(IPCError, match="no memory"):
        consumer.fetch(publisher.stage([TensorListCPU(array) for array in arrays]))
    assert SharedBlock.attach == attach
    assert publisher.pool.stats().lent == 0  # no slot stays lent forever
    assert publisher.pool.stats().slots == 3
    for _ in range(3):
        tensors = consumer.fetch(publisher.stage([TensorListCPU(array) for array in arrays]))
        assert [tensor.tolist() for tensor in tensors] == [array.tolist() for array in arrays]
        del tensors


def test_descriptors_stay_with_their_outputs_after_one_is_refused(publisher, consumer):
    staged = publisher.stage([TensorListCPU(np.full(3, value)) for value in (1, 2)])
    result, fds = publisher.publish(consumer.account, 1, 2, staged)
    bad, good = result.outputs
    with pytest.raises(ProtocolError, match="no slot"):
        consumer.opener.receive(
            replace(result, outputs=(replace(bad, generation=200), good)), [os.dup(fd) for fd in fds]
        ).tensors()
    tensors = consumer.opener.receive(replace(result, outputs=(replace(good, attach=False),))).tensors()
    assert tensors[0].tolist() == [2, 2, 2]


def test_dead_consumer_gets_no_results(publisher, consumer):
    staged = publisher.stage([TensorListCPU(np.zeros(3))])
    consumer.close()
    with pytest.raises(IPCError, match="gone"):
        publisher.publish(consumer.account, 1, 2, staged)
    assert publisher.pool.stats().idle == 1


def test_result_that_cannot_be_published_completely_returns_its_slots(publisher, consumer, monkeypatch):
    monkeypatch.setattr("dali_proxy._transport.slots.CONTROL_NBYTES", 1)
    arrays = [TensorListCPU(np.zeros((2, 2))) for _ in range(3)]
    with pytest.raises(IPCError, match="drop batches"):
        publisher.publish(consumer.account, 1, 2, publisher.stage(arrays))
    assert publisher.pool.stats().idle == 3
    monkeypatch.undo()
    consumer.fetch(publisher.stage(arrays[:1]))


def test_slots_of_a_result_that_could_not_be_published_are_still_detached_later(publisher, consumer, monkeypatch):
    arrays = [TensorListCPU(np.zeros((2, 2))) for _ in range(2)]
    consumer.fetch(publisher.stage(arrays[:1]))  # the consumer keeps its slot mapped
    monkeypatch.setattr("dali_proxy._transport.slots.CONTROL_NBYTES", 1)
    with pytest.raises(IPCError, match="drop batches"):
        publisher.publish(consumer.account, 1, 2, publisher.stage(arrays))
    monkeypatch.undo()
    publisher.trim()
    assert 0 in consumer.account.take_detached()


def test_server_imports_no_torch():
    import subprocess
    import sys

    code = "import sys, dali_proxy._host.__main__; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_local_object_is_taken_once():
    exchange = LocalExchange()
    number = exchange.put("thing")
    assert exchange.take(number) == "thing"
    with pytest.raises(ProtocolError):
        exchange.take(number)
