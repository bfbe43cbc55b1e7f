"""The server's memory for results: slots that the server lends to a consumer until it drops its tensors.

A slot is lent to one consumer at a time, or shared by several, each of which maps it so that what it writes is its own.
A consumer returns a slot with one plain byte store into a control page that it
shares with the server, because finalizers return slots, and they may neither lock nor send. The byte is the generation
of the loan, so it identifies the loan that is over. With the `RETIRED` bit, the memory must not be used again.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._ipc.block_allocator import compiled
from dali_proxy.pipeline._ipc.errors import IPCError
from dali_proxy.pipeline._ipc.memory import SharedBlock

CONTROL_NBYTES = 1 << 16  # one byte per slot: the most that can be lent to one consumer at a time
RETIRED = 0x80  # bit in the control page: the memory has another holder, or (with generation 0) is no longer mapped
_GENERATIONS = 127
# Allocations and seconds after which an unused idle slot is freed. A new one costs its consumer much: to register 50 MB
# with CUDA takes as long as two steps of training. The number of batches in flight changes all the time.
_MAX_IDLE, _IDLE_SECONDS = 64, 20.0
_FITS = 2  # a slot may be so many times as large as what it is used for
# If GPUs may still read so many bytes, and so many slots, of about the requested size, their consumers are behind, and
# an allocation waits for them. It ends after a second, because the waiting thread may be the one that notices the death
# of a consumer.
_READ_BYTES, _READ_SLOTS = 64 << 20, 2
_PATIENCE = 1.0
_GLANCE = 0.0005  # seconds between checks
_PAGE = 4096


class Memory(Protocol):
    """The memory of a slot."""

    nbytes: int

    def close(self) -> None:
        """Free the memory."""


M = TypeVar("M", bound=Memory)


class Slot(Generic[M]):
    """Memory for one output of one batch.

    Attributes:
        number: slot number in messages.
        memory: its memory, of at least the requested size.
        array: ``uint8[nbytes]`` to write to, of the requested size; None if the memory isn't on the CPU.
        holds: number of loans, and of results that may still be lent; guarded by the pool's lock.
        is_retired: whether the memory mustn't be used again, because a loan has ended like that.
    """

    __slots__ = ("array", "holds", "idle_at", "idle_since", "is_retired", "memory", "number", "pool")

    def __init__(self, pool: SlotPool[M], number: int, memory: M) -> None:
        self.pool = pool
        self.number = number
        self.memory = memory
        self.array: npt.NDArray[np.uint8] | None = None
        self.holds, self.is_retired = 0, False
        self.idle_at = 0  # the pool's count of allocations when it became idle
        self.idle_since = 0.0  # time at which it did

    def discard(self) -> None:
        """Return a slot to its pool that was allocated or shared, and not lent."""
        self.pool.give_back(self)


class SlotOwner(Generic[M]):
    """The owner of arrays over an allocated slot, which keep it alive.

    The slot returns to its pool when this dies, unless it was taken.

    Attributes:
        slot: the slot; None once it was taken.
    """

    __slots__ = ("slot",)

    def __init__(self, slot: Slot[M]) -> None:
        self.slot: Slot[M] | None = slot

    def take(self) -> Slot[M] | None:
        """Return the slot, which no longer returns to its pool automatically; None the second time."""
        slot, self.slot = self.slot, None
        return slot

    def __del__(self) -> None:
        if self.slot is not None:
            self.slot.pool.abandon(self.slot)


@dataclass(frozen=True)
class SlotStats:
    """Number of all, of lent and of idle slots of a pool, and their bytes."""

    slots: int
    lent: int
    idle: int
    nbytes: int


class SlotPool(Generic[M]):
    """Slots of one kind of memory. Thread-safe.

    Args:
        make: allocates memory of at least the given number of bytes.
        needs_consent: whether consumers must unmap memory before the pool may free it (as CUDA requires).
        is_used: returns whether a GPU may still read or write idle memory, which then isn't reused; None for memory on
            the CPU.
    """

    def __init__(
        self,
        make: Callable[[int], M],
        *,
        needs_consent: bool = False,
        is_used: Callable[[M], bool] | None = None,
    ) -> None:
        self._make = make
        self._needs_consent = needs_consent
        self._is_used = is_used
        self._lock = new_lock(Level.LEAF, "slot pool")
        self._slots: dict[int, Slot[M]] = {}  # all, by number
        self._free_numbers: list[int] = []  # a heap of the numbers below _next_number that are not in _slots
        self._next_number = 0
        self._idle: list[Slot[M]] = []  # the most recently used one is last
        self._leaving: dict[Slot[M], list[Borrower[M]]] = {}  # to be freed, with borrowers that may have mapped it
        self._borrowers: list[Borrower[M]] = []
        self._abandoned: deque[Slot[M]] = deque()  # filled by finalizers
        self._allocations = 0
        self._closed = False

    def allocate(self, nbytes: int) -> Slot[M]:
        """Return a slot of `nbytes` bytes with arbitrary contents: an idle one that fits, or a new one.

        This waits up to a second while consumers' GPUs are several results behind.

        Raises:
            IPCError: there is no memory, or the pool is closed.
        """
        deadline = math.inf
        while True:
            with self._lock:
                if self._closed:
                    raise IPCError("the pool of result slots is closed")
                self._sweep()
                slot, read = self._take_idle(nbytes)
                if slot is not None or read < _most_read(nbytes) or time.monotonic() > deadline:
                    self._allocations += 1
                    self._drop_surplus()
                    number = -1 if slot is not None else self._new_number()
                    break
            deadline = min(deadline, time.monotonic() + _PATIENCE)
            time.sleep(_GLANCE)
        if slot is None:
            slot = self._make_slot(number, nbytes)
        slot.holds, slot.is_retired = 1, False
        memory: Any = slot.memory
        if isinstance(memory, SharedBlock):
            slot.array = memory.array[:nbytes]
        return slot

    def give_back(self, slot: Slot[M]) -> None:
        """Take back a slot that was never lent, or was shared. Do nothing once the pool is closed."""
        with self._lock:
            self._take_back(slot)

    def share(self, slot: Slot[M]) -> None:
        """Let a slot that isn't lent yet be lent, or discarded, once more."""
        with self._lock:
            slot.holds += 1

    def abandon(self, slot: Slot[M]) -> None:
        """Take back a slot later. This takes no lock, so finalizers may call it."""
        self._abandoned.append(slot)

    def borrower(self) -> Borrower[M]:
        """Create the account of a consumer that has connected."""
        borrower = Borrower(self)
        with self._lock:
            self._borrowers.append(borrower)
        return borrower

    def trim(self) -> None:
        """Free all idle slots. The caller must send each consumer the numbers from its `Borrower.take_detached`."""
        with self._lock:
            self._sweep()
            for slot in self._idle:
                self._give_up(slot)
            self._idle.clear()

    def stats(self) -> SlotStats:
        """Count the slots."""
        with self._lock:
            self._sweep()
            lent = sum(int(np.count_nonzero(borrower.generations)) for borrower in self._borrowers)
            nbytes = sum(slot.memory.nbytes for slot in self._slots.values())
            return SlotStats(len(self._slots), lent, len(self._idle), nbytes)

    def close(self, *, keep_mapped: bool = False) -> None:
        """Free all memory. The mappings of consumers stay valid.

        Args:
            keep_mapped: leave memory that consumers may have mapped to the end of the process. For CUDA, freeing it
                invalidates their mappings, and a copy from it may be waiting on a stream of the training.
        """
        with self._lock:
            self._closed = True
            mapped = set(self._leaving)
            for borrower in self._borrowers:
                mapped.update(borrower.attached.values())
                borrower.control.close()
            self._borrowers.clear()
            for slot in self._slots.values():
                slot.array = None
                if not (keep_mapped and slot in mapped):
                    slot.memory.close()
            self._slots.clear()
            self._leaving.clear()
            self._idle.clear()
            self._abandoned.clear()

    def lend(self, slot: Slot[M], borrower: Borrower[M], private: bool = False) -> tuple[int, bool]:
        """Lend an allocated slot. Return the generation of the loan, and whether the slot is new to the borrower.

        Args:
            slot: the slot.
            borrower: the account of the consumer.
            private: whether the consumer maps the memory for this loan only, because other consumers get it, too.

        Raises:
            IPCError: too many slots are lent, the borrower is gone, or (a bug) the slot can't be lent.
        """
        number = slot.number
        with self._lock:
            if number >= CONTROL_NBYTES:
                raise IPCError(
                    f"{CONTROL_NBYTES} results are held at the same time, which is the maximum: drop batches after use"
                )
            if borrower not in self._borrowers:
                raise IPCError("the consumer is gone")
            if self._slots.get(number) is not slot or slot in self._idle or slot.holds <= self._loans(slot):
                raise IPCError(f"slot {number} can't be lent: it is idle, already lent or abandoned")
            if borrower.generations[number]:
                raise IPCError(f"slot {number} is already lent to this consumer")
            attach = not private and borrower.attached.get(number) is not slot
            if attach:
                borrower.attached[number] = slot
                if number in borrower.detached:  # attaching the new slot replaces the old one
                    borrower.detached.remove(number)
            generation = borrower.last_generation.get(number, 0) % _GENERATIONS + 1
            borrower.last_generation[number] = generation
            borrower.page[number] = 0
            borrower.generations[number] = generation
            slot.array = None
            return generation, attach or private

    def recall(self, slot: Slot[M], borrower: Borrower[M], attached: bool) -> None:
        """Take back a loan that the borrower wasn't notified of; detach the slot again if the loan `attached` it."""
        with self._lock:
            if borrower in self._borrowers and self._slots.get(slot.number) is slot:
                if attached:
                    borrower.attached.pop(slot.number, None)
                    borrower.detached.append(slot.number)  # it may have an older slot of this number
                borrower.generations[slot.number] = 0
                self._release(slot)

    def end(self, borrower: Borrower[M]) -> None:
        """Close a borrower's account. The slots that it holds aren't reused: its tensors may live on."""
        with self._lock:
            if borrower not in self._borrowers:
                return
            self._sweep()
            self._borrowers.remove(borrower)
            for number in np.flatnonzero(borrower.generations).tolist():
                self._release(self._slots[number], retire=True)
            for slot in [each for each in self._idle if borrower.attached.get(each.number) is each]:
                if self._is_used is not None and self._is_used(slot.memory):  # forever, if the consumer died
                    self._idle.remove(slot)
                    self._give_up(slot)
            borrower.attached.clear()
            borrower.control.close()

    def _sweep(self) -> None:
        """Take back the slots that consumers have returned and those that were abandoned."""
        while self._abandoned:
            self._take_back(self._abandoned.popleft())
        for borrower in self._borrowers:
            generations = borrower.generations[: self._next_number]
            page = borrower.page[: self._next_number]
            for number in _returned(generations, page, self._next_number, RETIRED):
                generations[number] = 0
                self._release(self._slots[number], retire=bool(page[number] & RETIRED))
        for slot, borrowers in list(self._leaving.items()) if self._leaving else ():
            if all(each not in self._borrowers or each.page[slot.number] == RETIRED for each in borrowers):
                del self._leaving[slot]
                self._forget(slot)

    def _take_back(self, slot: Slot[M]) -> None:
        if self._slots.get(slot.number) is slot and slot not in self._idle and slot.holds > self._loans(slot):
            self._release(slot)

    def _loans(self, slot: Slot[M]) -> int:
        number = slot.number
        if number >= CONTROL_NBYTES:
            return 0
        loans = 0
        for borrower in self._borrowers:
            loans += bool(borrower.generations[number])
        return loans

    def _release(self, slot: Slot[M], retire: bool = False) -> None:
        """End a loan, or a result that wasn't lent. The last one makes the slot idle, or frees it."""
        slot.is_retired |= retire
        slot.holds -= 1
        if slot.holds > 0:
            return
        if slot.is_retired:
            self._give_up(slot)
        else:
            self._make_idle(slot)

    def _make_idle(self, slot: Slot[M]) -> None:
        slot.array = None
        slot.idle_at, slot.idle_since = self._allocations, time.monotonic()
        self._idle.append(slot)

    def _take_idle(self, nbytes: int) -> tuple[Slot[M] | None, int]:
        """Return the smallest idle slot that fits and isn't far too large; of several, the most recently used one.

        The second result is the size of all slots that would fit, but that a GPU may still read.
        """
        limit, least = _sizes(nbytes)
        best: Slot[M] | None = None
        read = 0
        for slot in reversed(self._idle):
            size = slot.memory.nbytes
            if nbytes <= size <= limit and (best is None or size < best.memory.nbytes):
                if self._is_used is not None and self._is_used(slot.memory):
                    read += min(size, least)
                else:
                    best = slot
                    if size <= least:  # none that fits is smaller
                        break
        if best is not None:
            self._idle.remove(best)
        return best, read

    def _drop_surplus(self) -> None:
        while self._idle and self._idle[0].idle_at + _MAX_IDLE < self._allocations:
            if time.monotonic() - self._idle[0].idle_since < _IDLE_SECONDS:
                return
            self._give_up(self._idle.pop(0))

    def _make_slot(self, number: int, nbytes: int) -> Slot[M]:
        """Return a new slot. It is as large as the largest one that fits, so that all of them soon fit every batch."""
        limit, least = _sizes(nbytes)
        with self._lock:
            sizes = [slot.memory.nbytes for slot in self._slots.values() if slot.memory.nbytes <= limit]
        try:
            slot = Slot(self, number, self._make_memory(least, max(sizes, default=0)))
        except BaseException:
            with self._lock:
                heapq.heappush(self._free_numbers, number)
            raise
        with self._lock:
            self._slots[number] = slot
        return slot

    def _make_memory(self, least: int, wanted: int) -> M:
        if wanted > least:
            with suppress(Exception):  # memory is short, but there may be enough for the batch
                return self._make(wanted)
        with suppress(Exception):
            return self._make(least)
        self.trim()  # idle slots may be what fills the memory
        return self._make(least)

    def _new_number(self) -> int:
        if self._free_numbers:
            return heapq.heappop(self._free_numbers)
        self._next_number += 1
        return self._next_number - 1

    def _give_up(self, slot: Slot[M]) -> None:
        """Free a slot that is neither idle nor being filled; list it as detached for borrowers that have mapped it."""
        number = slot.number
        holders = [borrower for borrower in self._borrowers if borrower.attached.get(number) is slot]
        for borrower in holders:
            del borrower.attached[number]
            borrower.page[number] = 0
            borrower.detached.append(number)
        if self._needs_consent and holders:
            self._leaving[slot] = holders
        else:
            self._forget(slot)

    def _forget(self, slot: Slot[M]) -> None:
        del self._slots[slot.number]
        heapq.heappush(self._free_numbers, slot.number)
        slot.array = None
        slot.memory.close()


