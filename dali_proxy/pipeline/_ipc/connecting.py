"""Sockets with a path, for servers that listen and clients that connect."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from dali_proxy.pipeline._ipc.authentication import NO_DESCRIPTOR, ClientHandshake, ServerHandshake, check_peer
from dali_proxy.pipeline._ipc.channel import Channel
from dali_proxy.pipeline._ipc.errors import AuthenticationError, ChannelClosedError, ChannelTimeoutError
from dali_proxy.pipeline._ipc.frames import MAX_FRAME_FDS, Codec
from dali_proxy.pipeline._ipc.memory import as_descriptor_error
from dali_proxy.pipeline._ipc.signals import deferred_signals, let_through

_LONGEST_PATH = 100  # the kernel takes 107 bytes
_RETRY = 0.005  # seconds between tries to connect


def connect(path: str, key: bytes, codec: Codec, timeout: float = 10.0) -> Channel:
    """Connect to the server that listens at `path`, and authenticate both sides.

    Raises:
        AuthenticationError: the server belongs to another user, or the keys differ.
        ChannelClosedError: no server listens there, or it has no descriptor for another client.
        ChannelTimeoutError: the server doesn't answer within `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    late = f"the server at {path} didn't answer within {timeout:g} s"
    with deferred_signals:
        sock = _new_socket()
        try:
            sock.setblocking(False)
            _connect(sock, path, deadline, late)
            peer_pid = check_peer(sock)
            _shake_hands(sock, ClientHandshake(key), deadline, late)
            return Channel(sock, codec, peer_pid=peer_pid, max_fds=MAX_FRAME_FDS)
        except BaseException as error:
            sock.close()
            if isinstance(error, (FileNotFoundError, ConnectionError)):
                raise ChannelClosedError(f"no server listens at {path} ({error.strerror or error})") from error
            if isinstance(error, OSError) and not isinstance(error, ChannelTimeoutError):
                raise as_descriptor_error(error, f"couldn't connect to {path}") from error
            raise


class Listener:
    """Listens at a path that only this user can reach, and returns a channel for each client.

    Args:
        path: path of the socket, in a private directory. It replaces a socket that a dead server left there.
        key: secret that clients must know.
        codec: messages of the protocol.
    """

    def __init__(self, path: str, key: bytes, codec: Codec) -> None:
        self.path = path
        self._key = key
        self._codec = codec
        self._sock = _new_socket()
        self._reserve = -1
        try:
            self._reserve = _new_reserve()
            # Rename it after it listens: a socket that refuses connections looks like a dead server's.
            nameless = path + ".new"
            with suppress(FileNotFoundError):
                os.unlink(nameless)
            with short_path(nameless) as short:
                self._sock.bind(short)
            os.chmod(nameless, 0o600)
            self._sock.listen(128)
            self._sock.setblocking(False)
            os.rename(nameless, path)
        except BaseException as error:
            self.close(unlink=False)
            if isinstance(error, OSError):
                raise as_descriptor_error(error, f"couldn't listen at {path}") from error
            raise

    def fileno(self) -> int:
        return self._sock.fileno()

    def accept(self) -> Channel | None:
        """Return the next client of this user, or None, without waiting. `Channel.receive_ready` runs the handshake."""
        while True:
            try:
                sock, _ = self._sock.accept()
            except BlockingIOError:
                return None
            except OSError:
                # No descriptor is left. Refuse the client, or the listener would stay ready forever.
                self._refuse_one()
                return None
            if self._reserve < 0:  # another thread took the descriptor when it was free
                with suppress(OSError):
                    self._reserve = _new_reserve()
            try:
                return Channel(sock, self._codec, handshake=ServerHandshake(self._key), peer_pid=check_peer(sock))
            except (AuthenticationError, ChannelClosedError):
                sock.close()

    def close(self, *, unlink: bool = True) -> None:
        """Stop listening, and remove the socket's name."""
        if self._sock.fileno() >= 0 and unlink:
            try:
                os.unlink(self.path)
            except OSError:
                pass  # the directory was removed
        self._sock.close()
        reserve, self._reserve = self._reserve, -1
        if reserve >= 0:
            os.close(reserve)

    def _refuse_one(self) -> None:
        if self._reserve < 0:
            return
        os.close(self._reserve)
        with suppress(OSError), self._sock.accept()[0] as refused:
            refused.send(NO_DESCRIPTOR)  # a few bytes: they fit a new socket
        try:
            self._reserve = _new_reserve()
        except OSError:
            self._reserve = -1


def _new_reserve() -> int:
    """Return a descriptor that a listener gives up when no other is left."""
    return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


def _new_socket() -> socket.socket:
    try:
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as error:
        raise as_descriptor_error(error, "couldn't create a socket") from error


@contextmanager
def short_path(path: str) -> Iterator[str]:
    """Yield the path, or an equivalent one that fits into a socket address."""
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield path
        return
    directory, name = os.path.split(path)
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{name}"
    finally:
        os.close(fd)


def _connect(sock: socket.socket, path: str, deadline: float, late: str) -> None:
    with short_path(path) as short:
        while True:
            try:
                sock.connect(short)
                return
            except BlockingIOError:  # the server's queue is full; poll() can't wait for it
                if time.monotonic() > deadline:
                    raise ChannelTimeoutError(late) from None
                let_through(time.sleep, _RETRY)


def _shake_hands(sock: socket.socket, handshake: ClientHandshake, deadline: float, late: str) -> None:
    greeting = _receive_exactly(sock, handshake.greeting_size, deadline, late)
    sock.sendall(handshake.proof(greeting))  # a few bytes: they fit a new socket
    handshake.check(_receive_exactly(sock, handshake.answer_size, deadline, late))


def _receive_exactly(sock: socket.socket, size: int, deadline: float, late: str) -> bytes:
    data = b""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    while len(data) < size:
        left = deadline - time.monotonic()
        if left <= 0:
            raise ChannelTimeoutError(late)
        if not let_through(poll.poll, left * 1000):
            continue
        received = sock.recv(size - len(data))
        if not received:
            raise ConnectionResetError("the server closed the connection")
        data += received
    return data
