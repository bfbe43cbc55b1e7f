"""Direct connections that carry the large buffers of batches from servers on other nodes to the training process.

Ray's object store would copy them to shared memory on both nodes, and its daemons need most of the time of a batch's
way. A connection needs two copies, those of the operating system. Ray still carries everything else, also the key that
a connection begins with. If Ray encrypts its connections, or a connection can't be made, Ray carries the buffers, too.
"""

from __future__ import annotations

import hmac
import os
import secrets
import selectors
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from pipeline._bulk.buffer_pool import BufferPool
from pipeline._concurrency.finalizers import THREAD_PREFIX
from pipeline._concurrency.locks import Level, new_lock

__all__ = ["Address", "ResultReceiver", "ResultSender", "is_encrypted"]

_KEY = 32  # bytes
_COUNTS = struct.Struct("<QQ")  # number of the request, number of buffers
_SIZE = struct.Struct("<Q")
_CONNECTING = 2.0  # seconds
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
    """The side of a server. It accepts one connection, of a client that knows the key.

    Args:
        host: address to listen on.

    Attributes:
        address: address for the training process.
    """

    def __init__(self, host: str) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        self.address = Address(host, self._listener.getsockname()[1], secrets.token_bytes(_KEY))
        self._connection: socket.socket | None = None
        self._lock = new_lock(Level.LEAF, "result sender")
        threading.Thread(target=self._accept, name=f"{THREAD_PREFIX}accepting", daemon=True).start()

    def send(self, number: int, buffers: Sequence[Any]) -> bool:
        """Send the buffers of a batch. Return False if Ray must carry them: they are small, or there is no connection.

        Args:
            number: number of the request.
            buffers: arrays of bytes.
        """
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
    """The side of the training process: one thread receives from all servers.

    Args:
        pin_for: GPU that large buffers are copied to, which are pinned for it; or None.
    """

    def __init__(self, pin_for: int | None = None) -> None:
        self._selector = selectors.DefaultSelector()
        self._pool = BufferPool(pin_for=pin_for)
        self._doorbell, ring = socket.socketpair()
        self._ring = ring
        self._selector.register(self._doorbell, selectors.EVENT_READ, None)
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"{THREAD_PREFIX}cluster-results", daemon=True)
        self._thread.start()

    def connect(self, address: Address, receive: Callable[[int, list[Any]], None], end: Callable[[], None]) -> bool:
        """Connect to a server. Return False if that is impossible.

        Args:
            address: address of the server.
            receive: called on another thread with the number of a request and its buffers.
            end: called on another thread when the connection has ended.
        """
        try:
            connection = socket.create_connection((address.host, address.port), _CONNECTING)
        except OSError:
            return False
        connection.sendall(address.key)
        connection.setblocking(False)
        self._selector.register(connection, selectors.EVENT_READ, _Incoming(connection, self._pool, receive, end))
        self._ring.send(b"x")
        return True

    def close(self) -> None:
        """Close all connections."""
        self._closed = True
        self._ring.send(b"x")
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._ring.close()
        self._selector.close()

    def _run(self) -> None:
        while not self._closed:
            for key, _ in self._selector.select():
                if key.data is None:
                    self._doorbell.recv(64)
                elif not key.data.read():
                    self._selector.unregister(key.fileobj)
                    key.data.close()


class _Incoming:
    """What arrives from one server: counts, sizes and buffers, again and again."""

    def __init__(
        self,
        connection: socket.socket,
        pool: BufferPool,
        receive: Callable[[int, list[Any]], None],
        end: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._pool = pool
        self._receive = receive
        self._end = end
        self._number = 0
        self._left: list[Any] = []  # buffers to fill
        self._filled: list[Any] = []
        self._target = self._rest = memoryview(bytearray(_COUNTS.size))
        self._then = self._counts  # called when `_rest`, the end of `_target`, is full

    def read(self) -> bool:
        """Read what has arrived. Return False if the connection has ended."""
        try:
            while self._rest:
                size = self._connection.recv_into(self._rest)
                if not size:
                    return False
                self._rest = self._rest[size:]
                if not self._rest:
                    self._then()
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close the connection, and notify the pool."""
        self._connection.close()
        self._end()

    def _begin(self, target: Any, then: Callable[[], None]) -> None:
        self._target = self._rest = memoryview(target)
        self._then = then

    def _counts(self) -> None:
        self._number, count = _COUNTS.unpack(self._target)
        self._begin(bytearray(count * _SIZE.size), self._sizes)

    def _sizes(self) -> None:
        self._left = [self._pool.memory(size)[0] for (size,) in _SIZE.iter_unpack(self._target)]
        self._begin(self._left[0], self._buffer)

    def _buffer(self) -> None:
        self._filled.append(self._left.pop(0))
        if self._left:
            self._begin(self._left[0], self._buffer)
            return
        self._receive(self._number, self._filled)
        self._filled = []
        self._begin(bytearray(_COUNTS.size), self._counts)
