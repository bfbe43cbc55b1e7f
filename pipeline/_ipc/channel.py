"""A connection between two processes: messages and descriptors, both ways, with deadlines everywhere."""

from __future__ import annotations

import array
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from pipeline._concurrency.forking import drop_in_child
from pipeline._ipc.authentication import ServerHandshake
from pipeline._ipc.errors import (
    AuthenticationError,
    ChannelClosedError,
    ChannelTimeoutError,
    DescriptorLimitError,
    IPCError,
    ProtocolError,
)
from pipeline._ipc.frames import MAX_FDS, Frame, FrameParser, close_all, encode_frame
from pipeline._ipc.messages import Codec
from pipeline._ipc.outgoing import Outgoing
from pipeline._ipc.signals import let_through

__all__ = ["Channel", "Received"]

_READ_SIZE = 1 << 16
_READS_PER_TURN = 16  # so that one client that never stops can't starve the others
_ANCILLARY = socket.CMSG_SPACE(MAX_FDS * array.array("i").itemsize)
# Plain integers: enums take as long as a system call.
_CLOSE_ON_EXEC, _TRUNCATED = int(socket.MSG_CMSG_CLOEXEC), int(socket.MSG_CTRUNC)
_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL | select.POLLRDHUP


@dataclass(frozen=True)
class Received:
    """A message, and the descriptors that came with it. Whoever handles the message owns them."""

    message: Any
    fds: tuple[int, ...] = ()

    def close_fds(self) -> None:
        close_all(self.fds)


class _Use:  # a function to who uses it: as a generator, it would cost a batch several microseconds
    """Keeps the socket of a channel while a thread uses it."""

    __slots__ = ("_channel",)

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def __enter__(self) -> None:
        channel = self._channel
        with channel._lock:
            channel._check_open()
            channel._users += 1

    def __exit__(self, *exc_info: object) -> None:
        channel = self._channel
        with channel._lock:
            channel._users -= 1
            if channel._closed and channel._users == 0:
                channel._dispose()


