from __future__ import annotations

import os
import random
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dali_proxy._transport import slots
from dali_proxy._transport.cuda_view import CudaSlotView, _Imported
from dali_proxy._transport.protocol import CUDA_SLOTS, OutputBatch
from dali_proxy._transport.slot_view import SlotView
from dali_proxy._transport.slots import CONTROL_NBYTES, RETIRED, SlotPool
from dali_proxy.pipeline._ipc.block_allocator import compiled
from dali_proxy.pipeline._ipc.errors import IPCError, ProtocolError
from dali_proxy.pipeline._ipc.memory import SharedBlock
from pipeline.errors import PipelineError
from tests.pipeline.ipc.processes import Child


class Consumer:
    def __init__(self, pool):
        self.pool = pool
        self.borrower = pool.borrower()
        self.view = SlotView(os.dup(self.borrower.control.fd), CONTROL_NBYTES)

    def get(self, slot, nbytes=100, private=False):
        generation, attach = self.pool.lend(slot, self.borrower, private)
        table = np.array([[0, nbytes]]).tobytes()
        output = OutputBatch(
            device="cpu",
            device_id=0,
            dtype="uint8",
            layout="",
            dense=True,
            ndim=1,
            table=table,
            slot=slot.number,
            generation=generation,
            nbytes=slot.memory.nbytes,
            attach=attach,
            private=private,
        )
        return self.view.open(output, iter([os.dup(slot.memory.fd)] if attach else []))


@pytest.fixture
def pool():
    pool = SlotPool(SharedBlock.create)
    yield pool
    pool.close()


def filled(pool, value, nbytes=100):
    slot = pool.allocate(nbytes)
    slot.array[:] = value
    return slot


def test_slot_is_read_by_the_consumer_and_reused(pool):
    consumer = Consumer(pool)
    for value in range(300):  # more than there are generations
        array = consumer.get(filled(pool, value % 256))
        assert (array == value % 256).all()
        array[:] = 1  # the user may write to it
        del array
    assert pool.stats().slots == 1


def test_array_stays_unchanged_while_it_is_held(pool):
    consumer = Consumer(pool)
    held = [consumer.get(filled(pool, value)) for value in range(20)]
    views = [array[10:20] for array in held]
    del held
    assert pool.stats().lent == 20
    for value in range(20, 40):
        consumer.get(filled(pool, value))
    for value, view in enumerate(views):
        assert (view == value).all()
    assert pool.stats().slots == 21
    del views, view
    assert pool.stats().lent == 0


def test_arrays_outlive_the_pool_and_the_view(pool):
    consumer = Consumer(pool)
    array = consumer.get(filled(pool, 9))
    consumer.view.close()
    consumer.borrower.close()
    pool.close()
    assert (array == 9).all()
    del array
    with pytest.raises(IPCError, match="closed"):
        pool.allocate(1)


def test_slots_of_a_dead_consumer_are_never_reused(pool):
    consumer, other = Consumer(pool), Consumer(pool)
    held = consumer.get(filled(pool, 5))
    consumer.get(filled(pool, 6))  # dropped immediately, so the slot may be reused
    consumer.borrower.close()
    for value in range(10):
        assert (other.get(filled(pool, value)) == value).all()
    assert (held == 5).all()
    assert pool.stats().slots == 1
    with pytest.raises(IPCError, match="gone"):
        pool.lend(pool.allocate(1), consumer.borrower)


def test_slot_may_move_between_consumers(pool):
    one, two = Consumer(pool), Consumer(pool)
    for value in range(10):
        assert (one.get(filled(pool, value)) == value).all()
        assert (two.get(filled(pool, value + 100)) == value + 100).all()
    assert pool.stats().slots == 1


def test_discarded_slot_is_reused(pool):
    slot = pool.allocate(1000)
    slot.discard()
    slot.discard()
    assert pool.allocate(1000) is slot
    assert pool.allocate(1000) is not slot


