"""A counter and a doorbell: a reader of shared memory notifies its writer of the requests that it has read."""

from __future__ import annotations

import os
import select
import time
from contextlib import ExitStack
from typing import Protocol

import numpy as np

from dali_proxy.pipeline._concurrency.locks import Level, new_lock, new_rlock
from dali_proxy.pipeline._ipc.errors import ChannelClosedError, ChannelTimeoutError, ProtocolError
from dali_proxy.pipeline._ipc.memory import SharedBlock, as_descriptor_error
from dali_proxy.pipeline._ipc.signals import deferred_signals, let_through

_PAGE = 4096
_COUNT, _WAITING = 0, 1  # indices of words in the page: the counter, and whether the other side waits for it
_GLANCE = 0.1  # seconds between reads of the counter while waiting; see `CompletionReader._await`
_HANG_UP = select.POLLHUP | select.POLLERR | select.POLLNVAL | select.POLLRDHUP


class Peer(Protocol):
    """An object whose descriptor shows the end of the peer, such as a `Channel`."""

    def fileno(self) -> int: ...

    def begin_use(self) -> None:
        """Keep the number of the descriptor from being used again until `end_use`."""

    def end_use(self) -> None:
        """End what `begin_use` began."""


class CompletionWriter:
    """The side that reads requests. It creates the page and the doorbell, and passes both to the peer.

    The peer numbers requests 0, 1, 2, … Any thread may complete them, in any order. The counter in the page is the
    number of requests that are completed without a gap, so the peer reads one number.
    """

    def __init__(self) -> None:
        self._lock = new_lock(Level.LEAF, "completion writer")
        self._page = SharedBlock.create(_PAGE)
        self._words = self._page.array[:16].view(np.int64)
        self._begun = 0
        self._count = 0  # every request below it is completed; equals the counter in the page
        self._ahead: set[int] = set()  # completed requests above _count
        try:
            self._doorbell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        except OSError as error:
            self._page.close()
            raise as_descriptor_error(error, "couldn't create an event descriptor") from error

    @property
    def fds(self) -> tuple[int, int]:
        """The two descriptors for the peer's `CompletionReader`."""
        return self._page.fd, self._doorbell

    @property
    def in_flight(self) -> int:
        """Number of requests that were begun and not completed."""
        with self._lock:
            return self._begun - self._count - len(self._ahead)

    @property
    def is_awaited(self) -> bool:
        """Whether the peer waits until another request is completed."""
        with self._lock:
            return self._doorbell >= 0 and bool(self._words[_WAITING])

    def begin(self, seq: int) -> None:
        """Register a request that has arrived.

        Raises:
            ProtocolError: `seq` isn't the number that comes next.
        """
        with self._lock:
            if seq != self._begun:
                raise ProtocolError(f"request {seq} arrived, but {self._begun} was expected")
            self._begun += 1

    def complete(self, seq: int) -> None:
        """Report that this side won't read request `seq` again. A second call, or one after `close`, does nothing."""
        with self._lock:
            if self._doorbell < 0 or not self._count <= seq < self._begun:
                return
            self._ahead.add(seq)
            if seq != self._count:
                return
            while self._count in self._ahead:
                self._ahead.remove(self._count)
                self._count += 1
            self._words[_COUNT] = self._count
        with self._lock:  # taken anew: the counter is written before the other word is read
            if self._doorbell >= 0 and self._words[_WAITING]:
                try:
                    os.eventfd_write(self._doorbell, 1)
                except BlockingIOError:
                    pass  # it rings already

    def close(self) -> None:
        with self._lock:
            self._page.close()
            doorbell, self._doorbell = self._doorbell, -1
            if doorbell >= 0:
                os.close(doorbell)


class CompletionReader:
    """The side that writes requests: reads the counter, and waits for it to move.

    Args:
        page: descriptor of the peer's page; owned from now on.
        doorbell: descriptor of the peer's doorbell; owned from now on.
        peer: channel to the process that writes the counter.
    """

    def __init__(self, page: int, doorbell: int, peer: Peer | None = None) -> None:
        self._doorbell = doorbell
        self._peer = peer
        try:
            self._page = SharedBlock.attach(page, _PAGE)
        except BaseException:
            os.close(doorbell)
            raise
        self._page.close_fd()
        self._words = self._page.array[:16].data.cast("q")  # NumPy takes three times as long for a number
        self._order = new_rlock(Level.LEAF, "completion reader")  # guards the two below
        self._waiting = 0  # threads: the last one closes the doorbell, so its number isn't reused under them
        self._closed = False

    @property
    def count(self) -> int:
        """Number of completed requests: all those with a smaller number."""
        return self._words[_COUNT]

    def wait(self, count: int, timeout: float | None = None) -> None:
        """Wait until at least `count` requests are completed.

        The bell wakes one thread; other waiting threads read the counter every 0.1 s.

        Raises:
            ChannelClosedError: the peer is gone, or this is closed.
            ChannelTimeoutError: it takes longer than `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with deferred_signals, ExitStack() as stack:
            if self._peer is not None:
                self._peer.begin_use()
                stack.callback(self._peer.end_use)
            self._begin_wait()
            try:
                with self._order:  # taken anew: the word is written before the counter is read
                    poll = select.poll()
                poll.register(self._doorbell, select.POLLIN)
                if self._peer is not None:
                    poll.register(self._peer.fileno(), select.POLLRDHUP)
                self._await(count, poll, deadline, timeout)
            finally:
                self._end_wait()

    def _begin_wait(self) -> None:
        with self._order:
            if self._closed:
                raise ChannelClosedError("the channel to the reader of the shared memory is closed")
            self._waiting += 1
            self._words[_WAITING] = 1

    def _end_wait(self) -> None:
        with self._order:
            self._waiting -= 1
            if not self._waiting:
                self._words[_WAITING] = 0
                self._dispose()

    def _await(self, count: int, poll: select.poll, deadline: float | None, timeout: float | None) -> None:
        while self.count < count:
            if self._closed:
                raise ChannelClosedError("the channel to the reader of the shared memory was closed")
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise ChannelTimeoutError(f"request {count - 1} wasn't read within {timeout:g} s")
            # Locks keep reads behind writes on the known processors; on others, this side may miss a bell.
            glance = _GLANCE if left is None else min(left, _GLANCE)
            for fd, event in let_through(poll.poll, glance * 1000 + 1):
                if fd == self._doorbell and event & select.POLLIN and not self._closed:  # then it rings for all
                    try:
                        os.eventfd_read(self._doorbell)
                    except BlockingIOError:
                        pass
                elif event & _HANG_UP and self.count < count:
                    raise ChannelClosedError("the reader of the shared memory is gone")

    def close(self) -> None:
        """Release the page and the bell, and wake waiting threads."""
        with deferred_signals, self._order:
            self._closed = True
            if self._waiting:
                os.eventfd_write(self._doorbell, 1)  # waiting threads still poll the descriptor
            else:
                self._dispose()

    def _dispose(self) -> None:
        if self._closed and self._doorbell >= 0:
            os.close(self._doorbell)
            self._doorbell = -1
            self._page.close()
