"""Queues between the training process and its workers that mostly need no threads.

Python's queues have a thread that pickles and writes, since a pipe may be full. What a loader puts fits a pipe nearly
always, and on busy cores each batch would wait for that thread's turn, twice.
"""

from __future__ import annotations

import copy
import math
import multiprocessing
import os
import pickle
import select
import struct
import time
import weakref
from functools import partial
from multiprocessing.context import BaseContext
from multiprocessing.queues import Queue
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import Finalize
from queue import Empty, Full
from queue import Queue as ThreadQueue
from typing import TYPE_CHECKING, Any

from pipeline._ipc.signals import deferred_signals, let_through

__all__ = ["DirectQueue", "Pickled", "get_in_turns", "with_direct_queues"]

_AT_ONCE = select.PIPE_BUF - 8  # bytes of a message that a pipe takes at once or not at all, its length included
_READ_SIZE = 1 << 20
_LOOK = 60.0  # seconds; a wait for the rest of a message begins anew after them
_TURN = 0.05  # seconds between calls of signal handlers, where a wait itself can't call them
_PATIENCE = 0.05  # seconds to wait for others that write: a thread of theirs may wait for room, which takes any time

if TYPE_CHECKING:
    _Queue = Queue[Any]
else:
    _Queue = Queue


class DirectQueue(_Queue):
    """`multiprocessing.Queue` whose short messages are pickled and written by whoever puts them.

    A message that is long, or finds the pipe full or others writing to it, goes through a thread, as there; so do all
    that follow it, in order. A worker that finds nothing to get, and nobody who would put it, ends.
    """

    # Typeshed doesn't know these of `multiprocessing.queues.Queue`.
    _closed: bool
    _opid: int  # of the process that made it
    _reader: Any
    _sem: Any
    _thread: Any
    _wlock: Any
    _writer: Any

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        data = ForkingPickler.dumps(obj)
        if not self._closed and self._thread is None and len(data) <= _AT_ONCE:
            if not self._sem.acquire(block, timeout):
                raise Full
            if self._wlock.acquire(block, _PATIENCE):
                try:
                    if _is_ready(self._writer, select.POLLOUT):
                        self._writer.send_bytes(data)
                        return
                finally:
                    self._wlock.release()
            self._sem.release()
        super().put(Pickled(bytes(data)), block, timeout)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        try:
            return super().get(block, timeout)
        except Empty:
            if self.is_alone():  # torch sees it only where workers are children of who started them
                raise SystemExit from None
            raise

    def is_alone(self) -> bool:
        """Tell whether this process is a worker, and who started it is gone."""
        parent = multiprocessing.parent_process()
        if parent is None or os.getpid() == self._opid:
            return False
        # Neither tells by itself: processes forked beside this one keep the pipe open by which Python sees that the
        # parent lives, and a forkserver, whose child this process may be, outlives the parent.
        return os.getppid() != self._born_of or not parent.is_alive()

    def _reset(self, after_fork: bool = False) -> None:
        super()._reset(after_fork)  # type: ignore[misc]
        self._born_of = os.getppid()  # as early as this process has the queue
        # Python's makes a selector for each call. A method of this object would keep it until the garbage is collected.
        self._poll = partial(_is_ready, self._reader, select.POLLIN)
        self._recv_bytes = _Messages(self._reader.fileno()).receive

    def _start_thread(self) -> None:
        super()._start_thread()  # type: ignore[misc]
        Finalize(self, _give_up_alone, (weakref.ref(self),), exitpriority=0)


class Pickled:
    """An object that was pickled, which arrives as that object.

    Args:
        data: the pickle.
    """

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __reduce__(self) -> tuple[Any, ...]:
        return (pickle.loads, (self._data,))


def with_direct_queues(context: BaseContext | None) -> BaseContext:
    """Return a context like the given one, or the default one, that makes these queues."""
    if context is None:
        context = multiprocessing.get_context()
    if type(context).Queue is not BaseContext.Queue or "Queue" in vars(context):
        return context  # somebody has queues of their own
    context = copy.copy(context)
    context.Queue = partial(DirectQueue, ctx=context)  # type: ignore[method-assign]
    return context


def _give_up_alone(queue: weakref.ref[DirectQueue]) -> None:
    """As a process ends: don't wait until everything is written if the parent, which would read it, is gone.

    Python's queues wait for ever then: their own process has the pipe's other end open, too.
    """
    alive = queue()
    if alive is not None and alive.is_alone():
        alive.cancel_join_thread()


def _is_ready(connection: Any, event: int, timeout: float = 0.0) -> bool:
    poll = select.poll()
    poll.register(connection, event)
    # Less than 0 would be for ever.
    return bool(let_through(poll.poll, math.ceil(timeout * 1000)) if timeout > 0 else poll.poll(0))


class _Messages:
    """Reads the messages of a `multiprocessing.Connection`. What has come of one is kept when the wait is interrupted.

    Args:
        fd: of the pipe.
    """

    _LENGTH, _LONG_LENGTH = struct.Struct("!i"), struct.Struct("!Q")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._data = bytearray()

    def receive(self) -> bytes:
        """Wait for a message.

        Raises:
            EOFError: nobody can write any more.
        """
        with deferred_signals:
            begin = self._LENGTH.size
            self._fill(begin)
            (length,) = self._LENGTH.unpack_from(self._data)
            if length == -1:
                begin += self._LONG_LENGTH.size
                self._fill(begin)
                (length,) = self._LONG_LENGTH.unpack_from(self._data, self._LENGTH.size)
            self._fill(begin + length)
            data, self._data = bytes(memoryview(self._data)[begin:]), bytearray()
            return data

    def _fill(self, size: int) -> None:
        while len(self._data) < size:
            if not _is_ready(self._fd, select.POLLIN):
                let_through(_is_ready, self._fd, select.POLLIN, _LOOK)
                continue
            data = os.read(self._fd, min(size - len(self._data), _READ_SIZE))
            if not data:
                raise EOFError
            self._data += data


def get_in_turns(queue: ThreadQueue[Any]) -> None:
    """Have `queue.get` with a timeout call handlers of signals while it waits, as that of a `DirectQueue` does."""
    get = queue.get

    def get_in_turns(block: bool = True, timeout: float | None = None) -> Any:
        if not block or timeout is None:
            return get(block, timeout)
        end = time.monotonic() + timeout
        while True:
            left = end - time.monotonic()
            try:
                return get(timeout=min(max(left, 0.0), _TURN))
            except Empty:
                if left <= _TURN:
                    raise
            let_through(int)

    queue.get = get_in_turns  # type: ignore[method-assign]