def test_small_output_does_not_take_a_large_slot(pool):
    large = pool.allocate(10 << 20)
    large.discard()
    assert pool.allocate(100) is not large
    assert pool.allocate(6 << 20) is large


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(slots.time, "monotonic", lambda: clock.now)
    return clock


class Clock:
    now = 1000.0


def test_surplus_slots_are_freed_and_reported_to_the_consumer(pool, clock):
    consumer = Consumer(pool)
    held = [consumer.get(filled(pool, 1)) for _ in range(10)]
    del held
    for _ in range(100):
        consumer.get(filled(pool, 2))
    assert pool.stats().slots == 10
    clock.now += 30
    for _ in range(2):  # the first one takes back the slot that was used last
        consumer.get(filled(pool, 2))
    assert pool.stats().slots == 1
    detached = consumer.borrower.take_detached()
    assert len(detached) == 9
    assert consumer.borrower.take_detached() == ()
    consumer.view.detach(detached)
    fds = len(os.listdir("/proc/self/fd"))
    held = [consumer.get(filled(pool, value)) for value in range(10)]  # numbers are reused
    assert [int(array[0]) for array in held] == list(range(10))
    assert len(os.listdir("/proc/self/fd")) == fds + 9  # belongs to the server; arrays need none


def test_batches_of_varying_sizes_soon_need_no_new_slots(clock):
    draw = random.Random(1)
    made: list[int] = []
    pool = SlotPool(lambda nbytes: made.append(nbytes) or SharedBlock.create(nbytes))
    held, in_flight = [], 20
    for batch in range(3000):
        clock.now += 0.02
        held.append(pool.allocate(int(draw.gauss(1 << 20, 1 << 17))))
        if not batch % 50:
            in_flight = draw.randint(10, 25)
        while len(held) > in_flight:
            held.pop(0).discard()
        if batch == 999:
            early = len(made)
    pool.close()
    assert early < 50
    assert len(made) - early < 15  # 60 with slots as large as their batch


def test_new_slot_that_finds_no_memory_is_as_small_as_possible():
    def make(nbytes):
        if nbytes > 1 << 20:
            raise MemoryError
        return SharedBlock.create(nbytes)

    pool = SlotPool(make)
    pool.allocate(1 << 20)
    pool._slots[0].memory.nbytes += 1 << 19  # the largest one, which the next one would equal
    assert pool.allocate(900_000).memory.nbytes <= 1 << 20
    pool.close()


def test_smallest_idle_slot_that_fits_is_taken_whatever_was_used_last(pool):
    sizes = [pages * slots._PAGE for pages in (1, 32, 40, 48)]  # a new slot is as large as an earlier one that fits
    made = {size: pool.allocate(size) for size in sizes}
    for order in (sizes, sizes[::-1]):
        for size in order:
            made[size].discard()
        for size in sizes:
            assert pool.allocate(size - 1) is made[size]


@given(st.integers(0, 1 << 40))
def test_sizes_of_slots_are_rounded_once(nbytes):
    size = slots._sizes(nbytes)[1]
    assert slots._sizes(size)[1] == size
    assert max(nbytes, slots._PAGE) <= size <= nbytes + nbytes // 8 + slots._PAGE


def test_trimming_frees_idle_slots_only(pool):
    consumer = Consumer(pool)
    held = consumer.get(filled(pool, 1))
    consumer.get(filled(pool, 2))
    pool.trim()
    assert pool.stats().slots == 1
    assert (held == 1).all()


def test_number_that_is_attached_again_is_not_detached_later(pool):
    consumer = Consumer(pool)
    consumer.get(filled(pool, 1))
    pool.trim()
    array = consumer.get(filled(pool, 2))
    assert consumer.borrower.take_detached() == ()
    assert (array == 2).all()


def test_memory_that_needs_consent_waits_for_it():
    pool = SlotPool(SharedBlock.create, needs_consent=True)
    consumer = Consumer(pool)
    consumer.get(filled(pool, 1))
    pool.trim()
    (number,) = consumer.borrower.take_detached()
    assert pool.stats().slots == 1
    consumer.view.page[number] = RETIRED
    assert pool.stats().slots == 0
    consumer.get(filled(pool, 1))
    pool.trim()
    consumer.borrower.close()
    assert pool.stats().slots == 0
    pool.close()


