"""Messages as frames on a stream: number of bytes, type, number of descriptors, then the message."""

from __future__ import annotations

import array
import os
import socket
import struct
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgpack
import msgspec

from dali_proxy.pipeline._ipc.errors import (
    ChannelClosedError,
    ChannelOverflowError,
    DescriptorLimitError,
    ProtocolError,
)
from dali_proxy.pipeline._ipc.memory import as_descriptor_error
from dali_proxy.pipeline._ipc.messages import Message
from dali_proxy.pipeline._strict import is_strict

MAX_BODY = 16 << 20  # parsed messages take up to 35 times as much memory
MAX_FDS = 64  # in one call; the kernel allows 253
MAX_FRAME_FDS = (1 << 16) - 1  # in one frame, sent by several calls

_MERGED = 1 << 16  # bytes from which frames aren't joined: copying them would take longer than a system call
_HEADER = struct.Struct("<IHH")  # bytes of the body, type, descriptors

# Paths that aren't UTF-8 are text with surrogates in Python, and messages may contain such paths.
_ERRORS = "surrogatepass"
_encode = msgspec.msgpack.Encoder().encode


class Codec:
    """Turns the messages of one protocol into bytes and back.

    Args:
        registry: the number of each message type on the wire.
        trusted: types whose values are all this project's own. They aren't checked before they are sent, unless
            `is_strict`.

    Raises:
        TypeError: a class isn't a `Message`, is registered twice, or has fields that can't be sent.

    Example:
        >>> class Point(Message, frozen=True):
        ...     x: int
        ...     label: Annotated[str, Meta(max_length=10)]
        >>> codec = Codec({1: Point})
        >>> number, body = codec.encode(Point(3, "a"))
        >>> codec.decode(number, body)
        Point(x=3, label='a')
    """

    def __init__(self, registry: Mapping[int, type[Message]], trusted: Collection[type[Message]] = ()) -> None:
        self._numbers = {message_type: number for number, message_type in registry.items()}
        if len(self._numbers) < len(registry) or not all(issubclass(each, Message) for each in self._numbers):
            raise TypeError("a codec needs different subclasses of Message")
        self._decoders = {number: msgspec.msgpack.Decoder(each) for each, number in self._numbers.items()}
        self._trusted = frozenset(() if is_strict() else trusted)

    def encode(self, message: object) -> tuple[int, bytes]:
        """Return the number of the message's type, and its bytes.

        Raises:
            ProtocolError: a field's value doesn't fit its declaration, so the peer would refuse it.
        """
        number = self._numbers.get(type(message))  # type: ignore[arg-type]
        if number is None:
            raise ProtocolError(f"{type(message).__name__} isn't a message of this protocol")
        try:
            body = _encode(message)
        except UnicodeEncodeError:  # msgspec refuses surrogates
            wire = msgspec.to_builtins(message, builtin_types=(bytes,))
            body = msgpack.packb(wire, unicode_errors=_ERRORS)
        except (ValueError, TypeError, OverflowError) as error:
            raise ProtocolError(f"{type(message).__name__} can't be sent: {error}") from error
        if type(message) not in self._trusted:
            self.decode(number, body)  # msgspec checks values only when it decodes
        return number, body

    def decode(self, number: int, body: bytes | bytearray | memoryview) -> Any:
        """Return the message.

        Raises:
            ProtocolError: the number or the bytes aren't those of a message of this protocol.
        """
        decoder = self._decoders.get(number)
        if decoder is None:
            raise ProtocolError(f"unknown message type {number}")
        try:
            try:
                return decoder.decode(body)
            except UnicodeDecodeError:  # as in `encode`
                wire = msgpack.unpackb(body, unicode_errors=_ERRORS)
                return msgspec.convert(wire, decoder.type, builtin_types=(bytes,))
        except (ValueError, TypeError, msgspec.MsgspecError, msgpack.exceptions.UnpackException) as error:
            name = decoder.type.__name__
            raise ProtocolError(f"{name} is malformed: {error or type(error).__name__}") from error


class Frame(NamedTuple):
    """A complete frame."""

    number: int
    body: bytes
    fds: tuple[int, ...]


