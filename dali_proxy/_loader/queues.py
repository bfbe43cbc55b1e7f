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
import threading
import time
import weakref
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import Finalize, register_after_fork
from queue import Empty, SimpleQueue
from queue import Queue as ThreadQueue
from typing import Any

from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX
from dali_proxy.pipeline._ipc.signals import deferred_signals, let_through, run_signal_handlers

_AT_ONCE = select.PIPE_BUF - 8  # bytes of a message, with its length field, that a pipe accepts atomically
_BUFFER_SIZE, _READ_SIZE = 1 << 12, 1 << 20  # bytes to read at once, at least and at most
_LOOK = 60.0  # seconds after which a wait for the rest of a message is restarted
_TURN = 0.05  # seconds between calls of signal handlers, during waits that can't call them
_PATIENCE = 0.05  # seconds to wait for other writers: a full pipe may block their threads indefinitely
_LOOK_FOR_PARENT = 1.0  # seconds between checks at the end of a process


class DirectQueue:
    """A queue like `multiprocessing.Queue`, in which the caller of `put` writes short messages itself.

    If a message is long, the pipe is full or another process is writing, a thread sends the message and all later ones,
    in order, as in Python's queue. One process reads; in each process, one thread at a time uses the queue. A worker
    exits if the queue is empty and the process that fills it is gone.

    Args:
        context: creates the pipe and the lock, and starts the processes that get the queue.
    """

    def __init__(self, context: BaseContext) -> None:
        self.__setstate__((*context.Pipe(duplex=False), context.Lock(), os.getpid()))

    def __getstate__(self) -> tuple[Any, ...]:
        return self._reader, self._writer, self._lock, self._owner

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._reader, self._writer, self._lock, self._owner = state
        self._begin()
        register_after_fork(self, DirectQueue._begin)

    def _begin(self) -> None:
        self._closed, self._joins = False, True
        self._born_of = os.getppid()  # recorded as soon as this process has the queue
        self._messages = _Messages(self._reader.fileno())
        self._sender: _Sender | None = None

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """Send an object. Never waits until it is read. Drops it if no process is left that could read it."""
        if self._closed:
            raise ValueError("the queue is closed")
        data = ForkingPickler.dumps(obj)
        if self._sender is None:
            if len(data) <= _AT_ONCE and self._lock.acquire(True, _PATIENCE):
                try:
                    if _is_ready(self._writer, select.POLLOUT):
                        _write(self._writer, data)
                        return
                finally:
                    self._lock.release()
            self._sender = _Sender(self)
        self._sender.messages.put(bytes(data))

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the next object.

        Raises:
            Empty: none arrived in `timeout` seconds, or none is there and `block` is false.
        """
        if self._closed:
            raise ValueError("the queue is closed")
        if (timeout is not None or not block) and not self._messages.has_arrived((timeout or 0.0) if block else 0.0):
            if self.is_alone():  # torch notices only if the worker is a child of the process that started it
                raise SystemExit
            raise Empty
        return pickle.loads(self._messages.receive())

    def close(self) -> None:
        """End this process's use of the queue. Messages that it has put are still sent."""
        self._closed = True
        if self._sender is not None:
            self._sender.end()

    def join_thread(self) -> None:
        """Wait until all messages are written, after `close`."""
        if self._sender is not None:
            self._sender.thread.join()

    def cancel_join_thread(self) -> None:
        """Don't wait at the end of this process until all messages are written."""
        self._joins = False
        if self._sender is not None and self._sender.join is not None:
            self._sender.join.cancel()

    def is_alone(self) -> bool:
        """Return whether this process is a worker and the process that started it is gone."""
        return _is_alone(self._owner, self._born_of)


