from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dali_proxy.pipeline._ipc.errors import ProtocolError
from dali_proxy.pipeline._ipc.frames import Codec
from dali_proxy.pipeline._ipc.messages import U8, U64, Message, Meta
from dali_proxy.pipeline._strict import STRICT


class Inner(Message, frozen=True):
    code: U8
    flag: bool


class Everything(Message, frozen=True):
    number: int
    unsigned: U64
    real: float
    flag: bool
    text: Annotated[str, Meta(max_length=8)]
    data: Annotated[bytes, Meta(max_length=4)]
    items: Annotated[tuple[int, ...], Meta(max_length=3)]
    pair: tuple[str, bool]
    maybe: Inner | None
    inners: tuple[Inner, ...]


class Empty(Message, frozen=True):
    pass


CODEC = Codec({1: Everything, 2: Empty})
GOOD = Everything(-5, 2**64 - 1, 0.5, True, "é", b"abcd", (1, 2), ("x", False), Inner(255, True), (Inner(0, False),))

everything = st.builds(
    Everything,
    number=st.integers(-(2**63), 2**63 - 1),
    unsigned=st.integers(0, 2**64 - 1),
    real=st.floats(allow_nan=False),
    flag=st.booleans(),
    text=st.text(max_size=8),
    data=st.binary(max_size=4),
    items=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3).map(tuple),
    pair=st.tuples(st.text(max_size=3), st.booleans()),
    maybe=st.none() | st.builds(Inner, code=st.integers(0, 255), flag=st.booleans()),
    inners=st.lists(st.builds(Inner, code=st.integers(0, 255), flag=st.booleans()), max_size=3).map(tuple),
)


@given(everything)
def test_messages_survive_the_round_trip(message):
    assert CODEC.decode(*CODEC.encode(message)) == message


def test_message_without_fields():
    assert CODEC.decode(*CODEC.encode(Empty())) == Empty()


WRONG = {
    "number": [2**64, 1.0, True, "1", None],
    "unsigned": [-1, 2**64],
    "real": [True, "x"],
    "flag": [1, 0, None],
    "text": ["123456789", "ééééééééé", "\ud800" * 9, b"x", 3],
    "data": [b"12345", "x"],
    "items": [(1, 2, 3, 4), ("x",), 3, None],
    "pair": [("x",), ("x", True, 1), (True, "x")],
    "maybe": [(1,), (256, True), (1, 1), False],
    "inners": [(None,), (1, True)],
}


@pytest.mark.parametrize("name", WRONG)
def test_values_that_do_not_fit_are_refused_on_both_sides(name):
    wire = msgpack.unpackb(CODEC.encode(GOOD)[1])
    position = Everything.__struct_fields__.index(name)
    for value in WRONG[name]:
        with pytest.raises(ProtocolError):
            CODEC.encode(replace(GOOD, **{name: value}))
        try:
            body = msgpack.packb([*wire[:position], value, *wire[position + 1 :]], unicode_errors="surrogatepass")
        except OverflowError:
            continue
        with pytest.raises(ProtocolError):
            CODEC.decode(1, body)


@pytest.mark.parametrize(
    ("number", "body"),
    [
        (3, b"\x90"),  # unknown type
        (2, b""),
        (2, b"\x90\x00"),  # trailing byte
        (2, b"\x91\x00"),  # one field too many
        (2, b"\x80"),  # a map
        (2, b"\xc0"),  # nil
        (2, b"\xc1"),  # never used by msgpack
        (2, b"\xc7\x00\x05"),  # an extension
        (2, b"\xd6\xff\x00\x00\x00\x00"),  # a timestamp
        (2, b"\xdd\xff\xff\xff\xff"),  # an array of 4 billion
        (2, b"\x91" * 5000),  # very deep
        (1, CODEC.encode(GOOD)[1][:-1]),  # truncated
        (1, b"\x9a" + b"\xa2\xff\xfe" * 10),  # invalid UTF-8
        (2, b"\x81\x91\x90\x00"),  # a key that can't be hashed or isn't text
    ],
)
def test_malformed_bytes_are_refused(number, body):
    with pytest.raises(ProtocolError):
        CODEC.decode(number, body)


@given(st.integers(0, 5), st.binary(max_size=60))
@settings(max_examples=500)
def test_noise_is_refused_or_a_valid_message(number, body):
    try:
        message = CODEC.decode(number, body)
    except ProtocolError:
        return
    assert CODEC.decode(*CODEC.encode(message)) == message or message != message


@given(st.data())
@settings(max_examples=300)
def test_message_with_a_bit_flipped_is_refused_or_another_valid_one(data):
    number, body = CODEC.encode(GOOD)
    body = bytearray(body)
    body[data.draw(st.integers(0, len(body) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        message = CODEC.decode(number, bytes(body))
    except ProtocolError:
        return
    assert isinstance(message, Everything)


@pytest.mark.parametrize("text", [os.fsdecode(b"caf\xe9"), "\ud800"])
def test_text_with_surrogates_survives_the_round_trip(text):
    """Paths that aren't UTF-8 contain such text."""
    message = replace(GOOD, text=text)
    assert CODEC.decode(*CODEC.encode(message)) == message


def test_codec_refuses_other_classes_than_messages():
    @dataclass(frozen=True)
    class Plain:
        x: int

    class Ambiguous(Message, frozen=True):
        x: Empty | Inner

    for registry in ({1: Plain}, {1: Ambiguous}, {1: Empty, 2: Empty}, {1: int}):
        with pytest.raises(TypeError):
            Codec(registry)


def test_objects_that_are_not_messages_cannot_be_sent():
    with pytest.raises(ProtocolError, match="isn't a message of this protocol"):
        CODEC.encode(Inner(1, True))


def test_trusted_messages_are_checked_in_strict_mode_only(monkeypatch):
    wrong = replace(GOOD, text="far too long")
    strict = Codec({1: Everything}, trusted=(Everything,))
    with pytest.raises(ProtocolError, match="malformed"):
        strict.encode(wrong)
    monkeypatch.delenv(STRICT)
    lax = Codec({1: Everything, 2: Inner}, trusted=(Everything,))
    number, body = lax.encode(wrong)
    with pytest.raises(ProtocolError, match="malformed"):
        strict.decode(number, body)
    with pytest.raises(ProtocolError, match="malformed"):
        lax.encode(Inner(256, True))