def encode_frame(number: int, body: bytes, fds: int) -> bytes:
    """Return the header and body of a frame.

    Raises:
        ProtocolError: a peer wouldn't accept a frame of this size.
    """
    if len(body) > MAX_BODY or (fds and fds > min(MAX_FRAME_FDS, MAX_FDS * (_HEADER.size + len(body)))):
        raise ProtocolError(f"a message of {len(body)} bytes and {fds} descriptors is too large to send")
    return _HEADER.pack(len(body), number, fds) + body


def close_all(fds: Iterable[int]) -> None:
    """Close descriptors."""
    for fd in fds:
        os.close(fd)


class FrameParser:
    """Splits a stream that arrives in pieces into frames.

    Descriptors are sent alongside the bytes, in order: the kernel delivers those of a frame with its first bytes (a
    byte for each `MAX_FDS` of them) at the latest, and never those of a later one before it was read up to there.

    Args:
        max_fds: maximum number of descriptors that may come with a frame.

    Attributes:
        missing: number of bytes that the current frame still lacks, as far as its header has arrived.
    """

    def __init__(self, max_fds: int = MAX_FDS) -> None:
        self.missing = _HEADER.size
        self._max_fds = max_fds
        self._buffer = bytearray()
        self._fds: deque[int] = deque()

    def feed(self, data: bytes | memoryview, fds: Iterable[int] = ()) -> list[Frame]:
        """Accept data, and return the frames that are complete now. Owns `fds`.

        Raises:
            ProtocolError: a frame is too large, or doesn't announce its descriptors. Then call `close`.
        """
        buffer = self._buffer
        buffer += data
        self._fds.extend(fds)
        frames: list[Frame] = []
        start = 0
        try:
            with memoryview(buffer) as view:
                while len(view) - start >= _HEADER.size:
                    length, number, count = _HEADER.unpack_from(view, start)
                    if length > MAX_BODY or count > self._max_fds:
                        raise ProtocolError(f"a frame of {length} bytes and {count} descriptors exceeds the limit")
                    end = start + _HEADER.size + length
                    if len(view) < end:
                        break
                    if count > len(self._fds):
                        raise ProtocolError(f"{count} descriptors were announced, but {len(self._fds)} arrived")
                    frame_fds = tuple([self._fds.popleft() for _ in range(count)]) if count else ()
                    frames.append(Frame(number, bytes(view[start + _HEADER.size : end]), frame_fds))
                    start = end
            if self._fds and len(self._fds) > self._expected(start):
                raise ProtocolError("descriptors arrived that weren't announced by a message")
        except ProtocolError:
            for frame in frames:
                close_all(frame.fds)
            raise
        del buffer[:start]
        announced = int(_HEADER.unpack_from(buffer)[0]) if len(buffer) >= _HEADER.size else 0
        self.missing = _HEADER.size + announced - len(buffer)
        return frames

    def _expected(self, start: int) -> int:
        """Return the number of descriptors that may have come with the incomplete frame at an offset."""
        available = len(self._buffer) - start
        if available < _HEADER.size:
            return MAX_FDS * available
        return int(_HEADER.unpack_from(self._buffer, start)[2])

    def close(self) -> None:
        """Close the descriptors of an incomplete frame."""
        close_all(self._fds)
        self._fds.clear()
        self._buffer = bytearray()  # a thread that was reading at a fork still refers to the old one, in the child


class _Frame:
    """A frame that isn't completely written."""

    __slots__ = ("count", "data", "fds", "owned")

    def __init__(self, data: bytes, fds: Sequence[int]) -> None:
        self.count = 1  # number of frames in it
        self.data = memoryview(data)
        self.fds = tuple(fds)  # those that remain to be sent
        self.owned = False  # whether they are duplicates, to be closed once they are sent

    def close(self) -> None:
        if self.owned:
            close_all(self.fds)
            self.fds = ()


