"""Changes of valid files that parsers often don't expect. They depend only on the random generator."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

__all__ = ["NUMBERS", "mutate"]

NUMBERS = (
    0, 1, 2, 3, 7, 8, 15, 16, 17, 63, 64, 255, 256, 4095, 4096, 65535, 65536, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32,
    2**47, 2**48, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, -1, -2, -8, -64, -(2**31), -(2**63),
)  # fmt: skip
_WORDS = (
    *(
        b"",
        b"null",
        b"NaN",
        b"1e999",
        b"-0.0",
        b"{}",
        b"[]",
        b'"',
        b"\\",
        b"\n",
        b"\0",
        b"../",
        b"\xff\xfe",
        b"9" * 5000,
    ),
    b"[" * 20_000,
)


def mutate(chance: random.Random, data: bytes) -> bytes:
    """Return a damaged copy of a file. Most copies have one change, so that parsers get far into them."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
        chance.choice(_CHANGES)(chance, changed)
    return bytes(changed)


def _position(chance: random.Random, size: int) -> int:
    """Draw a position; small ones, where headers are, are as likely as large ones."""
    return min(size, int((size + 1) ** chance.random()) - 1) if chance.random() < 0.7 else chance.randrange(size + 1)


def _flip(chance: random.Random, data: bytearray) -> None:
    if data:
        data[min(_position(chance, len(data)), len(data) - 1)] ^= 1 << chance.randrange(8)


def _overwrite(chance: random.Random, data: bytearray) -> None:
    at = _position(chance, len(data))
    data[at : at + chance.choice((1, 2, 4, 16))] = chance.randbytes(chance.choice((1, 2, 4, 16)))


def _write_integer(chance: random.Random, data: bytearray) -> None:
    size = chance.choice((1, 2, 4, 8))
    number = chance.choice(NUMBERS) % 256**size
    at = _position(chance, len(data))
    data[at : at + size] = number.to_bytes(size, chance.choice(("little", "big")))


def _truncate(chance: random.Random, data: bytearray) -> None:
    del data[_position(chance, len(data)) :]


def _delete(chance: random.Random, data: bytearray) -> None:
    at = _position(chance, len(data))
    del data[at : at + int(2 ** (chance.random() * 10))]


def _repeat(chance: random.Random, data: bytearray) -> None:
    begin, at = _position(chance, len(data)), _position(chance, len(data))
    data[at:at] = data[begin : begin + int(2 ** (chance.random() * 10))]


def _write_word(chance: random.Random, data: bytearray) -> None:
    """Replace a number or a word of a text."""
    words = list(re.finditer(rb"-?[0-9]+|\w+", data))
    word = chance.choice(words).span() if words else (0, 0)
    number = b"%d" % chance.choice(NUMBERS)
    data[slice(*word)] = number if chance.random() < 0.6 else chance.choice(_WORDS)


_CHANGES: tuple[Callable[[random.Random, bytearray], None], ...] = (
    *(_flip, _overwrite, _write_integer, _write_integer, _truncate, _delete, _repeat, _write_word),
)