class ReadByGpu:
    """A pool whose returned memory a GPU still reads, as long as `reads` is true."""

    def __init__(self):
        self.reads = True
        self.pool = SlotPool(SharedBlock.create, needs_consent=True, is_used=lambda memory: self.reads)
        self.consumer = Consumer(self.pool)

    def get(self):
        self.consumer.get(filled(self.pool, 1))

    def close(self):
        self.pool.close()


@pytest.fixture
def read_by_gpu(monkeypatch):
    monkeypatch.setattr(slots, "_READ_BYTES", 0)
    monkeypatch.setattr(slots, "_PATIENCE", 60.0)
    made = ReadByGpu()
    yield made
    made.close()


def test_memory_is_not_reused_while_a_gpu_reads_it(read_by_gpu):
    for _ in range(slots._READ_SLOTS):
        read_by_gpu.get()
    assert read_by_gpu.pool.stats().slots == slots._READ_SLOTS
    read_by_gpu.reads = False
    for _ in range(10):
        read_by_gpu.get()
    assert read_by_gpu.pool.stats().slots == slots._READ_SLOTS


def test_allocation_waits_for_a_gpu_that_is_behind(read_by_gpu):
    for _ in range(slots._READ_SLOTS):
        read_by_gpu.get()
    thread = threading.Thread(target=read_by_gpu.get)
    thread.start()
    thread.join(0.1)
    assert thread.is_alive()
    read_by_gpu.reads = False
    thread.join()
    assert read_by_gpu.pool.stats().slots == slots._READ_SLOTS


def test_allocation_does_not_wait_forever(read_by_gpu, monkeypatch):
    """The waiting thread may be the one that would notice the death of the consumer."""
    monkeypatch.setattr(slots, "_PATIENCE", 0.05)
    for _ in range(6):
        read_by_gpu.get()
    assert read_by_gpu.pool.stats().slots == 6


def test_memory_that_a_dead_consumer_read_is_freed(read_by_gpu):
    """Its events never complete; the allocation that waits for them must not wait forever."""
    pool = read_by_gpu.pool
    for _ in range(slots._READ_SLOTS):
        read_by_gpu.get()
    allocated = []
    thread = threading.Thread(target=lambda: allocated.append(pool.allocate(100)))
    thread.start()
    thread.join(0.05)
    assert not allocated
    read_by_gpu.consumer.borrower.close()
    thread.join()
    assert pool.stats().slots == 1


def test_memory_of_idle_slots_is_used_when_memory_is_full():
    pool = SlotPool(lambda nbytes: Limited(nbytes, 1 << 20))
    for _ in range(3):
        pool.allocate(1 << 18)
    for slot in list(pool._slots.values()):
        slot.discard()
    assert pool.allocate(1 << 20).memory.nbytes == 1 << 20
    assert pool.stats().slots == 1
    pool.close()


class Limited:
    """Memory of which there is a limited number of bytes."""

    used = 0

    def __init__(self, nbytes, limit):
        if Limited.used + nbytes > limit:
            raise MemoryError
        Limited.used += nbytes
        self.nbytes = nbytes

    def close(self):
        Limited.used -= self.nbytes


def test_idle_slots_are_freed_when_memory_is_full():
    full = False

    def make(nbytes):
        if full:
            raise MemoryError
        return SharedBlock.create(nbytes)

    pool = SlotPool(make)
    pool.allocate(100).discard()
    full = True
    with pytest.raises(MemoryError):
        pool.allocate(1 << 20)
    assert pool.stats().slots == 0
    pool.close()


def test_forked_child_that_drops_an_array_does_not_give_it_back(pool):
    consumer = Consumer(pool)
    held = [consumer.get(filled(pool, 3))]
    Child(held.clear).join()
    assert pool.stats().lent == 1
    held.clear()
    assert pool.stats().lent == 0


