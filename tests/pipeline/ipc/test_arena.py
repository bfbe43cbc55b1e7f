from __future__ import annotations

import gc
import os
import socket
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dali_proxy.pipeline._ipc import arena_reader
from dali_proxy.pipeline._ipc.arena import Arena
from dali_proxy.pipeline._ipc.arena_reader import ArenaReader
from dali_proxy.pipeline._ipc.block_allocator import compiled
from dali_proxy.pipeline._ipc.channel import Channel
from dali_proxy.pipeline._ipc.completion import CompletionReader, CompletionWriter
from dali_proxy.pipeline._ipc.errors import ArenaFullError, ChannelClosedError, ChannelTimeoutError, ProtocolError
from dali_proxy.pipeline._ipc.frames import Codec
from dali_proxy.pipeline._ipc.memory import SharedBlock
from tests.pipeline.ipc.processes import Child, Gate
from tests.waiting import PATIENCE_S, wait_until

KIB = 1024


class Peer:
    """A socket that shows whether the reader exists."""

    def __init__(self, sock: socket.socket) -> None:
        self.fileno = sock.fileno
        self.begin_use = self.end_use = lambda: None


def write(arena, array):
    """Write one array, and return its block."""
    (block,) = arena.write([array])
    return block


class Pair:
    """An arena and its reader in one process, connected by calls instead of a channel."""

    def __init__(self, nbytes=64 * KIB, peer=None, **options):
        self.writer = CompletionWriter()
        self.reader = ArenaReader()
        self.completions = CompletionReader(*map(os.dup, self.writer.fds), peer)
        self.attached: list[int] = []
        self.detached: list[int] = []
        self.arena = Arena(nbytes, completions=self.completions, attach=self.attach, detach=self.detach, **options)

    def attach(self, segment_id, block):
        self.attached.append(block.nbytes)
        self.reader.attach(segment_id, os.dup(block.fd), block.nbytes)

    def detach(self, segment_id):
        self.detached.append(segment_id)
        self.reader.detach(segment_id)

    def view(self, segment_id, offset, shape, dtype):
        """Return a sample as the reader sees it."""
        table = np.array([[segment_id, offset, *shape]], np.int64)
        (sample,) = self.reader.batch(table, np.dtype(dtype)).samples
        return sample

    def submit(self, *blocks):
        """Begin a request, which becomes the only owner of the blocks."""
        seq = self.arena.submit(blocks)
        self.writer.begin(seq)
        return seq

    def close(self):
        self.arena.close()
        self.completions.close()
        self.writer.close()
        self.reader.close()


@pytest.fixture
def make_pair():
    pairs = []

    def make(*args, **options):
        pairs.append(Pair(*args, **options))
        return pairs[-1]

    yield make
    for pair in pairs:
        pair.close()


