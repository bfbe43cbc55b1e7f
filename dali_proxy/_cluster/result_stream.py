"""Direct connections that carry the large buffers of batches from servers on other nodes to the training process.

Ray's object store would copy them to shared memory on both nodes, and its daemons need most of the time of a batch's
way. A connection needs two copies, those of the operating system. Ray still carries everything else, also the key that
a connection begins with. If Ray encrypts its connections, or a connection can't be made, Ray carries the buffers, too.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from dali_proxy.pipeline._bulk.buffer_pool import BufferPool
from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX
from dali_proxy.pipeline._concurrency.locks import Level, new_lock

_KEY = 32  # bytes
_COUNTS = struct.Struct("<QQ")  # number of the request, number of buffers
_SIZE = struct.Struct("<Q")
_CONNECTING = 2.0  # seconds
_PROBES = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}  # seconds, seconds, number
_SMALL = 100 << 10  # bytes of a batch that Ray sends with its answer, without the object store


class Address(NamedTuple):
    """Address of a server's connection.

    Attributes:
        host: the node's address.
        port: the port.
        key: secret that the training process sends first.
    """

    host: str
    port: int
    key: bytes


def is_encrypted() -> bool:
    """Return whether Ray encrypts its connections, so that ours, which aren't encrypted, must not be used."""
    return os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")


class ResultSender:
    """The side of a server. It accepts one connection, of a client that knows the key."""

    def __init__(self, host: str) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        self.address = Address(host, self._listener.getsockname()[1], secrets.token_bytes(_KEY))
        self._connection: socket.socket | None = None
        self._lock = new_lock(Level.LEAF, "result sender")
        threading.Thread(target=self._accept, name=f"{THREAD_PREFIX}accepting", daemon=True).start()

    def send(self, number: int, buffers: Sequence[Any]) -> bool:
        """Send the buffers of a batch. Return False if Ray must: they are small, or there is no connection."""
        connection = self._connection
        if connection is None or sum(buffer.nbytes for buffer in buffers) <= _SMALL:
            return False
        sizes = b"".join([_SIZE.pack(buffer.nbytes) for buffer in buffers])
        with self._lock:
            try:
                connection.sendall(_COUNTS.pack(number, len(buffers)) + sizes)
                for buffer in buffers:
                    connection.sendall(buffer)
            except OSError:  # the training process sees the end of the connection, too, and requests the batch again
                self._connection = None
                return False
        return True

    def _accept(self) -> None:
        with self._listener:
            while self._connection is None:
                connection, _ = self._listener.accept()
                connection.settimeout(_CONNECTING)
                with suppress(OSError):
                    if hmac.compare_digest(connection.recv(_KEY, socket.MSG_WAITALL), self.address.key):
                        connection.settimeout(None)
                        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        self._connection = connection
                        return
                connection.close()


class ResultReceiver:
    """The side of the training process: one thread for each server.

    A thread needs the GIL once for a whole buffer, so a training loop that holds the GIL hardly delays the results.

    Args:
        pin_for: GPU that large buffers are copied to, which are pinned for it; or None.
    """

    def __init__(self, pin_for: int | None = None) -> None:
        self._pool = BufferPool(pin_for=pin_for)
        self._connections: list[tuple[socket.socket, threading.Thread]] = []
        self._closed = False

    def connect(self, address: Address, receive: Callable[[int, list[Any]], None], end: Callable[[], None]) -> bool:
        """Connect to a server. Return False if that is impossible.

        Args:
            address: address of the server.
            receive: called on another thread with the number of a request and its buffers.
            end: called on another thread when the connection has ended, unless `close` ends it.
        """
        try:
            connection = socket.create_connection((address.host, address.port), _CONNECTING)
            connection.sendall(address.key)
        except OSError:
            return False
        connection.settimeout(None)
        _keep_alive(connection)
        thread = threading.Thread(
            target=self._run, args=(connection, receive, end), name=f"{THREAD_PREFIX}cluster-results", daemon=True
        )
        self._connections = [each for each in self._connections if each[1].is_alive()]
        self._connections.append((connection, thread))
        thread.start()
        return True

    def close(self) -> None:
        """Close all connections."""
        self._closed = True
        for connection, _ in self._connections:
            with suppress(OSError):  # it has ended
                connection.shutdown(socket.SHUT_RDWR)
        for _, thread in self._connections:
            thread.join()

    def _run(
        self, connection: socket.socket, receive: Callable[[int, list[Any]], None], end: Callable[[], None]
    ) -> None:
        try:
            with connection, suppress(OSError, EOFError):
                while True:
                    number, count = _COUNTS.unpack(_read(connection, bytearray(_COUNTS.size)))
                    sizes = _SIZE.iter_unpack(_read(connection, bytearray(count * _SIZE.size)))
                    receive(number, [_read(connection, self._pool.memory(size)[0]) for (size,) in sizes])
        finally:
            if not self._closed:
                end()


def _keep_alive(connection: socket.socket) -> None:
    """Let the connection end if the other machine loses its power or its network: nothing else would show that here."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _read(connection: socket.socket, target: Any) -> Any:
    """Fill `target`, and return it."""
    rest = memoryview(target)
    while rest:
        size = connection.recv_into(rest, 0, socket.MSG_WAITALL)
        if not size:
            raise EOFError
        rest = rest[size:]
    return target