def test_slot_is_lent_once(pool):
    one, two = Consumer(pool), Consumer(pool)
    slot = filled(pool, 3)
    array = one.get(slot)
    for consumer in (one, two):
        with pytest.raises(IPCError, match="already lent"):
            pool.lend(slot, consumer.borrower)
    pool.give_back(slot)
    pool.abandon(slot)
    assert pool.stats().idle == 0
    assert (array == 3).all()
    del array
    assert pool.stats().idle == 1
    with pytest.raises(IPCError, match="is idle"):
        pool.lend(slot, one.borrower)


def test_shared_slot_is_reused_when_all_have_dropped_it(pool):
    one, two = Consumer(pool), Consumer(pool)
    slot = filled(pool, 3)
    pool.share(slot)
    first, second = one.get(slot, private=True), two.get(slot, private=True)
    first[:] = 4
    assert (second == 3).all()
    del first
    assert pool.stats().idle == 0
    del second
    assert pool.stats().idle == 1
    assert (one.get(filled(pool, 5)) == 5).all()  # what was written to the private memory is gone


def test_shared_slot_of_a_dead_consumer_is_freed_when_the_others_have_dropped_it(pool):
    one, two = Consumer(pool), Consumer(pool)
    slot = filled(pool, 3)
    pool.share(slot)
    arrays = [one.get(slot, private=True), two.get(slot, private=True)]
    one.borrower.close()
    assert pool.stats().slots == 1
    assert (arrays[1] == 3).all()
    arrays.pop()
    assert pool.stats().slots == 0


def test_shared_slot_that_is_discarded_stays_lent(pool):
    consumer = Consumer(pool)
    slot = filled(pool, 3)
    pool.share(slot)
    array = consumer.get(slot, private=True)
    pool.give_back(slot)
    assert (array == 3).all()
    with pytest.raises(IPCError, match="already lent"):
        pool.lend(slot, consumer.borrower, private=True)
    del array
    assert pool.stats().idle == 1


def test_consumer_unmaps_the_memory_that_a_recalled_loan_would_have_replaced(pool):
    consumer = Consumer(pool)
    consumer.get(filled(pool, 1))
    pool.trim()
    slot = pool.allocate(1000)
    assert slot.number == 0
    _, attach = pool.lend(slot, consumer.borrower)
    pool.recall(slot, consumer.borrower, attach)
    assert consumer.borrower.take_detached() == (0,)


def test_arrays_held_across_a_fork_are_not_reused(pool):
    consumer = Consumer(pool)
    held = [consumer.get(filled(pool, 3))]
    reader, writer = os.pipe()

    def check():
        os.read(reader, 1)
        assert (held[0] == 3).all()

    child = Child(check)
    held.clear()
    for _ in range(5):
        consumer.get(filled(pool, 4))
    os.write(writer, b"x")
    child.join()
    os.close(reader)
    os.close(writer)
    assert pool.stats().slots == 1


def good_output(**changes):
    output = OutputBatch(
        device="cpu",
        device_id=0,
        dtype="int32",
        layout="",
        dense=False,
        ndim=1,
        table=np.array([[0, 10], [64, 5]]).tobytes(),
        slot=0,
        generation=1,
        nbytes=4096,
        attach=True,
    )
    return replace(output, **changes)


def test_ragged_outputs_share_one_loan(pool):
    consumer = Consumer(pool)
    slot = pool.allocate(4096)
    slot.array.view(np.int32)[:] = np.arange(1024)
    generation, _ = pool.lend(slot, consumer.borrower)
    arrays = consumer.view.open(good_output(generation=generation), iter([os.dup(slot.memory.fd)]))
    assert [array.tolist() for array in arrays] == [list(range(10)), list(range(16, 21))]
    del arrays[0]
    assert pool.stats().lent == 1
    del arrays
    assert pool.stats().lent == 0


