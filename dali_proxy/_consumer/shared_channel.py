"""A channel to a server that the threads of a process share: they take turns at receiving."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakMethod

from dali_proxy._consumer.pending_requests import Deadline, PendingRequest, PendingRequests, fresh
from dali_proxy.errors import ProxyError, ServerDiedError
from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX
from dali_proxy.pipeline._concurrency.locks import is_held
from dali_proxy.pipeline._ipc.channel import Channel, Received
from dali_proxy.pipeline._ipc.errors import ChannelClosedError, ChannelTimeoutError, IPCError
from dali_proxy.pipeline._ipc.signals import run_signal_handlers

_GLANCE = 0.5  # seconds between checks of the deadline while waiting
_TURN = 0.05  # seconds between calls of signal handlers while another thread receives


class ChannelGuard(threading.local):
    """Reentrancy guard: a context that marks the current thread as being in the channel.

    Attributes:
        depth: number of these contexts that the thread is in.
    """

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *exc_info: object) -> None:
        self.depth -= 1


class SharedChannel:
    """A channel and the threads that wait for its messages. Thread-safe.

    One thread at a time receives for all, and the others wait until it has received their answers.

    Args:
        channel: the channel.
        requests: the requests of the threads.
        handle: method that handles a message. Only one thread at a time calls it. This object keeps no reference to the
            method's object, which owns it.
        explain: method that returns the reason for the end of the connection, for the error that showed it.

    Attributes:
        end: reason why the connection has ended; None while it lasts.
        peer_pid: ID of the server's process.
    """

    def __init__(
        self,
        channel: Channel,
        requests: PendingRequests,
        handle: Callable[[Received], None],
        explain: Callable[[ChannelClosedError], ProxyError],
    ) -> None:
        self._channel, self.peer_pid = channel, channel.peer_pid
        self._handle_method, self._explain_method = WeakMethod(handle), WeakMethod(explain)
        self._lock, self._changed = requests.lock, requests.changed
        #: A context in which finalizers of this thread don't use the channel.
        self.guard = ChannelGuard()
        self._receiving = False
        self._thread: threading.Thread | None = None
        self.end: ProxyError | None = None

    @property
    def ended(self) -> bool:
        """Whether the connection has ended, for any reason."""
        return self.end is not None or self._channel.closed

    def check(self) -> None:
        """Raise if the connection has ended.

        Raises:
            ServerClosedError, ServerDiedError: the connection has ended.
        """
        if self.end is not None:
            raise fresh(self.end)
        if self._channel.closed:
            raise ServerDiedError("the connection to the server was closed; the next loop makes a new one")

    def is_safe(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> bool:
        """Return whether a finalizer may use the channel now.

        A thread that is using the channel, or holds its lock, sends the rest of the releases with its next message.
        Elsewhere the locks are free, or a thread that doesn't depend on this one holds them briefly.
        """
        # The function is an argument because finalizers also run after modules have lost their globals.
        return not (self.guard.depth or is_held(self._lock) or is_finalizing())

    def post(self, message: Any, fds: Sequence[int] = ()) -> None:
        """Send a message without waiting for the server. Call it in a `guard`.

        Raises:
            IPCError: the message can't be sent.
        """
        self._channel.post(message, fds)

    def send(self, message: Any, timeout: float | None) -> None:
        """Send a message. Call it in a `guard`.

        Raises:
            ChannelTimeoutError: the server doesn't read.
            ChannelClosedError: the connection has ended; see `note_end`.
        """
        self._channel.send(message, timeout=timeout)

    def receive_always(self) -> None:
        """Start a thread that receives for all others until the connection ends."""
        self._receiving = True
        thread = threading.Thread(target=self._receive_until_end, name=f"{THREAD_PREFIX}results", daemon=True)
        thread.start()
        self._thread = thread

    def receive(self, seconds: float) -> None:
        """Wait until a message arrives, for some seconds at most, and handle it."""
        with self._lock:
            if self.end is not None:
                return
            waits = self._receiving
            if waits:
                self._changed.wait(min(seconds, _TURN))
            else:
                self._receiving = True
        if waits:
            run_signal_handlers()  # without the lock
        else:
            self._receive_in_turn(seconds)

    def receive_ready(self, *, rest: bool = False) -> None:
        """Handle the messages that have arrived, without waiting. Do nothing while a thread is receiving.

        Args:
            rest: read all remaining messages, because no further call follows.
        """
        with self._lock:
            if self._receiving:
                return
            self._receiving = True
        try:
            with self.guard:
                ready = self._channel.receive_ready(rest=rest)
            if ready:
                self._handle_all(ready)
        except ChannelClosedError:
            return  # the server is gone: waiting threads get that error
        except IPCError as error:
            self._note_unreadable(error)
        finally:
            with self._lock:
                self._receiving = False
                self._changed.notify_all()

    def wait(self, request: PendingRequest, deadline: Deadline, end: float = math.inf) -> None:
        """Wait until a request is answered, or until a time of `time.monotonic`.

        Raises:
            ProxyError: the deadline has passed, or the connection has ended.
        """
        waited = False
        while True:
            limit, left = deadline.left, end - time.monotonic()
            if limit is not None and limit < left:
                left = limit
            with self._lock:
                if request.answer is not None or (left <= 0 and end < math.inf):
                    return
                if waited and limit == 0:
                    raise deadline.error()
                waits = request.coming or (self._receiving and self.end is None)
                if waits:
                    self._changed.wait(min(left, _TURN))
                elif self.end is not None:
                    raise fresh(self.end)
                else:
                    self._receiving = True
            if waits:
                run_signal_handlers()  # without the lock
            else:
                self._receive_in_turn(left)
            waited = True

    def note_end(self, error: ChannelClosedError) -> ProxyError:
        """Record that the connection has ended. Return the reason, from the server's last message if there is one."""
        with self._lock:
            self._changed.wait_for(lambda: not self._receiving, _GLANCE)
            self.receive_ready(rest=True)
            self.end = self.end or self._explain(error)
            return self.end

    def note_if_ended(self) -> bool:
        """Record whether the server has closed the connection, without reading from it. Return whether it has."""
        if not (self.ended or self._channel.alive()):
            self.note_end(ChannelClosedError("the server closed the connection"))
        return self.ended

    def close(self, reason: ProxyError) -> None:
        """Close the channel; the reason is the one for later calls, unless the connection has ended before."""
        with self._lock:
            self.end = self.end or reason
        with self.guard:
            self._channel.close()
        if self._thread is not None:
            self._thread.join()

    def _explain(self, error: ChannelClosedError) -> ProxyError:
        explain = self._explain_method()
        assert explain is not None
        return explain(error)

    def _receive_until_end(self) -> None:
        try:
            while self.end is None:
                self._receive_one()
        except Exception as error:  # noqa: BLE001  # waiting threads must get any error
            with self._lock:
                self.end = self.end or ProxyError(f"can't read the server's message: {error}")
        with self._lock:
            self._changed.notify_all()

    def _receive_in_turn(self, left: float) -> None:
        try:
            self._receive_one(left)
        finally:
            with self._lock:
                self._receiving = False
                self._changed.notify_all()

    def _receive_one(self, left: float = _GLANCE) -> None:
        """Receive and handle one message, or return after a brief wait. Only one thread at a time may call this."""
        try:
            with self.guard:
                received = self._channel.receive(timeout=max(0.0, min(left, _GLANCE)))
        except ChannelTimeoutError:
            return
        except ChannelClosedError as error:
            with self._lock:
                self.end = self.end or self._explain(error)
            return
        except IPCError as error:
            self._note_unreadable(error)
            return
        self._handle_all([received])

    def _handle_all(self, ready: list[Received]) -> None:
        """Handle messages: all of them, even if a signal handler raises."""
        handle = self._handle_method()
        assert handle is not None  # its object owns this one
        number = 0
        try:
            for number, received in enumerate(ready, 1):  # noqa: B007
                handle(received)
        finally:
            if number < len(ready):
                self._handle_all(ready[number:])

    def _note_unreadable(self, error: IPCError) -> None:
        """Record that a message can't be read: the channel is closed now."""
        with self._lock:
            self.end = self.end or ServerDiedError(f"can't read the server's messages: {error}")
