"""A connection between two processes that carries messages and descriptors in both directions, with deadlines."""

from __future__ import annotations

import array
import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dali_proxy.pipeline._concurrency.forking import drop_in_child
from dali_proxy.pipeline._concurrency.locks import Level, new_lock, new_rlock
from dali_proxy.pipeline._ipc.authentication import ServerHandshake
from dali_proxy.pipeline._ipc.errors import (
    AuthenticationError,
    ChannelClosedError,
    ChannelTimeoutError,
    DescriptorLimitError,
    IPCError,
    ProtocolError,
)
from dali_proxy.pipeline._ipc.frames import MAX_FDS, Codec, Frame, FrameParser, Outgoing, close_all, encode_frame
from dali_proxy.pipeline._ipc.signals import deferred_signals, finalizer, let_through

_READ_SIZE = 1 << 16
_READS_PER_TURN = 16  # so that a client that sends without a pause can't starve the others
_ANCILLARY = socket.CMSG_SPACE(MAX_FDS * array.array("i").itemsize)
# Plain integers: enums take as long as a system call.
_CLOSE_ON_EXEC, _TRUNCATED = int(socket.MSG_CMSG_CLOEXEC), int(socket.MSG_CTRUNC)
_NONE = array.array("i")
_CLOSED = "this channel is closed (or was inherited by a forked process)"
_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL | select.POLLRDHUP


class Received(NamedTuple):
    """A message, and the descriptors that came with it. The handler of the message owns them."""

    message: Any
    fds: tuple[int, ...] = ()

    def close_fds(self) -> None:
        if self.fds:
            close_all(self.fds)