class GpuConsumer:
    """A consumer of a slot that the server may only free after the consumer unmapped it, without a GPU."""

    def __init__(self):
        self.pool = SlotPool(SharedBlock.create, needs_consent=True)
        self.borrower = self.pool.borrower()
        self.view = CudaSlotView(os.dup(self.borrower.control.fd), CONTROL_NBYTES)
        self.slot = self.pool.allocate(100)
        self.generation, _ = self.pool.lend(self.slot, self.borrower)

    def output(self, **changes):
        return good_output(device="cuda", slot=CUDA_SLOTS + self.slot.number, generation=self.generation, **changes)


@pytest.fixture
def gpu_consumer():
    consumer = GpuConsumer()
    yield consumer
    consumer.view.close()
    consumer.pool.close()


@pytest.mark.parametrize(
    ("handle", "attach"), [(bytes(192), True), (b"", True), (b"", False)], ids=["unknown", "missing", "not new"]
)
def test_slot_on_a_gpu_that_cannot_be_mapped_is_returned(gpu_consumer, handle, attach):
    pool, view = gpu_consumer.pool, gpu_consumer.view
    with pytest.raises((PipelineError, RuntimeError)):  # CuPy raises the latter if there is no GPU
        view.receive(gpu_consumer.output(attach=attach, handle=handle))
    assert pool.stats().lent == 0
    assert pool.stats().slots == 1, "as far as the server knows, it is mapped"
    view.detach(gpu_consumer.borrower.take_detached())
    assert pool.stats().slots == 0


def test_output_on_a_gpu_that_does_not_lie_in_its_slot_gives_it_back(gpu_consumer):
    """The stand-in for mapped memory is never read."""
    pool, view, slot = gpu_consumer.pool, gpu_consumer.view, gpu_consumer.slot
    view._slots[slot.number] = _Imported(slot.number, slot.memory)
    try:
        with pytest.raises(ProtocolError, match="isn't in its slot"):
            view.receive(replace(gpu_consumer.output(attach=False), table=np.array([[0, 10**6]]).tobytes()))
        assert pool.stats().lent == 0
        assert pool.allocate(100) is slot
    finally:
        view._slots.clear()  # it isn't GPU memory


values = st.one_of(st.integers(-10, 5000), st.integers(-(2**63), 2**63 - 1))


@given(
    st.lists(st.tuples(values, values), min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from(["int32", "uint8", "nonsense"]),
    st.integers(0, 255),
    st.sampled_from([0, 1, 65_536, 2**32 - 1]),
    st.sampled_from([0, 4095, 4096, 4097, 2**63]),
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_hostile_server_cannot_cause_reads_outside_of_memory(rows, dense, dtype, generation, slot, nbytes, attach):
    with SharedBlock.create(CONTROL_NBYTES) as control, SharedBlock.create(4096) as block:
        view = SlotView(os.dup(control.fd), CONTROL_NBYTES)
        output = good_output(
            table=np.array(rows).tobytes(), dense=dense, dtype=dtype, generation=generation, slot=slot, nbytes=nbytes
        )
        fds = iter([os.dup(block.fd)])
        try:
            arrays = view.open(replace(output, attach=attach), fds)
        except ProtocolError:
            return
        finally:
            for fd in fds:
                os.close(fd)
        for array in [arrays] if dense else arrays:
            assert array.sum() == 0


def test_memory_of_a_slot_is_first_touched_by_the_thread_that_writes_the_result() -> None:
    pool = SlotPool(SharedBlock.create)
    slot = pool.allocate(1 << 24)
    assert os.fstat(slot.memory.fd).st_blocks == 0
    slot.discard()
    pool.close()


@pytest.mark.skipif(compiled is None, reason="needs the compiled module")
def test_returned_slots_are_found_in_c_as_in_numpy() -> None:
    rng = np.random.default_rng(1)
    generations = rng.choice(np.array([0, 0, 1, 2, 127], np.uint8), 500)
    page = rng.choice(np.array([0, 1, 2, 127, 128, 129, 130, 255], np.uint8), 500)
    found = slots._returned(generations, page, 500, RETIRED)
    assert found == slots._returned_in_python(generations, page, 500, RETIRED) != []