class Outgoing:
    """A bounded queue of frames and their descriptors, written to a non-blocking socket. The caller holds a lock.

    Args:
        sock: the socket; the caller still owns it.
        peer_pid: process at the other end, for error messages.
        limit: largest number of bytes that may wait.

    Attributes:
        written: number of frames that the kernel has accepted so far.
        count: number of frames that wait.
    """

    def __init__(self, sock: socket.socket, peer_pid: int, limit: int) -> None:
        self.written = 0
        self._sock = sock
        self._peer_pid = peer_pid
        self._limit = limit
        self._waiting: deque[_Frame] = deque()
        self._nbytes = 0  # those that wait
        self.count = 0

    def put(self, data: bytes, fds: Sequence[int], flush: bool = True) -> int:
        """Write as much of a frame as fits, and queue the rest. Return the value of `written` once it is written.

        Without `flush`, only queue it.

        The caller still owns the descriptors: queued frames have duplicates.

        Raises:
            ChannelClosedError: the peer is gone.
            ChannelOverflowError: too much waits already.
        """
        nbytes = self._nbytes
        if nbytes and nbytes + len(data) > self._limit:
            raise ChannelOverflowError(f"process {self._peer_pid} doesn't read: {nbytes} bytes wait for it")
        frame = _Frame(data, fds)
        if len(fds) > MAX_FDS:  # before anything is sent: half a frame would be an error of all that follow
            self._duplicate(frame)
        try:
            if flush and not self._waiting and self._push(frame):
                self.written += 1
                return self.written
            try:
                if fds:
                    self._duplicate(frame)
            except DescriptorLimitError:
                if not self.flush():
                    raise
                if self._push(frame):
                    self.written += 1
                    return self.written
                if frame.fds:  # they go with the first byte
                    raise
        except BaseException:
            if len(frame.data) < len(data):  # the peer has a part of it, so it must get the rest
                self._append(frame)
            else:
                frame.close()
            raise
        self._append(frame)
        return self.written + self.count

    def _append(self, frame: _Frame) -> None:
        self._waiting.append(frame)
        self._nbytes += len(frame.data)
        self.count += 1

    def flush(self) -> bool:
        """Write as much as the socket accepts. Return whether nothing is left.

        Raises:
            ChannelClosedError: the peer is gone.
        """
        while self._waiting:
            if len(self._waiting) > 1:
                self._merge()
            frame = self._waiting[0]
            left = len(frame.data)
            try:
                if not self._push(frame):
                    return False
            finally:
                self._nbytes -= left - len(frame.data)
            written = self._waiting.popleft().count
            self.count -= written
            self.written += written
        return True

    def _merge(self) -> None:
        """Join the frames at the front that have no descriptors: one system call writes them all."""
        waiting = self._waiting
        if waiting[0].fds:
            return
        nbytes = count = 0
        parts: list[memoryview] = []
        while waiting and not waiting[0].fds and nbytes < _MERGED:
            frame = waiting.popleft()
            parts.append(frame.data)
            nbytes += len(frame.data)
            count += frame.count
        merged = _Frame(b"".join(parts), ())
        merged.count = count
        waiting.appendleft(merged)

    def close(self) -> None:
        """Drop the queued frames."""
        for frame in self._waiting:
            frame.close()
        self._waiting.clear()
        self._nbytes = self.count = 0

    def _push(self, frame: _Frame) -> bool:
        """Write a frame until the socket is full. Return whether all of it is written."""
        while frame.data:
            fds = frame.fds[:MAX_FDS]
            # One call sends a limited number of descriptors; each group is sent with a byte of the frame.
            data = frame.data if len(fds) == len(frame.fds) else frame.data[:1]
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            try:
                count = self._sock.sendmsg([data], ancillary, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return False
            except (BrokenPipeError, ConnectionResetError):
                raise ChannelClosedError(f"process {self._peer_pid} closed the connection, or died") from None
            except OSError as error:
                raise as_descriptor_error(error, f"couldn't write to process {self._peer_pid}") from error
            frame.data = frame.data[count:]
            frame.fds = frame.fds[len(fds) :]
            if frame.owned:
                close_all(fds)
        return True

    def _duplicate(self, frame: _Frame) -> None:
        if frame.owned:
            return
        copies: list[int] = []
        try:
            for fd in frame.fds:
                copies.append(os.dup(fd))
        except OSError as error:
            close_all(copies)
            raise as_descriptor_error(error, f"couldn't keep descriptors for process {self._peer_pid}") from error
        frame.fds, frame.owned = tuple(copies), True