class Channel:
    """Sends and receives the messages of one `Codec` over a stream socket. Thread-safe.

    The socket never blocks. Methods that wait do so in ``poll``, with a deadline, and notice when the peer is gone. A
    program uses `send` and `receive`; a loop that serves many peers uses `post`, `flush` and `receive_ready`, which
    never wait. A forked child closes the channel at once, so that the peer notices when the parent closes its end.

    Args:
        sock: a connected ``AF_UNIX`` stream socket; owned from now on.
        codec: the messages of both directions.
        handshake: authenticates the peer before anything is read or posted; None to trust the peer.
        peer_pid: process at the other end, for error messages.
        max_outgoing: bytes that may wait for a peer that doesn't read.
        max_fds: maximum number of descriptors that the peer may send with a message.

    Attributes:
        peer_pid: process at the other end.
        closed: whether this end is closed.
        on_backlog: callback, on any thread, for when `post` has left data for `flush`.
        on_loss: callback, on the receiving thread, for when descriptors were lost, just before the channel is closed.
    """

    def __init__(
        self,
        sock: socket.socket,
        codec: Codec,
        *,
        handshake: ServerHandshake | None = None,
        peer_pid: int = 0,
        max_outgoing: int = 8 << 20,
        max_fds: int = MAX_FDS,
    ) -> None:
        sock.setblocking(False)
        self.peer_pid = peer_pid
        self.on_backlog: Callable[[], None] | None = None
        self.on_loss: Callable[[Exception], None] | None = None
        self._sock = sock
        self._codec = codec
        # Guards _outgoing, _users, closed. A finalizer or signal handler that closes the channel may interrupt the
        # holder of the lock.
        self._lock = new_rlock(Level.CHANNEL, "channel")
        self._receive_lock = new_lock(Level.RECEIVE, "channel receiver")
        self._parser = FrameParser(max_fds)
        self._ready: deque[Received] = deque()
        self._outgoing = Outgoing(sock, peer_pid, max_outgoing)
        self._users = 0  # threads that use the socket: the last one closes it, so its number isn't reused under them
        self.closed = False
        self._handshake = handshake
        self._proof = bytearray()
        drop_in_child(self)
        if handshake is not None:
            self._write(handshake.greeting, ())

    @classmethod
    def pair(cls, codec: Codec) -> tuple[Channel, socket.socket]:
        """Return a channel, and its other end as a socket that a child process can inherit."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(ours, codec), theirs

    @property
    def authenticated(self) -> bool:
        """Whether the peer has authenticated itself."""
        return self._handshake is None

    @property
    def backlog(self) -> int:
        """Number of frames that wait for the peer to read."""
        return self._outgoing.count

    def fileno(self) -> int:
        """The descriptor, or -1 when closed."""
        return -1 if self.closed else self._sock.fileno()

    def alive(self) -> bool:
        """Return whether both ends are open. Data that the peer sent before it closed its end can still be received."""
        with deferred_signals, self._lock:
            return not (self.closed or self._wait(0, 0))

    def send(self, message: object, fds: Sequence[int] = (), timeout: float | None = None) -> None:
        """Send a message, and wait until the kernel has all of it. The caller still owns `fds`.

        Raises:
            ChannelClosedError: the channel is closed, or the peer is gone.
            ChannelTimeoutError: the peer doesn't read. The message is sent when it does.
            ProtocolError: the message doesn't fit its schema.
        """
        self.begin_use()
        try:
            number, body = self._codec.encode(message)
            self._wait_written(self._write(encode_frame(number, body, len(fds)), fds), timeout)
        finally:
            self.end_use()

    def wait_written(self, timeout: float | None = None) -> None:
        """Wait until the kernel has all that was posted. Raises as `send`."""
        outgoing = self._outgoing
        if not outgoing.count and not self.closed:
            return
        self.begin_use()
        try:
            self._wait_written(outgoing.written + outgoing.count, timeout)
        finally:
            self.end_use()

    def post(self, message: object, fds: Sequence[int] = (), *, flush: bool = True) -> bool:
        """Send a message without waiting: data that doesn't fit into the socket stays for `flush`.

        Return whether the kernel has all that was posted.

        Args:
            message: the message.
            fds: descriptors to send with it; the caller still owns them.
            flush: whether to write now; if not, the caller calls `flush` after its last message.

        Raises:
            ChannelClosedError: the channel is closed, or the peer is gone.
            ChannelOverflowError: the peer doesn't read, and too much data waits for it.
            ProtocolError: the message doesn't fit its schema.
        """
        number, body = self._codec.encode(message)
        data = encode_frame(number, body, len(fds))
        with self._lock:
            if self.closed:
                raise ChannelClosedError(_CLOSED)
            self._users += 1  # a handler or finalizer of this thread may close the channel
            try:
                self._outgoing.put(data, fds, flush)
            finally:
                self._users -= 1
                if self.closed:
                    self._dispose_unused()
        is_written = not self._outgoing.count
        if flush and not is_written and self.on_backlog is not None:
            self.on_backlog()
        return is_written

    def flush(self) -> bool:
        """Write as much as the socket accepts. Return whether nothing is left."""
        with self._lock:
            if self.closed:
                raise ChannelClosedError(_CLOSED)
            return self._outgoing.flush()

    def receive(self, timeout: float | None = None) -> Received:
        """Wait for the next message. Write what waits to be written, because nothing else may do so meanwhile.

        Raises:
            ChannelClosedError: the channel is closed, or the peer is gone and all its messages were received.
            ChannelTimeoutError: nothing arrived for `timeout` seconds.
            ProtocolError: the data isn't a message; the channel is closed.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._receive_lock.acquire(timeout=-1 if timeout is None else max(timeout, 0.0)):
            raise ChannelTimeoutError(f"another thread is receiving from process {self.peer_pid}")
        try:
            self.begin_use()
            try:
                if self._outgoing.count:
                    self.flush()
                while not self._ready:
                    self._wait_until(select.POLLIN, deadline, "to answer")
                    self._read()
                return self._ready.popleft()
            finally:
                self.end_use()
        finally:
            self._receive_lock.release()

    def receive_ready(self, *, rest: bool = False) -> list[Received]:
        """Return messages that have arrived, without waiting.

        Args:
            rest: read until the socket is empty. Use it if nothing will notify the caller of remaining data; a caller
                that polls the socket avoids a useless system call without it.

        Raises:
            AuthenticationError: the peer failed to authenticate itself.
            ChannelClosedError: the channel is closed, or the peer is gone and all its messages were returned.
            ProtocolError: the data isn't a message; the channel is closed.
        """
        with self._receive_lock, self._lock:
            if self.closed:
                raise ChannelClosedError(_CLOSED)
            self._users += 1  # a handler or finalizer of this thread may close the channel
            try:
                if self._handshake is not None and not self._authenticate(self._handshake):
                    return []
                try:
                    for _ in range(_READS_PER_TURN):
                        if not self._read() and not rest:
                            break
                except ChannelClosedError:
                    if not self._ready:
                        raise
                ready, self._ready = list(self._ready), deque()
                return ready
            finally:
                self._users -= 1
                if self.closed:
                    self._dispose_unused()

    def close(self) -> None:
        """Close the channel, and wake the threads that wait on it. The peer still gets the data that was written."""
        with self._lock:
            if self.closed:
                return
            try:
                self._outgoing.flush()
                self._sock.shutdown(socket.SHUT_RDWR)
            except (OSError, IPCError) as error:
                if isinstance(error, OSError) and error.errno is None:
                    raise  # a signal handler raised it; else the peer is gone already
            finally:
                self.closed = True
                self._dispose_unused()

    def drop_inherited(self) -> None:
        """In a forked child: the connection is the parent's, and only the parent's end may keep it open."""
        self.closed = True
        self._dispose()

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @finalizer
    def __del__(self) -> None:
        if hasattr(self, "_proof"):  # `__init__` has succeeded
            self.close()

    def _dispose(self) -> None:
        self._sock.close()
        self._parser.close()
        for received in self._ready:
            received.close_fds()
        self._outgoing.close()
        self._ready.clear()

    def begin_use(self) -> None:
        """Keep the descriptor open until `end_use`, even in `close`: else another file could get its number.

        Not a context manager, which would take several times as long.

        Raises:
            ChannelClosedError: the channel is closed.
        """
        with self._lock:
            if self.closed:
                raise ChannelClosedError(_CLOSED)
            self._users += 1

    def end_use(self) -> None:
        """End what `begin_use` began. The last user closes the descriptor if `close` was called."""
        with self._lock:
            self._users -= 1
            if self.closed:
                self._dispose_unused()

    def _dispose_unused(self) -> None:
        if self._users == 0:
            self._dispose()

    def _gone(self) -> ChannelClosedError:
        if self.closed:
            return ChannelClosedError("this channel was closed")
        return ChannelClosedError(f"process {self.peer_pid} closed the connection, or died")

    def _write(self, data: bytes, fds: Sequence[int]) -> int:
        with self._lock:
            if self.closed:
                raise ChannelClosedError(_CLOSED)
            return self._outgoing.put(data, fds)

    def _wait_written(self, ticket: int, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._outgoing.written < ticket:
            self._wait_until(select.POLLOUT, deadline, "to read")
            self.flush()

    def _wait(self, events: int, timeout: float | None) -> int:
        """Poll. Return which of `events` occurred, and signs that the peer is gone."""
        poll = select.poll()
        poll.register(self._sock.fileno(), events | select.POLLRDHUP)
        happened = poll.poll(0) if timeout == 0 else let_through(poll.poll, None if timeout is None else timeout * 1000)
        return happened[0][1] if happened else 0

    def _wait_until(self, events: int, deadline: float | None, doing: str) -> None:
        left = None if deadline is None else deadline - time.monotonic()
        happened = self._wait(events, None if left is None else max(left, 0.0))
        if not happened and left is not None and left <= 0:
            raise ChannelTimeoutError(f"process {self.peer_pid} took too long {doing}")
        if self.closed or (happened & _GONE and not happened & events):
            raise self._gone()

    def _authenticate(self, handshake: ServerHandshake) -> bool:
        try:
            data = self._sock.recv(handshake.wanted - len(self._proof))  # descriptors sent along are dropped
        except BlockingIOError:
            return False
        except ConnectionResetError:
            data = b""
        if not data:
            raise self._gone()
        self._proof += data
        if len(self._proof) < handshake.wanted:
            return False
        try:
            answer = handshake.answer(bytes(self._proof))
        except AuthenticationError:
            self._write(handshake.refusal, ())
            raise
        self._write(answer, ())
        self._handshake = None
        return True

    def _read(self) -> bool:
        """Read once. Return whether more data is likely to be available."""
        size = max(_READ_SIZE, min(self._parser.missing, 1 << 20))
        try:
            data, ancillary, flags, _ = self._sock.recvmsg(size, _ANCILLARY, _CLOSE_ON_EXEC)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno is None:
                raise  # a signal handler raised it
            raise self._gone() from None  # reset by the peer, or closed by another thread
        fds = array.array("i") if ancillary else _NONE
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
        if flags & _TRUNCATED:
            close_all(fds)
            lost = DescriptorLimitError(
                f"descriptors from process {self.peer_pid} were lost: there were too many, or process {os.getpid()} "
                "reached its limit (ulimit -n)"
            )
            if self.on_loss is not None:
                self.on_loss(lost)
            self.close()
            raise lost
        if not data:
            close_all(fds)
            raise self._gone()
        frames: list[Frame] = []
        taken = 0
        try:
            frames = self._parser.feed(data, fds)
            for number, body, own in frames:
                self._ready.append(Received(self._codec.decode(number, body), own))
                taken += 1
        except ProtocolError:
            for refused in frames[taken:]:
                close_all(refused.fds)
            self.close()
            raise
        return len(data) == size or bool(fds)  # the kernel ends a read behind descriptors
