"""Queues between the training process and its workers that usually work without a feeder thread.

Python's queues pickle and write in a thread, since a pipe may be full. A loader's messages nearly always fit the pipe,
and on busy cores each batch would wait twice until that thread is scheduled.
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
from functools import cache, partial
from multiprocessing.context import BaseContext
from multiprocessing.queues import Queue
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import Finalize
from queue import Empty, Full
from queue import Queue as ThreadQueue
from typing import TYPE_CHECKING, Any

from dali_proxy.pipeline._ipc.signals import deferred_signals, let_through, run_signal_handlers

_AT_ONCE = select.PIPE_BUF - 8  # bytes of a message, with its length field, that a pipe accepts atomically
_BUFFER_SIZE, _READ_SIZE = 1 << 12, 1 << 20  # bytes to read at once, at least and at most
_LOOK = 60.0  # seconds after which a wait for the rest of a message is restarted
_TURN = 0.05  # seconds between calls of signal handlers, during waits that can't call them
_PATIENCE = 0.05  # seconds to wait for other writers: a full pipe may block their threads indefinitely

if TYPE_CHECKING:
    _Queue = Queue[Any]
else:
    _Queue = Queue


class DirectQueue(_Queue):
    """A `multiprocessing.Queue` with one reader, in which the caller of `put` pickles and writes short messages itself.

    If a message is long, the pipe is full or another process is writing, a thread sends the message and all later ones,
    in order, as in Python's queue. A worker exits if the queue is empty and the process that fills it is gone.
    """

    # Typeshed lacks these attributes of `multiprocessing.queues.Queue`.
    _closed: bool
    _opid: int  # id of the process that created the queue
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
            if self.is_alone():  # torch notices only if the worker is a child of the process that started it
                raise SystemExit from None
            raise

    def is_alone(self) -> bool:
        """Return whether this process is a worker and the process that started it is gone."""
        parent = multiprocessing.parent_process()
        if parent is None or os.getpid() == self._opid:
            return False
        # Neither check is sufficient alone: processes that were forked alongside this one keep open the pipe through
        # which Python sees that the parent is alive; and a forkserver, which may have forked this process, outlives it.
        return os.getppid() != self._born_of or not parent.is_alive()

    def _reset(self, after_fork: bool = False) -> None:
        super()._reset(after_fork)  # type: ignore[misc]
        self._born_of = os.getppid()  # recorded as soon as this process has the queue
        messages = _Messages(self._reader.fileno())  # this process is the only reader
        self._poll = messages.has_arrived  # Python's creates a selector for each call
        self._recv_bytes = messages.receive

    def _start_thread(self) -> None:
        super()._start_thread()  # type: ignore[misc]
        Finalize(self, _give_up_alone, (weakref.ref(self),), exitpriority=0)


class Pickled:
    """A pickle that is unpickled on arrival: the receiver gets the original object.

    Args:
        data: the pickle.
    """

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __reduce__(self) -> tuple[Any, ...]:
        return (pickle.loads, (self._data,))


def with_direct_queues(context: BaseContext | None) -> BaseContext:
    """Return a copy of `context` (None: the default one) that creates direct queues.

    Return `context` itself, with its queues, if it overrides them, or if Python's queues lack the private members that
    `DirectQueue` uses.
    """
    if context is None:
        context = multiprocessing.get_context()
    if type(context).Queue is not BaseContext.Queue or "Queue" in vars(context):
        return context
    if not _has_known_members(context):
        return context
    context = copy.copy(context)
    context.Queue = partial(DirectQueue, ctx=context)  # type: ignore[method-assign]
    return context


@cache
@deferred_signals  # Python discards the exception of a handler that it calls while the queue's connections are freed
def _has_known_members(context: BaseContext) -> bool:
    """Return whether Python's queues have the private members that `DirectQueue` uses, with the known meaning."""
    queue: Any = None
    try:
        queue = Queue(ctx=context)
        known = queue._opid == os.getpid() and queue._thread is None and queue._closed is False
        known &= {"_poll", "_recv_bytes"} <= vars(queue).keys() and callable(queue._start_thread)
        Queue._reset(queue, False)  # type: ignore[attr-defined]
        if not (known and queue._sem.acquire(True, 0.0) and queue._wlock.acquire(True, 0.0)):
            return False
        queue._writer.send_bytes(b"x")
        expected = _Messages.LENGTH.pack(1) + b"x"
        return _is_ready(queue._reader, select.POLLIN) and os.read(queue._reader.fileno(), 64) == expected
    except Exception:  # noqa: BLE001  # any error means that a member differs; plain queues are always possible
        return False
    finally:
        if queue is not None:
            queue.close()


def _give_up_alone(queue: weakref.ref[DirectQueue]) -> None:
    """At the end of a process, don't wait until all messages are written if the parent that reads them is gone.

    Python's queues would wait forever, because this process has the pipe's other end open, too.
    """
    alive = queue()
    if alive is not None and alive.is_alone():
        alive.cancel_join_thread()


def _is_ready(connection: Any, event: int, timeout: float = 0.0) -> bool:
    poll = select.poll()
    poll.register(connection, event)
    # A negative timeout would wait forever.
    return bool(let_through(poll.poll, math.ceil(timeout * 1000)) if timeout > 0 else poll.poll(0))


class _Messages:
    """Reads the messages of a `multiprocessing.Connection`, several at once. An interrupt loses no bytes.

    Args:
        fd: file descriptor of the pipe.
    """

    LENGTH, LONG_LENGTH = struct.Struct("!i"), struct.Struct("!Q")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._data = bytearray()

    def has_arrived(self, timeout: float = 0.0) -> bool:
        """Return whether a message is in the buffer, or anything in the pipe; wait for some seconds at most."""
        begin = self.LENGTH.size
        if len(self._data) >= begin:
            (length,) = self.LENGTH.unpack_from(self._data)
            if 0 <= length <= len(self._data) - begin:
                return True
        return _is_ready(self._fd, select.POLLIN, timeout)

    def receive(self) -> bytes:
        """Wait for a message.

        Raises:
            EOFError: all writers have closed the pipe.
        """
        with deferred_signals:
            begin = self.LENGTH.size
            self._fill(begin)
            (length,) = self.LENGTH.unpack_from(self._data)
            if length == -1:
                begin += self.LONG_LENGTH.size
                self._fill(begin)
                (length,) = self.LONG_LENGTH.unpack_from(self._data, self.LENGTH.size)
            self._fill(begin + length)
            data = bytes(memoryview(self._data)[begin : begin + length])
            del self._data[: begin + length]
            return data

    def _fill(self, size: int) -> None:
        while len(self._data) < size:
            if not _is_ready(self._fd, select.POLLIN):
                let_through(_is_ready, self._fd, select.POLLIN, _LOOK)
                continue
            data = os.read(self._fd, min(max(size - len(self._data), _BUFFER_SIZE), _READ_SIZE))
            if not data:
                raise EOFError
            self._data += data


def get_in_turns(queue: ThreadQueue[Any]) -> None:
    """Let `queue.get` with a timeout call signal handlers while it waits, as `DirectQueue.get` does."""
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
            run_signal_handlers()

    queue.get = get_in_turns  # type: ignore[method-assign]