ARRAYS = [
    np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    np.arange(24, dtype=np.int16).reshape(4, 6).T,
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(20)[::-2],
    np.arange(5, dtype=">i4"),
    np.array([True, False]),
    np.array(3.5),
    np.zeros((0, 3), np.uint8),
    np.broadcast_to(np.uint8(7), (3, 3)),
    np.arange(100_003, dtype=np.uint8)[1:],
    np.arange(70_000, dtype=np.float32),  # too large for a copy with the GIL
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_samples_are_read_as_written(make_pair, array):
    pair = make_pair(512 * KIB)
    block = write(pair.arena, array)
    assert block.offset % 64 == 0
    native = array.dtype.newbyteorder("=")
    view = pair.view(block.segment_id, block.offset, array.shape, native)
    np.testing.assert_array_equal(view, array)
    assert not view.flags.writeable


def test_write_copies_a_sample_immediately(make_pair):
    pair = make_pair()
    buffer = np.zeros(10, np.uint8)
    block = write(pair.arena, buffer)
    buffer[:] = 9
    assert not pair.view(0, block.offset, (10,), np.uint8).any()


def test_arrays_of_a_sample_are_written_together(make_pair):
    pair = make_pair(1 * KIB)
    turned = np.arange(6, dtype=np.int32).reshape(2, 3).T
    given = [np.arange(900, dtype=np.uint8), turned, np.arange(50, dtype=np.float64)]  # too large for one segment
    blocks = pair.arena.write(given)
    assert {block.segment_id for block in blocks} == {0, 1}
    for block, array in zip(blocks, given, strict=True):
        view = pair.view(block.segment_id, block.offset, array.shape, array.dtype)
        np.testing.assert_array_equal(view, array)


def test_memory_is_held_by_its_owner_and_by_requests(make_pair):
    pair = make_pair()
    block = write(pair.arena, np.ones(1000, np.uint8))
    first, second = pair.arena.submit([block]), pair.arena.submit([block, block])
    for seq in (first, second):
        pair.writer.begin(seq)
    del block
    assert pair.arena.bytes_used == 1024
    pair.writer.complete(second)
    assert pair.arena.bytes_used == 1024  # request 0 still reads it
    pair.writer.complete(first)
    assert pair.arena.bytes_used == 0
    assert pair.arena.in_flight == 0


def test_used_block_does_not_stop_the_arena(make_pair):
    pair = make_pair(64 * KIB, limit=64 * KIB)
    kept = write(pair.arena, np.full(KIB, 77, np.uint8))
    for number in range(300):
        block = write(pair.arena, np.full(20 * KIB, number % 251, np.uint8))
        seq = pair.submit(block)
        assert (pair.view(0, block.offset, (20 * KIB,), np.uint8) == number % 251).all()
        pair.writer.complete(seq)
    assert (pair.view(0, kept.offset, (KIB,), np.uint8) == 77).all()
    assert pair.attached == [64 * KIB]


def test_finalizers_release_blocks(make_pair):
    pair = make_pair()

    class Holder:
        def __init__(self, arena, array):
            self.arena, self.block = arena, write(arena, array)
            self.cycle = self

    gc.disable()  # a collection at this moment would make a holder too old for the next one
    try:
        for _ in range(50):
            Holder(pair.arena, np.zeros(10 * KIB, np.uint8))
            gc.collect(0)
    finally:
        gc.enable()
    assert pair.arena.bytes_used == 0
    assert pair.attached == [64 * KIB]


def test_batch_larger_than_the_arena_makes_it_grow(make_pair):
    pair = make_pair(64 * KIB, limit=1024 * KIB)
    blocks = [write(pair.arena, np.full(10 * KIB, number, np.uint8)) for number in range(30)]
    for number, block in enumerate(blocks):
        assert (pair.view(block.segment_id, block.offset, (10 * KIB,), np.uint8) == number).all()
    assert pair.attached == [64 * KIB, 64 * KIB, 128 * KIB, 256 * KIB]


def test_interrupt_while_the_arena_grows(make_pair):
    """The reader already knows the new segment; the interrupted writer creates another one."""
    pair = make_pair(64 * KIB, limit=1024 * KIB)
    attach = pair.arena._attach

    def interrupted(segment_id, block):
        attach(segment_id, block)
        pair.arena._attach = attach
        raise KeyboardInterrupt

    pair.arena._attach = interrupted
    with pytest.raises(KeyboardInterrupt):
        write(pair.arena, np.ones(KIB, np.uint8))
    block = write(pair.arena, np.ones(KIB, np.uint8))
    assert pair.view(block.segment_id, block.offset, (KIB,), np.uint8).all()


def test_sample_larger_than_the_arena(make_pair):
    pair = make_pair(64 * KIB, limit=1024 * KIB)
    block = write(pair.arena, np.full(700 * KIB, 3, np.uint8))
    assert pair.view(block.segment_id, block.offset, (700 * KIB,), np.uint8).min() == 3
    with pytest.raises(ArenaFullError, match="raise arena_bytes_limit"):
        write(pair.arena, np.zeros(500 * KIB, np.uint8))


def test_idle_segment_is_detached(make_pair):
    pair = make_pair(64 * KIB, limit=1024 * KIB)
    blocks = [write(pair.arena, np.zeros(size * KIB, np.uint8)) for size in (1, 500)]
    pair.writer.complete(pair.submit(*blocks))
    blocks.clear()
    for _ in range(20):
        pair.writer.complete(pair.submit(write(pair.arena, np.zeros(KIB, np.uint8))))
    assert pair.detached == []
    for _ in range(20):
        pair.writer.complete(pair.submit(write(pair.arena, np.zeros(KIB, np.uint8))))
    assert pair.detached == [1]
    assert pair.arena.capacity == 64 * KIB


def test_ring_grows_for_requests_ahead_then_waits(make_pair):
    pair = make_pair(64 * KIB, limit=10**9, ahead=1, timeout=0.2)
    for _ in range(2):  # a request of 60 KiB is in flight, another one of 60 KiB is being written
        pair.submit(*[write(pair.arena, np.zeros(20 * KIB, np.uint8)) for _ in range(3)])
    assert pair.arena.capacity == 128 * KIB
    with pytest.raises(ChannelTimeoutError, match="request 0 wasn't read"):
        write(pair.arena, np.zeros(20 * KIB, np.uint8))
    assert pair.arena.waited_ns > 100_000_000
    pair.writer.complete(0)
    write(pair.arena, np.zeros(20 * KIB, np.uint8))


def test_full_arena_waits_until_a_request_is_completed(make_pair):
    pair = make_pair(64 * KIB, limit=64 * KIB, timeout=60)
    seq = pair.submit(write(pair.arena, np.zeros(60 * KIB, np.uint8)))
    wait, waiting = pair.completions.wait, threading.Event()

    def noted(*args):
        waiting.set()
        wait(*args)

    pair.completions.wait = noted
    reader = threading.Thread(target=lambda: waiting.wait(60) and pair.writer.complete(seq))
    reader.start()
    write(pair.arena, np.zeros(60 * KIB, np.uint8))
    assert pair.arena.waited_ns > 0
    reader.join()


def test_thread_that_waits_for_room_lets_others_submit(make_pair):
    pair = make_pair(64 * KIB, limit=64 * KIB)
    pair.submit(write(pair.arena, np.zeros(30 * KIB, np.uint8)))
    other = write(pair.arena, np.zeros(30 * KIB, np.uint8))
    waiting = threading.Thread(target=write, args=(pair.arena, np.zeros(60 * KIB, np.uint8)))
    waiting.start()
    wait_until(lambda: pair.completions._words[1] == 1, "the wait")
    submitted = threading.Thread(target=pair.submit, args=(other,))
    submitted.start()
    submitted.join(PATIENCE_S)
    assert not submitted.is_alive()
    del other, submitted
    pair.writer.complete(0)
    pair.writer.complete(1)
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()


def test_closing_ends_a_wait_for_room(make_pair):
    pair = make_pair(64 * KIB, limit=64 * KIB)
    pair.submit(write(pair.arena, np.zeros(60 * KIB, np.uint8)))
    raised = []

    def fill() -> None:
        with pytest.raises(ChannelClosedError) as caught:
            write(pair.arena, np.zeros(60 * KIB, np.uint8))
        raised.append(caught)

    waiting = threading.Thread(target=fill)
    waiting.start()
    wait_until(lambda: pair.completions._words[1] == 1, "the wait")
    pair.completions.close()
    waiting.join(PATIENCE_S)
    assert raised


def test_full_arena_detects_that_its_reader_is_gone(make_pair):
    ours, theirs = Channel.pair(Codec({}))
    with ours:
        pair = make_pair(64 * KIB, limit=64 * KIB, peer=Peer(ours))
        pair.submit(write(pair.arena, np.zeros(60 * KIB, np.uint8)))
        timer = threading.Timer(0.1, theirs.close)
        timer.start()
        with pytest.raises(ChannelClosedError, match="gone"):  # without a timeout, it would wait forever otherwise
            write(pair.arena, np.zeros(60 * KIB, np.uint8))
        timer.join()


def test_reader_that_is_killed_ends_the_wait(make_pair):
    ours, theirs = Channel.pair(Codec({}))
    gate = Gate()
    with ours:
        child = Child(gate.wait)
        theirs.close()  # the child has it
        pair = make_pair(64 * KIB, limit=64 * KIB, peer=Peer(ours))
        pair.submit(write(pair.arena, np.zeros(60 * KIB, np.uint8)))
        timer = threading.Timer(0.1, child.kill)
        timer.start()
        with pytest.raises(ChannelClosedError):
            write(pair.arena, np.zeros(60 * KIB, np.uint8))
        timer.join()
    gate.close()


def test_forked_child_cannot_use_or_disturb_the_arena(make_pair):
    pair = make_pair()
    blocks = [write(pair.arena, np.ones(100, np.uint8))]
    (block,) = blocks

    def use() -> None:
        nonlocal block
        del block
        blocks.clear()
        with pytest.raises(ChannelClosedError, match="forked"):
            write(pair.arena, np.zeros(10, np.uint8))

    Child(use).join()
    assert pair.arena.bytes_used == 128
    assert pair.view(0, block.offset, (100,), np.uint8).all()


def test_many_threads_write_at_once(make_pair):
    pair = make_pair(64 * KIB, limit=4096 * KIB)
    lock = threading.Lock()
    failures = []

    def work(number):
        random = np.random.default_rng(number)
        for _ in range(100):
            array = random.integers(0, 255, random.integers(1, 9000), np.uint8)
            block = write(pair.arena, array)
            with lock:
                seq = pair.submit(block)
            if not np.array_equal(pair.view(block.segment_id, block.offset, array.shape, np.uint8), array):
                failures.append(seq)
            pair.writer.complete(seq)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert pair.arena.bytes_used == 0


def test_completions_in_any_order_publish_the_prefix(make_pair):
    pair = make_pair()
    for _ in range(4):
        pair.submit()
    for seq, count in ((2, 0), (0, 1), (0, 1), (1, 3), (3, 4)):
        pair.writer.complete(seq)
        assert pair.completions.count == count
    assert pair.writer.in_flight == 0
    with pytest.raises(ProtocolError, match="but 4 was expected"):
        pair.writer.begin(5)


def test_closed_arena_says_so(make_pair):
    pair = make_pair()
    pair.arena.close()
    with pytest.raises(ChannelClosedError):
        write(pair.arena, np.zeros(1, np.uint8))


rows = st.tuples(
    st.sampled_from([0, 0, 0, 1, -1]),
    st.one_of(st.integers(-64, 70_000), st.integers(-(2**63), 2**63 - 1)),
    st.one_of(st.integers(-2, 70_000), st.integers(-(2**63), 2**63 - 1), st.just(2**32)),
    st.one_of(st.integers(0, 3), st.integers(-(2**63), 2**63 - 1), st.just(2**32)),
)


@given(st.lists(rows, min_size=1, max_size=4), st.sampled_from(["uint8", "int16", "float64"]))
@settings(max_examples=400)
def test_rows_never_reach_outside_of_their_segment(table, dtype):
    pair = Pair(64 * KIB)
    try:
        write(pair.arena, np.zeros(1, np.uint8))
        inside = all(
            segment == 0
            and offset >= 0
            and offset % np.dtype(dtype).itemsize == 0
            and a >= 0
            and b >= 0
            and offset + a * b * np.dtype(dtype).itemsize <= 64 * KIB
            for segment, offset, a, b in table
        )
        try:
            batch = pair.reader.batch(np.array(table, np.int64), dtype)
        except ProtocolError:
            # Empty arrays with huge dimensions are refused too.
            assert not inside or any(max(row[2], 1) * max(row[3], 1) >= 2**48 for row in table)
            return
        assert inside
        segment = pair.view(0, 0, (64 * KIB,), np.uint8)
        samples = batch.table()
        offsets = samples.pointers - segment.ctypes.data
        assert (offsets >= 0).all()
        assert (offsets + samples.sizes <= 64 * KIB).all()
        for sample, offset, (_, given, *shape) in zip(batch.samples, offsets.tolist(), table, strict=True):
            assert sample.sum() == 0
            assert offset == given
            assert sample.shape == tuple(shape)
    finally:
        pair.close()


@pytest.mark.skipif(compiled is None, reason="needs the compiled module")
@given(st.lists(rows, min_size=1, max_size=4), st.sampled_from([1, 2, 8]))
@settings(max_examples=400)
def test_compiled_check_of_rows_agrees_with_numpy(table, itemsize):
    array = np.array(table, np.int64)
    room = 64 * KIB
    good = arena_reader._lie_in(array[:, 1], array[:, 2:], itemsize, np.full(len(array), room)).all()
    same = (array[:, 0] == array[0, 0]).all()
    assert compiled.lie_in(array, itemsize, room, arena_reader._LARGEST) == bool(good and same)


@pytest.mark.skipif(compiled is None, reason="needs the compiled module")
def test_compiled_check_of_rows_refuses_other_tables():
    for table in (np.zeros((2, 1), np.int64), np.zeros(4, np.int64), np.zeros((2, 3), np.int32)):
        with pytest.raises(ValueError, match="expected a table"):
            compiled.lie_in(table, 1, 10, arena_reader._LARGEST)
    assert not compiled.lie_in(np.zeros((0, 3), np.int64), 1, 10, arena_reader._LARGEST)


def test_empty_sample_may_not_be_too_large_for_numpy(make_pair):
    pair = make_pair()
    write(pair.arena, np.zeros(1, np.uint8))
    with pytest.raises(ProtocolError):
        pair.reader.batch(np.array([[0, 0, 0, 2**47, 2**47]]), "uint8")


def test_reader_refuses_segments_that_repeat_or_are_too_many(make_pair):
    pair = make_pair()
    block = write(pair.arena, np.zeros(1, np.uint8))
    assert block.segment_id == 0
    fd = os.open(os.devnull, os.O_RDONLY)
    with pytest.raises(ProtocolError, match="number in use"):
        pair.reader.attach(0, fd, 64 * KIB)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    with pytest.raises(ProtocolError, match="not attached"):
        pair.reader.detach(5)


class Pinned:
    """Counts registrations, without CUDA."""

    held = 0

    def __init__(self, memory):
        self.memory, self.__array_interface__ = memory, memory.__array_interface__
        Pinned.held += memory.nbytes
        weakref.finalize(self, Pinned.end, memory.nbytes)

    @classmethod
    def end(cls, nbytes):
        cls.held -= nbytes


def test_views_outlive_detaching_and_pins_end_with_them(make_pair):
    waiting = []
    reader = ArenaReader(pin=lambda memory, on_pinned: waiting.append((memory, on_pinned)))
    pair = make_pair()
    pair.attach = lambda segment_id, block: reader.attach(segment_id, os.dup(block.fd), block.nbytes)
    pair.arena._attach = pair.attach
    block = write(pair.arena, np.full(10, 4, np.uint8))
    row = np.array([[0, block.offset, 10]])
    early = reader.batch(row, np.uint8)
    assert not early.pinned  # and is usable, however long it takes
    memory, on_pinned = waiting.pop()
    on_pinned(np.asarray(Pinned(memory)))
    late = reader.batch(row, np.uint8)
    assert late.pinned
    assert late.table().pointers.tolist() == early.table().pointers.tolist()
    assert not late.samples[0].flags.writeable
    reader.detach(0)
    pair.arena.close()
    del memory, on_pinned
    for batch in (early, late):
        assert (batch.at(0) == 4).all()
    assert Pinned.held == 64 * KIB
    del batch, late
    assert Pinned.held == 0


def test_batch_is_pinned_when_all_its_segments_are(make_pair):
    waiting = []
    reader = ArenaReader(pin=lambda memory, on_pinned: waiting.append((memory, on_pinned)))
    for number in range(2):
        with SharedBlock.create(4096) as block:
            reader.attach(number, os.dup(block.fd), 4096)
    both, second = np.array([[0, 0, 8], [1, 64, 8]]), np.array([[1, 0, 8]])
    for count, (memory, on_pinned) in enumerate(reversed(waiting)):
        assert reader.batch(second, np.uint8).pinned == (count > 0)
        assert not reader.batch(both, np.uint8).pinned
        on_pinned(memory.view())
    assert reader.batch(both, np.uint8).pinned
    reader.close()
