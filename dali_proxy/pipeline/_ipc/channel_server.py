"""A thread that serves many channels. A slow, broken or hostile client doesn't delay the others."""

from __future__ import annotations

import heapq
import itertools
import os
import select
import threading
import time
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from dali_proxy.pipeline._concurrency.forking import drop_in_child
from dali_proxy.pipeline._concurrency.locks import Level, new_rlock
from dali_proxy.pipeline._ipc.channel import Channel, Received
from dali_proxy.pipeline._ipc.connecting import Listener
from dali_proxy.pipeline._ipc.errors import ChannelClosedError, ChannelTimeoutError, IPCError
from dali_proxy.pipeline._ipc.frames import Codec
from dali_proxy.pipeline._ipc.memory import as_descriptor_error

_READ, _WRITE = select.EPOLLIN, select.EPOLLOUT


class ChannelServer:
    """Accepts clients at paths, and passes their messages to callbacks on the thread that calls `run`.

    Callbacks must not wait. Any thread may answer with `Channel.post`: the server sends the rest when the client reads.
    If a callback raises, the server closes the channel of that client only. If a callback of `call_soon`, `call_later`
    or `watch` raises, the server writes the traceback to stderr and continues.

    Args:
        codec: messages of the protocol.
        on_message: called with a channel and a message; owns the descriptors.
        on_close: called once for each opened channel, with the error that ended it, or None if the peer closed it.
        farewell: returns the last message for a client whose channel an error ends; None to send none.
        handshake_timeout: seconds that a client has to authenticate itself.
        max_clients: limit of connections at a time.
    """

    def __init__(
        self,
        codec: Codec,
        *,
        on_message: Callable[[Channel, Received], None],
        on_close: Callable[[Channel, Exception | None], None],
        farewell: Callable[[Exception], object] | None = None,
        handshake_timeout: float = 5.0,
        max_clients: int = 1024,
    ) -> None:
        self._codec = codec
        self._on_message = on_message
        self._on_close = on_close
        self._farewell = farewell
        self._handshake_timeout = handshake_timeout
        self._max_clients = max_clients
        try:
            self._epoll = select.epoll()
            self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        except OSError as error:
            with suppress(AttributeError):
                self._epoll.close()
            raise as_descriptor_error(error, "couldn't create a descriptor of events") from error
        self._watched: dict[int, Callable[[int], object]] = {}  # what to call with the events of a descriptor
        self._numbers: dict[Channel, int] = {}  # descriptors of channels, which may be closed already
        self._listeners: list[Listener] = []
        # Guards the number of the bell against use after `close`. A signal handler may interrupt the holder.
        self._bell_lock = new_rlock(Level.LEAF, "doorbell")
        self._rung = False  # the bell rings: no other ring is needed until `run` makes the calls
        self._turning = 0  # the thread that runs callbacks, and makes the calls before it waits
        # All, including those that aren't authenticated yet, with the callback for when they are.
        self._channels: dict[Channel, Callable[[Channel], None]] = {}
        self._opened: set[Channel] = set()  # those that on_open was called with
        self._calls: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []  # a heap: time, order, callback
        self._order = itertools.count()
        self._stopping = False
        self._unsent: dict[Channel, None] = {}  # channels with posted messages, in order
        try:
            self._epoll.register(self._bell, _READ)
        except BaseException:
            self._release(unlink=True)
            raise
        drop_in_child(self)

    def listen(self, path: str, key: bytes, on_open: Callable[[Channel], None]) -> None:
        """Accept clients at a path. Call this on the server's thread, or before `run`.

        Args:
            path: path of the socket.
            key: secret that its clients must know.
            on_open: called with a channel whose peer has authenticated itself there.
        """
        listener = Listener(path, key, self._codec)
        self._listeners.append(listener)
        self._epoll.register(listener.fileno(), _READ)
        self._watched[listener.fileno()] = partial(self._accept, listener, on_open)

    def stop_listening(self, path: str) -> None:
        """Accept no more clients at a path, and remove its socket. Connections stay. Call this like `listen`."""
        for listener in [each for each in self._listeners if each.path == path]:
            self._listeners.remove(listener)
            del self._watched[listener.fileno()]
            self._epoll.unregister(listener.fileno())
            listener.close()

    def run(self) -> None:
        """Serve until `stop` is called; then close all channels and stop listening."""
        try:
            while not self._stopping:
                if self._unsent:
                    self._flush()
                self._turning = 0  # before the look at the calls: a signal handler may add one
                wait = None if not self._timers else max(self._timers[0][0] - time.monotonic(), 0.0)
                ready = deque(self._epoll.poll(0 if self._calls else wait))
                self._turning = threading.get_ident()
                while not self._take_turn(ready):
                    pass
            self._flush()
        finally:
            self.close()

    def _take_turn(self, ready: deque[tuple[int, int]]) -> bool:
        """Run all callbacks that are due. Return False after one that raises: its errors must not end the server."""
        try:
            while ready:
                number, events = ready.popleft()
                if number == self._bell:
                    os.eventfd_read(number)
                elif number in self._watched:  # an earlier callback may have ended it
                    self._watched[number](events)
            # Here, not where the bell is drained: a signal handler may raise there, and the bell would stay silent.
            self._rung = False
            while self._calls and not self._stopping:
                self._calls.popleft()()
            while self._timers and self._timers[0][0] <= time.monotonic():
                heapq.heappop(self._timers)[2]()
        except Exception:  # noqa: BLE001  # it belongs to no client
            traceback.print_exc()
            return False
        return True

    def post(self, channel: Channel, message: object, fds: Sequence[int] = ()) -> None:
        """Send a message to a client, on the server's thread, together with all others of this turn of the loop.

        End the connection if the client is gone or doesn't read, or no descriptor is left.
        """
        try:
            channel.post(message, fds, flush=False)
        except IPCError as error:
            self.end(channel, error)
        else:
            self._unsent[channel] = None

    def _flush(self) -> None:
        """Write what callbacks have posted: one system call for all messages to a client."""
        while self._unsent:
            channel, _ = self._unsent.popitem()
            try:
                if channel in self._channels and not channel.flush():
                    self._await_room(channel)
            except IPCError as error:
                self.end(channel, None if isinstance(error, ChannelClosedError) else error)

    def call_soon(self, call: Callable[[], None]) -> None:
        """Run `call` on the server's thread. Threads and signal handlers may call this; a closed server ignores it."""
        self._calls.append(call)
        # On the server's thread, too, unless it runs callbacks: after a signal handler, Python continues to wait.
        if not self._rung and self._turning != threading.get_ident():
            self._ring()

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Run `call` on the server's thread after `seconds`. Call this on that thread, or before `run`."""
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), call))

    def watch(self, fd: int, callback: Callable[[], None]) -> None:
        """Run `callback` whenever `fd` can be read. Call this on the server's thread, or before `run`."""
        self._epoll.register(fd, _READ)
        self._watched[fd] = lambda events: callback()

    def unwatch(self, fd: int) -> None:
        """End `watch`. Call this before you close `fd`."""
        del self._watched[fd]
        self._epoll.unregister(fd)

    def end(self, channel: Channel, error: Exception | None = None) -> None:
        """Close a channel, on the server's thread; `on_close` is called if it was open."""
        if channel not in self._channels:
            return
        if error is not None:
            self._explain(channel, error)
        del self._channels[channel]
        number = self._numbers.pop(channel)
        if number not in self._numbers.values():  # else this one has closed itself, and another one has its number
            del self._watched[number]
            with suppress(OSError):
                self._epoll.unregister(number)
        channel.close()
        if channel in self._opened:
            self._opened.remove(channel)
            self._on_close(channel, error)

    def _explain(self, channel: Channel, error: Exception) -> None:
        """Tell a client why its channel is closed now, if it still reads."""
        if self._farewell is not None and channel in self._opened:
            with suppress(IPCError):
                channel.post(self._farewell(error))

    def stop(self) -> None:
        """Make `run` return soon. Any thread and any signal handler may call this."""
        self._stopping = True
        self._ring()

    def close(self) -> None:
        """Close everything, while the server isn't running. A second call does nothing."""
        self._stopping = True
        for channel in list(self._channels):
            self.end(channel)
        self._release(unlink=True)

    def drop_inherited(self) -> None:
        """Drop the parent's server in a forked child. Keep the epoll set, which both processes share."""
        self._stopping = True
        self._channels.clear()
        self._numbers.clear()
        self._opened.clear()
        self._release(unlink=False)

    def _release(self, *, unlink: bool) -> None:
        self._epoll.close()
        self._watched.clear()
        for listener in self._listeners:
            listener.close(unlink=unlink)
        self._calls.clear()
        with self._bell_lock:
            bell, self._bell = self._bell, -1
            if bell >= 0:
                os.close(bell)

    def _ring(self) -> None:
        with self._bell_lock:
            if self._bell < 0:
                return
            try:
                self._rung = True
                os.eventfd_write(self._bell, 1)
            except BaseException:  # of a signal handler
                self._rung = False
                raise

    def _accept(self, listener: Listener, on_open: Callable[[Channel], None], events: int) -> None:
        channel = listener.accept()
        if channel is None:
            return
        if len(self._channels) >= self._max_clients:
            channel.close()
            return
        self._channels[channel] = on_open
        number = self._numbers[channel] = channel.fileno()
        self._watched[number] = partial(self._serve, channel)
        self._epoll.register(number, _READ)
        channel.on_loss = partial(self._explain, channel)
        channel.on_backlog = partial(self.call_soon, partial(self._await_room, channel))
        # A weak reference: a client that only tests whether a server listens is dropped at once.
        self.call_later(self._handshake_timeout, partial(self._expire, weakref.ref(channel)))

    def _expire(self, reference: weakref.ref[Channel]) -> None:
        channel = reference()
        if channel is not None and not channel.authenticated:
            self.end(
                channel,
                ChannelTimeoutError(f"process {channel.peer_pid} didn't authenticate itself in time"),
            )

    def _await_room(self, channel: Channel) -> None:
        if channel in self._channels and channel.backlog:
            self._epoll.modify(self._numbers[channel], _READ | _WRITE)

    def _serve(self, channel: Channel, events: int) -> None:
        try:
            if events & _WRITE and channel.flush():
                self._epoll.modify(self._numbers[channel], _READ)
            if events & ~_WRITE:
                self._receive(channel)
        except ChannelClosedError:
            self.end(channel)
        except Exception as error:  # noqa: BLE001 - the error belongs to this client: on_close gets it
            self.end(channel, error)

    def _receive(self, channel: Channel) -> None:
        received: deque[Received] = deque()
        try:
            received.extend(channel.receive_ready())
        finally:  # one read may contain a client's proof and an invalid message or its end
            if channel not in self._opened and channel.authenticated:
                self._opened.add(channel)
                self._channels[channel](channel)
        try:
            while received and channel in self._channels:
                self._on_message(channel, received.popleft())
        finally:
            for unhandled in received:
                unhandled.close_fds()
