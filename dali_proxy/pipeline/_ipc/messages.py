"""Messages are frozen structures of msgspec; their type hints are the schema of the bytes on the wire.

No message is trusted: msgspec refuses a message unless it has the fields that its class declares, of the declared types
and within the declared bounds. There is no pickle, and a peer can't name a class that isn't registered.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["MANY", "U8", "U16", "U32", "U64", "Message", "Meta"]

U8 = Annotated[int, Meta(ge=0, le=(1 << 8) - 1)]
U16 = Annotated[int, Meta(ge=0, le=(1 << 16) - 1)]
U32 = Annotated[int, Meta(ge=0, le=(1 << 32) - 1)]
U64 = Annotated[int, Meta(ge=0)]  # MessagePack has no larger integers

#: Annotates a ``tuple[T, ...]`` that has few items: bounds the memory that a peer can make this process allocate.
MANY = Meta(max_length=1 << 16)


class Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Base class of messages, and of the structures in them.

    Subclasses repeat ``frozen=True`` for type checkers. Fields are ``int``, ``float``, ``bool``, ``str``, ``bytes``,
    tuples, messages, and ``T | None``. Annotate them with `Meta` to bound them; ``max_length`` counts the characters of
    a ``str``.
    """
