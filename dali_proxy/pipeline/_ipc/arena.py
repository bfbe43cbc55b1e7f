"""Writer side of the shared memory that carries samples to another process."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._concurrency.forking import drop_in_child
from dali_proxy.pipeline._concurrency.locks import Level, new_rlock
from dali_proxy.pipeline._ipc.block_allocator import ALIGNMENT, Block, create_allocator
from dali_proxy.pipeline._ipc.errors import ArenaFullError, ChannelClosedError, ChannelTimeoutError
from dali_proxy.pipeline._ipc.memory import SharedBlock
from dali_proxy.pipeline._ipc.signals import deferred_signals

__all__ = ["ALIGNMENT", "Arena", "Block", "Completions"]

_CLOSED = "the arena of shared memory is closed (or was inherited by a forked process)"
_LARGE = 64 << 20  # bytes of a request
_NBYTES = attrgetter("nbytes")
_IDLE_REQUESTS = 32  # the arena frees a segment that this many consecutive requests didn't need


class Completions(Protocol):
    """Source of the requests that the reader has completed, such as a `CompletionReader`."""

    @property
    def count(self) -> int:
        """Number of completed requests: all those with a smaller number."""

    def wait(self, count: int, timeout: float | None = None) -> None:
        """Wait until at least `count` requests are completed."""


class _Segment:
    __slots__ = ("allocator", "block", "segment_id", "used_at")

    def __init__(self, segment_id: int, nbytes: int, used_at: int) -> None:
        self.segment_id = segment_id
        self.block = SharedBlock.create(nbytes)
        self.allocator = create_allocator(segment_id, self.block.array)
        self.used_at = used_at  # number of the last request during which it held a block


class Arena:
    """Shared memory that one process writes samples into and another reads. Thread-safe.

    The memory of a sample stays allocated while its `Block` is referenced: by the caller of `write`, and by every
    request that uses it, until the reader has completed that request. If there is no free space, `write` waits for
    requests in flight. If none is in flight, it would wait forever, so it allocates another segment. It also does so,
    without waiting, until `ahead` requests of the largest size so far fit in addition to the current one; one, if they
    are large: fresh memory costs as much as filling it several times.

    Args:
        nbytes: size of the first segment.
        limit: largest total size of all segments, in bytes.
        completions: source of the requests that the reader has completed.
        attach: notifies the reader of a new segment; called with ``(segment_id, block)`` while the segment is empty.
        detach: notifies the reader of a segment that is freed; called with ``segment_id`` of an empty segment.
        ahead: number of requests that should fit in addition to the current one.
        timeout: seconds to wait for the reader; None to wait as long as it lives.
        before_wait: sends requests that were submitted; called before a wait for the reader.

    Attributes:
        limit: largest total size of all segments, in bytes.
        waited_ns: total time that writers have waited for free space, in nanoseconds.
    """

    def __init__(
        self,
        nbytes: int = 64 << 20,
        *,
        limit: int = 1 << 30,
        completions: Completions,
        attach: Callable[[int, SharedBlock], None],
        detach: Callable[[int], None],
        ahead: int = 2,
        timeout: float | None = None,
        before_wait: Callable[[], None] | None = None,
    ) -> None:
        if not 0 < nbytes <= limit:
            raise ValueError(f"an arena of {nbytes} bytes exceeds its limit of {limit} bytes")
        self.limit = limit
        self.waited_ns = 0
        self._first_nbytes = nbytes
        self._completions = completions
        self._attach = attach
        self._detach = detach
        self._ahead = ahead
        self._timeout = timeout
        self._before_wait = before_wait
        # Reentrant: a finalizer or signal handler that closes the arena may interrupt its holder.
        self._lock = new_rlock(Level.ARENA, "arena")
        self._segments: list[_Segment] = []
        self._next_segment_id = 0
        self._in_flight: deque[tuple[Block, ...]] = deque()  # the last of the requests that were begun
        self._begun = 0
        self._largest = 0  # bytes of the largest request
        self._closed = False
        drop_in_child(self)

    @property
    def capacity(self) -> int:
        """Total size of all segments, in bytes."""
        return sum(segment.block.nbytes for segment in self._segments)

    @property
    def bytes_used(self) -> int:
        """Allocated bytes, rounded up to the alignment."""
        with self._lock:
            if not self._closed:
                self._reclaim()
            return sum(segment.allocator.used for segment in self._segments)

    @property
    def in_flight(self) -> int:
        """Number of requests that were submitted and not completed."""
        return len(self._in_flight)

    def write(self, arrays: list[npt.NDArray[Any]]) -> tuple[Block, ...]:
        """Copy each array (any strides) into the arena, in C order and native byte order.

        Raises:
            ArenaFullError: the blocks in use have reached the limit.
            ChannelClosedError: the reader is gone, or the arena is closed.
            ChannelTimeoutError: the reader didn't free space in time.
        """
        with self._lock:
            for segment in self._segments:  # not a call: it would take as long as the copy of a small sample
                blocks = segment.allocator.write(arrays)
                if blocks is not None:
                    return blocks
            if self._in_flight:
                self._reclaim()
                blocks = self._write(arrays)
                if blocks is not None:
                    return blocks
        if len(arrays) > 1:  # they may fit into different segments, and most of them may be contiguous
            return tuple([self.write([array])[0] for array in arrays])
        (array,) = arrays
        block = self.allocate(array.nbytes)
        dtype = array.dtype
        if not dtype.isnative:
            dtype = dtype.newbyteorder("=")
        self.view(block, array.shape, dtype)[...] = array
        return (block,)

    def allocate(self, nbytes: int) -> Block:
        """Allocate `nbytes` bytes, aligned to 64. Raises the same errors as `write`."""
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        while True:
            with deferred_signals, self._lock:
                if self._closed:
                    raise ChannelClosedError(_CLOSED)
                self._reclaim()
                block = self._take(nbytes) or self._make_room(nbytes)
                completed = self._completed
            if block is not None:
                return block
            self._wait(completed, deadline)  # without the lock: other threads may submit requests, which frees space

    def view(self, block: Block, shape: Sequence[int], dtype: npt.DTypeLike = np.uint8) -> npt.NDArray[Any]:
        """Return an array over a block, to write to before it is submitted."""
        array: npt.NDArray[Any] = np.ndarray(shape, dtype, buffer=block.array, offset=block.offset)
        return array

    def submit(self, blocks: Sequence[Block]) -> int:
        """Begin the next request, and return its number. It holds `blocks` until the reader has completed it.

        Requests have the numbers 0, 1, 2, …; send them in that order.
        """
        with deferred_signals, self._lock:
            if self._closed:
                raise ChannelClosedError(_CLOSED)
            self._in_flight.append(tuple(blocks))
            seq, self._begun = self._begun, self._begun + 1
            self._largest = max(self._largest, sum(map(_NBYTES, blocks)))
            self._reclaim()
            if len(self._segments) > 1:
                self._shrink(seq)
            return seq

    def close(self) -> None:
        """Release the memory. The reader's mapping keeps the samples that it still reads."""
        with deferred_signals, self._lock:
            self._forget()

    def drop_inherited(self) -> None:
        """Drop the parent's arena in a forked child."""
        self._forget()

    def _forget(self) -> None:
        self._closed = True
        self._in_flight = deque()
        segments, self._segments = self._segments, []
        for segment in segments:
            segment.block.close()

    def _write(self, arrays: list[npt.NDArray[Any]]) -> tuple[Block, ...] | None:
        for segment in self._segments:
            blocks = segment.allocator.write(arrays)
            if blocks is not None:
                return blocks
        return None

    def _take(self, nbytes: int) -> Block | None:
        for segment in self._segments:
            block = segment.allocator.take(nbytes)
            if block is not None:
                return block
        return None

    def _reclaim(self) -> None:
        in_flight, count = self._in_flight, self._completions.count
        while in_flight and self._begun - len(in_flight) < count:
            in_flight.popleft()

    @property
    def _completed(self) -> int:
        return self._begun - len(self._in_flight)  # computed, not counted: a signal handler may raise after each step

    def _make_room(self, nbytes: int) -> Block | None:
        """Return a block in a new segment; None if it is better to wait for requests in flight."""
        too_small = all(segment.block.nbytes < nbytes for segment in self._segments)
        ahead = self._ahead if self._largest < _LARGE else min(self._ahead, 1)
        if too_small or not self._in_flight or self.capacity < (ahead + 1) * self._largest:
            if self._grow(nbytes):
                block = self._take(nbytes)
                assert block is not None  # the new segment is empty and large enough
                return block
            if not self._in_flight:
                raise ArenaFullError(
                    f"no space for a sample of {nbytes} bytes: samples that are still in use fill the "
                    f"{self.capacity} bytes of shared memory, and the limit is {self.limit} bytes; raise "
                    "arena_bytes_limit, or keep fewer samples"
                )
        return None

    def _wait(self, completed: int, deadline: float | None) -> None:
        if self._before_wait is not None:
            self._before_wait()
        left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        started = time.monotonic_ns()
        try:
            self._completions.wait(completed + 1, left)
        except ChannelTimeoutError as error:
            raise ChannelTimeoutError(
                f"shared memory is full, and request {completed} wasn't read within {self._timeout:g} s"
            ) from error
        finally:
            self.waited_ns += time.monotonic_ns() - started

    def _grow(self, wanted: int) -> bool:
        """Add a segment that doubles the arena, or a larger one for a large sample, within the limit."""
        room = (self.limit - self.capacity) & -ALIGNMENT
        wanted = max((wanted + ALIGNMENT - 1) & -ALIGNMENT, ALIGNMENT)
        nbytes = min(max(self.capacity or self._first_nbytes, wanted), room)
        nbytes = (nbytes + ALIGNMENT - 1) & -ALIGNMENT
        if nbytes < wanted:
            return False
        segment = _Segment(self._next_segment_id, nbytes, self._begun)
        self._next_segment_id += 1  # before: an interrupt may come after the reader has the number
        self._attach(segment.segment_id, segment.block)
        segment.block.close_fd()  # the reader has it
        self._segments.append(segment)
        return True

    def _shrink(self, seq: int) -> None:
        last = self._segments[-1]
        if last.allocator.used:
            last.used_at = seq
        elif last.used_at + _IDLE_REQUESTS < seq:
            self._segments.pop()
            last.block.close()
            self._detach(last.segment_id)