class Channel:
    """Sends and receives the messages of one `Codec` over a stream socket. Thread-safe.

    The socket never blocks; what waits does so in ``poll`` with a deadline, and notices when the peer is
    gone. A program uses `send` and `receive`; a loop that serves many peers uses `post`, `flush` and
    `receive_ready`, which never wait. In a forked child the channel is closed at once, so that its end is
    seen when the parent's end closes.

    Args:
        sock: a connected ``AF_UNIX`` stream socket; owned from now on.
        codec: the messages of both directions.
        handshake: if given, the peer must authenticate itself to it before anything is read or posted.
        peer_pid: the process at the other end, for messages.
        max_outgoing: bytes that may wait for a peer that doesn't read.
        max_fds: most descriptors that the peer may send with a message.

    Attributes:
        peer_pid: the process at the other end.
        on_backlog: called, on any thread, when `post` left something for `flush`.
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
        self._sock = sock
        self._codec = codec
        # Guards _outgoing, _users, _closed. What closes the channel in a finalizer or signal handler may interrupt its
        # holder.
        self._lock = threading.RLock()
        self._receive_lock = threading.Lock()
        self._parser = FrameParser(max_fds)
        self._ready: deque[Received] = deque()
        self._outgoing = Outgoing(sock, peer_pid, max_outgoing)
        self._users = 0  # threads that use the socket: the last one closes it, so its number isn't reused under them
        self._closed = False
        self._handshake = handshake
        self._proof = bytearray()
        drop_in_child(self)
        if handshake is not None:
            self._write(handshake.greeting, ())

    @classmethod
    def pair(cls, codec: Codec) -> tuple[Channel, socket.socket]:
        """A channel, and the other end as a socket that a child process can inherit."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(ours, codec), theirs

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def authenticated(self) -> bool:
        """Whether the peer has proved who it is."""
        return self._handshake is None

    @property
    def backlog(self) -> int:
        """Frames that wait for the peer to read."""
        return len(self._outgoing)

    def fileno(self) -> int:
        """The descriptor, or -1 when closed."""
        return -1 if self._closed else self._sock.fileno()

    def alive(self) -> bool:
        """Whether both ends are open. What the peer sent before it closed its end can still be received."""
        try:
            with self.using():
                return not self._wait(0, 0)
        except ChannelClosedError:
            return False

    def send(self, message: object, fds: Sequence[int] = (), timeout: float | None = None) -> None:
        """Send a message and wait until the kernel has all of it. `fds` stay the caller's.

        Raises:
            ChannelClosedError: the channel is closed, or the peer is gone.
            ChannelTimeoutError: the peer doesn't read. The message is sent when it does.
            ProtocolError: the message doesn't fit its schema.
        """
        with self.using():
            self._wait_written(self._write(self._encode(message, fds), fds), timeout)

    def wait_written(self, timeout: float | None = None) -> None:
        """Wait until the kernel has all that was posted. Raises as `send`."""
        with self.using():
            self._wait_written(self._outgoing.written + len(self._outgoing), timeout)

    def post(self, message: object, fds: Sequence[int] = ()) -> None:
        """Send a message without ever waiting: what doesn't fit the socket waits for `flush`.

        Raises:
            ChannelClosedError: the channel is closed, or the peer is gone.
            ChannelOverflowError: the peer doesn't read, and too much waits for it already.
            ProtocolError: the message doesn't fit its schema.
        """
        with self.using():  # a handler or finalizer may close the channel in between
            self._write(self._encode(message, fds), fds)
        if self._outgoing and self.on_backlog is not None:
            self.on_backlog()

    def flush(self) -> bool:
        """Write what the peer has room for. Return whether nothing is left."""
        with self._lock:
            self._check_open()
            return self._outgoing.flush()

    def receive(self, timeout: float | None = None) -> Received:
        """Wait for the next message.

        Raises:
            ChannelClosedError: the channel is closed, or the peer is gone (after all that it sent was
                received).
            ChannelTimeoutError: nothing came for `timeout` seconds.
            ProtocolError: what came is no message; the channel is closed.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._receive_lock.acquire(timeout=-1 if timeout is None else max(timeout, 0.0)):
            raise ChannelTimeoutError(f"another thread is receiving from process {self.peer_pid}")
        try:
            with self.using():
                while not self._ready:
                    self._wait_until(select.POLLIN, deadline, "to answer")
                    self._read()
                return self._ready.popleft()
        finally:
            self._receive_lock.release()

    def receive_ready(self, *, rest: bool = False) -> list[Received]:
        """Return messages that have arrived, without waiting.

        Args:
            rest: look until nothing more is there, as is right for who doesn't ask again. Who is told by the system
                that there is more needn't look in vain each time.

        Raises:
            AuthenticationError: the peer didn't prove who it is.
            ChannelClosedError: the channel is closed, or the peer is gone (after all that it sent was
                returned).
            ProtocolError: what came is no message; the channel is closed.
        """
        with self._receive_lock, self.using():
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

    def close(self) -> None:
        """Close the channel; the peer gets what was written before. Threads that wait on it are woken."""
        with self._lock:
            if self._closed:
                return
            try:
                self._outgoing.flush()
                self._sock.shutdown(socket.SHUT_RDWR)
            except (OSError, IPCError) as error:
                if isinstance(error, OSError) and error.errno is None:
                    raise  # a signal handler raised it; else the peer is gone already
            finally:
                self._closed = True
                if self._users == 0:
                    self._dispose()

    def drop_inherited(self) -> None:
        """In a forked child: the connection is the parent's, and only the parent's end may keep it open."""
        self._lock = threading.RLock()
        self._receive_lock = threading.Lock()
        self._closed = True
        self._dispose()

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_proof"):  # made as a whole
            self.close()

    def _dispose(self) -> None:
        self._sock.close()
        self._parser.close()
        for received in self._ready:
            received.close_fds()
        self._outgoing.close()
        self._ready.clear()

    def using(self) -> AbstractContextManager[None]:
        """Keep the descriptor open while a thread polls it: the number can't become another file's, even in `close`.

        Raises:
            ChannelClosedError: the channel is closed.
        """
        return _Use(self)

    def _check_open(self) -> None:
        if self._closed:
            raise ChannelClosedError("this channel is closed (or was inherited by a forked process)")

    def _gone(self) -> ChannelClosedError:
        if self._closed:
            return ChannelClosedError("this channel was closed")
        return ChannelClosedError(f"process {self.peer_pid} closed the connection, or died")

    def _encode(self, message: object, fds: Sequence[int]) -> bytes:
        number, body = self._codec.encode(message)
        return encode_frame(number, body, len(fds))

    def _write(self, data: bytes, fds: Sequence[int]) -> int:
        with self._lock:
            self._check_open()
            return self._outgoing.put(data, fds)

    def _wait_written(self, ticket: int, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._outgoing.written < ticket:
            self._wait_until(select.POLLOUT, deadline, "to read")
            self.flush()

    def _wait(self, events: int, timeout: float | None) -> int:
        """Poll. Return what there is of `events` and of signs that the peer is gone."""
        poll = select.poll()
        poll.register(self._sock.fileno(), events | select.POLLRDHUP)
        happened = poll.poll(0) if timeout == 0 else let_through(poll.poll, None if timeout is None else timeout * 1000)
        return happened[0][1] if happened else 0

    def _wait_until(self, events: int, deadline: float | None, doing: str) -> None:
        left = None if deadline is None else deadline - time.monotonic()
        happened = self._wait(events, None if left is None else max(left, 0.0))
        if not happened and left is not None and left <= 0:
            raise ChannelTimeoutError(f"process {self.peer_pid} took too long {doing}")
        if self._closed or (happened & _GONE and not happened & events):
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
        """Read once. Return whether it is likely that there is more."""
        size = max(_READ_SIZE, min(self._parser.missing, 1 << 20))
        try:
            data, ancillary, flags, _ = self._sock.recvmsg(size, _ANCILLARY, _CLOSE_ON_EXEC)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno is None:
                raise  # a signal handler raised it
            raise self._gone() from None  # reset by the peer, or closed by another thread
        fds = array.array("i")
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
        if flags & _TRUNCATED:
            close_all(fds)
            self.close()
            raise DescriptorLimitError(
                f"descriptors from process {self.peer_pid} were lost: there were too many, or the limit is reached "
                "(ulimit -n)"
            )
        if not data:
            close_all(fds)
            raise self._gone()
        try:
            self._take(self._parser.feed(data, fds))
        except ProtocolError:
            self.close()
            raise
        return len(data) == size or bool(fds)  # what comes with descriptors is cut off behind them

    def _take(self, frames: list[Frame]) -> None:
        for index, frame in enumerate(frames):
            try:
                self._ready.append(Received(self._codec.decode(frame.number, frame.body), frame.fds))
            except ProtocolError:
                for refused in frames[index:]:
                    close_all(refused.fds)
                raise