class Borrower(Generic[M]):
    """The account of one consumer with a pool, from `SlotPool.borrower`. It is closed when the consumer disconnects.

    Attributes:
        control: the control page, to be passed to the consumer.
    """

    def __init__(self, pool: SlotPool[M]) -> None:
        self.pool = pool
        self.control = SharedBlock.create(CONTROL_NBYTES)
        # The rest is guarded by the pool's lock.
        self.page = self.control.array
        self.generations = np.zeros(CONTROL_NBYTES, np.uint8)  # of the current loans; 0 for none
        self.last_generation: dict[int, int] = {}
        self.attached: dict[int, Slot[M]] = {}  # slots that the consumer has mapped, by number
        self.detached: list[int] = []  # numbers of slots that the consumer should unmap

    def take_detached(self) -> tuple[int, ...]:
        """Return the numbers of slots that the consumer should unmap, once. Send them before the next loan."""
        if not self.detached:  # the usual case: no lock is needed to see that
            return ()
        with self.pool._lock:
            detached, self.detached = tuple(self.detached), []
            return detached

    def close(self) -> None:
        """End the account: the consumer is gone."""
        self.pool.end(self)


def _returned_in_python(
    generations: npt.NDArray[np.uint8], page: npt.NDArray[np.uint8], count: int, retired: int
) -> list[int]:
    """Return the numbers of the lent slots whose bytes in the page show their return; see tables.h."""
    numbers: list[int] = np.flatnonzero((generations != 0) & (page & ~np.uint8(retired) == generations)).tolist()
    return numbers


_returned: Callable[..., list[int]] = _returned_in_python if compiled is None else compiled.returned


def _most_read(nbytes: int) -> int:
    """Return the size of the slots that a GPU reads from which on an allocation waits."""
    return max(_READ_BYTES, _READ_SLOTS * _sizes(nbytes)[1])


@lru_cache(maxsize=64)
def _sizes(nbytes: int) -> tuple[int, int]:
    """Return the sizes of the largest slot that isn't far too large for a request, and of a new one.

    A new one is rounded up in steps of an eighth, so that batches of nearly the same size share slots.
    """
    step = 1 << max(nbytes.bit_length() - 4, _PAGE.bit_length() - 1)
    return max(_FITS * nbytes, 16 * _PAGE), -(-nbytes // step) * step or _PAGE