class _Sender:
    """Sends messages of a queue on a thread, which ends with the queue.

    Args:
        queue: the queue.

    Attributes:
        messages: the messages to send, in order.
        thread: the thread.
        end: ends the thread when all messages are written.
        join: waits for the thread at the end of the process; None if the queue doesn't wait.
    """

    def __init__(self, queue: DirectQueue) -> None:
        self.messages: SimpleQueue[bytes | None] = SimpleQueue()
        arguments = (self.messages, queue._writer, queue._lock)
        self.thread = threading.Thread(target=_send, args=arguments, name=f"{THREAD_PREFIX}long-messages", daemon=True)
        self.thread.start()
        self.end = Finalize(queue, self.messages.put, (None,), exitpriority=10)
        self.join: Finalize | None = None
        if queue._joins:
            arguments_of_join = (weakref.ref(self.thread), queue._owner, queue._born_of)
            self.join = Finalize(self.thread, _join, arguments_of_join, exitpriority=-5)


def _send(messages: SimpleQueue[bytes | None], writer: Connection[Any, Any], lock: Any) -> None:
    while (data := messages.get()) is not None:
        with lock:
            _write(writer, data)


def _write(writer: Connection[Any, Any], data: Any) -> None:
    # The garbage collector may have closed the reader before torch's iterator says goodbye to a worker that has ended.
    with suppress(BrokenPipeError):
        writer.send_bytes(data)


def _join(thread: weakref.ref[threading.Thread], owner: int, born_of: int) -> None:
    """Wait until all messages are written, unless the process that reads them is gone: this one has its pipe open."""
    alive = thread()
    while alive is not None and alive.is_alive() and not _is_alone(owner, born_of):
        alive.join(_LOOK_FOR_PARENT)


def _is_alone(owner: int, born_of: int) -> bool:
    parent = multiprocessing.parent_process()
    if parent is None or os.getpid() == owner:
        return False
    # Neither check is sufficient alone: processes that were forked alongside this one keep open the pipe through
    # which Python sees that the parent is alive; and a forkserver, which may have forked this process, outlives it.
    return os.getppid() != born_of or not parent.is_alive()


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

    Return `context` itself if it overrides Python's queues.
    """
    if context is None:
        context = multiprocessing.get_context()
    if type(context).Queue is not BaseContext.Queue or "Queue" in vars(context):
        return context
    made = copy.copy(context)
    # A queue with a limit, which torch doesn't make, is Python's.
    made.Queue = lambda maxsize=0: context.Queue(maxsize) if maxsize > 0 else DirectQueue(context)  # type: ignore
    return made


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
        """Return whether a whole message has arrived; wait for some seconds at most.

        A writer that is killed may leave a part of one, while other processes keep the pipe open.
        """
        end = time.monotonic() + timeout
        while missing := self._missing():
            if not _is_ready(self._fd, select.POLLIN, max(end - time.monotonic(), 0.0)):
                return False
            with deferred_signals:
                self._read(missing)
        return True

    def receive(self) -> bytes:
        """Wait for a message.

        Raises:
            EOFError: all writers have closed the pipe.
        """
        with deferred_signals:
            while missing := self._missing():
                if _is_ready(self._fd, select.POLLIN):
                    self._read(missing)
                else:
                    let_through(_is_ready, self._fd, select.POLLIN, _LOOK)
            begin, end = self._bounds()
            data = bytes(memoryview(self._data)[begin:end])
            del self._data[:end]
            return data

    def _bounds(self) -> tuple[int, int]:
        """Return where the next message begins and ends in the buffer, as far as its head has arrived."""
        begin = self.LENGTH.size
        if len(self._data) < begin:
            return begin, begin
        (length,) = self.LENGTH.unpack_from(self._data)
        if length == -1:
            begin += self.LONG_LENGTH.size
            if len(self._data) < begin:
                return begin, begin
            (length,) = self.LONG_LENGTH.unpack_from(self._data, self.LENGTH.size)
        return begin, begin + length

    def _missing(self) -> int:
        """Return the number of bytes of the next message, or of its head, that haven't arrived."""
        return max(self._bounds()[1] - len(self._data), 0)

    def _read(self, missing: int) -> None:
        data = os.read(self._fd, min(max(missing, _BUFFER_SIZE), _READ_SIZE))
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
