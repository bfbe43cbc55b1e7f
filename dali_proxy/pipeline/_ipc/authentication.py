"""Mutual authentication: the peer must belong to the same user and know the key.

The server speaks first. Every step has a fixed size, so no side parses anything before it knows the peer::

    server → client   magic (8), server's nonce (32)
    client → server   client's nonce (32), HMAC-SHA256(key, "client" + both nonces)
    server → client   HMAC-SHA256(key, "server" + both nonces), or a refusal of the same size

If a connection ends in between, the server went away; it did not refuse.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import struct

from dali_proxy.pipeline._ipc.errors import AuthenticationError, ChannelRefusedError

_MAGIC = b"DALIPX\x00\x01"  # the last byte is the version of this handshake
_FULL = b"DALIPX\x00\x00"  # instead, if the server can't accept a client
_NONCE = 32
_DIGEST = 32
_REFUSAL = b"refused".ljust(_DIGEST, b"\0")
_CREDENTIALS = struct.Struct("3i")

NO_DESCRIPTOR = _FULL.ljust(len(_MAGIC) + _NONCE, b"\0")
"""Greeting of a server that has no descriptor for another client."""


def check_peer(sock: socket.socket) -> int:
    """Return the process id at the other end.

    Raises:
        AuthenticationError: that process belongs to another user.
    """
    pid, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    if uid != os.geteuid():
        raise AuthenticationError(f"process {pid} belongs to user {uid}, not to {os.geteuid()}")
    return int(pid)


class ServerHandshake:
    """Server side of the handshake: a state machine that never waits.

    Attributes:
        greeting: bytes to send first.
        wanted: number of bytes that `answer` needs from the client.
        refusal: bytes to send if `answer` raises.
    """

    wanted = _NONCE + _DIGEST
    refusal = _REFUSAL

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._nonce = secrets.token_bytes(_NONCE)
        self.greeting = _MAGIC + self._nonce

    def answer(self, proof: bytes) -> bytes:
        """Check the client's `wanted` bytes, and return the bytes to send last.

        Raises:
            AuthenticationError: the client doesn't know the key.
        """
        nonces = self._nonce + proof[:_NONCE]
        if not hmac.compare_digest(proof[_NONCE:], _digest(self._key, b"client", nonces)):
            raise AuthenticationError("a client connected that doesn't know the key")
        return _digest(self._key, b"server", nonces)


class ClientHandshake:
    """Client side of the handshake.

    Attributes:
        greeting_size: size of the server's greeting, in bytes.
        answer_size: size of its answer to the proof, in bytes.
    """

    greeting_size = len(_MAGIC) + _NONCE
    answer_size = _DIGEST

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._nonces = b""

    def proof(self, greeting: bytes) -> bytes:
        """Return the answer to the greeting.

        Raises:
            AuthenticationError: the greeting isn't that of a server of this version.
            ChannelRefusedError: the server has no descriptor for another client.
        """
        if greeting == NO_DESCRIPTOR:
            raise ChannelRefusedError(
                "the server has no file descriptor left for another client; raise the limit (ulimit -n)"
            )
        if greeting[: len(_MAGIC)] != _MAGIC:
            raise AuthenticationError("the server uses a different protocol or version")
        nonce = secrets.token_bytes(_NONCE)
        self._nonces = greeting[len(_MAGIC) :] + nonce
        return nonce + _digest(self._key, b"client", self._nonces)

    def check(self, answer: bytes) -> None:
        """Check the server's final answer.

        Raises:
            AuthenticationError: the server refuses this client, or doesn't know the key.
        """
        if answer == _REFUSAL:
            raise AuthenticationError("the server refused this client: the keys differ")
        if not hmac.compare_digest(answer, _digest(self._key, b"server", self._nonces)):
            raise AuthenticationError("the server doesn't know the key")


def _digest(key: bytes, side: bytes, nonces: bytes) -> bytes:
    return hmac.digest(key, side + nonces, "sha256")
