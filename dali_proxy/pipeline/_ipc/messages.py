"""Messages are frozen structures of msgspec; their type hints are the schema of the bytes on the wire.

No message is trusted: msgspec refuses a message unless it has the fields that its class declares, of the declared types
and within the declared bounds. There is no pickle, and a peer can't name a class that isn't registered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any

import msgpack
import msgspec
from msgspec import Meta

from dali_proxy.pipeline._ipc.errors import ProtocolError
from dali_proxy.pipeline._strict import is_strict

__all__ = ["MANY", "U8", "U16", "U32", "U64", "Codec", "Message", "Meta"]

U8 = Annotated[int, Meta(ge=0, le=(1 << 8) - 1)]
U16 = Annotated[int, Meta(ge=0, le=(1 << 16) - 1)]
U32 = Annotated[int, Meta(ge=0, le=(1 << 32) - 1)]
U64 = Annotated[int, Meta(ge=0)]  # MessagePack has no larger integers

#: Annotates a ``tuple[T, ...]`` that has few items: bounds the memory that a peer can make this process allocate.
MANY = Meta(max_length=1 << 16)

# Paths that aren't UTF-8 are text with surrogates in Python, and messages may contain such paths.
_ERRORS = "surrogatepass"
_encode = msgspec.msgpack.Encoder().encode


class Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Base class of messages, and of the structures in them.

    Subclasses repeat ``frozen=True`` for type checkers. Fields are ``int``, ``float``, ``bool``, ``str``, ``bytes``,
    tuples, messages, and ``T | None``. Annotate them with `Meta` to bound them; ``max_length`` counts the characters of
    a ``str``.
    """


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
