from __future__ import annotations

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dali_proxy._transport.protocol import (
    CODEC,
    DTYPES,
    Advance,
    AttachSegment,
    BatchRead,
    CloseSession,
    Computed,
    DetachSegment,
    Failure,
    Fetch,
    Goodbye,
    Hello,
    InputBatch,
    LoopReport,
    NotPlaced,
    OpenSession,
    OutputBatch,
    Place,
    ReadBatch,
    Release,
    Result,
    SlotsDetached,
    Stats,
    StatsRequest,
    Submit,
    Welcome,
)
from pipeline._ipc.errors import ProtocolError

SAMPLES = InputBatch.pack("uint8", [(0, 64 * number, 4, 3) for number in range(5)])
OUTPUT = OutputBatch("cpu", 0, "float32", "CHW", True, 2, np.array([[0, 5, 3]]).tobytes(), 3, 1, 4096, True)
MESSAGES = [
    Hello("worker", 123, "worker 0"),
    Welcome(2**64 - 1, b"0123456789abcdef", 65536),
    AttachSegment(0, 64 << 20),
    DetachSegment(3),
    Submit(0, 1, 2, 3, 1, 5, "0\0a/é.jpg\x002\x003\x004", (SAMPLES, SAMPLES), 17),
    Fetch(1, 2),
    Release.pack([(1, 2), (2**64 - 1, 0)]),
    OpenSession(4),
    CloseSession(4),
    Advance(4, 17),
    Place(2, True),
    Computed(2, 7, 1 << 40),
    LoopReport(1.0, 0.5, 0.25, 0.0, 9, 576, 1, 4, True, 1, 0, 2, "auto", "é", (("loader", 4, "prefetch_factor"),)),
    NotPlaced(2, "CudaError: no memory"),
    Result(1, 2, (OUTPUT, OUTPUT), (7,)),
    SlotsDetached((1, 2)),
    Failure(1, 2, "builtins:ValueError", "bad", operator="fn.resize", samples=(3,), indices=("3",), worker_pid=5),
    StatsRequest(1),
    Stats(1, "{}"),
    ReadBatch(1, 4, b"request", 4096),
    BatchRead(1, (3, 4), b"pickled"),
    Goodbye("stopped"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_messages_come_back_unchanged(message):
    assert CODEC.decode(*CODEC.encode(message)) == message


def test_message_types_are_all_tested():
    assert {type(message) for message in MESSAGES} == set(CODEC._numbers)


def test_samples_are_a_table():
    dtype, table = SAMPLES.unpack()
    assert dtype == np.uint8
    assert table.tolist() == [[0, 64 * number, 4, 3] for number in range(5)]
    _, scalars = InputBatch.pack("bool", [(0, 0), (0, 64)]).unpack()
    assert scalars.shape == (2, 2)
    assert Release.pack([(2**63, 1)]).unpack() == [(2**63, 1)]
    assert Release.pack([]).unpack() == []


@pytest.mark.parametrize(
    "batch",
    [
        InputBatch("object", 1, bytes(24)),
        InputBatch("float128", 1, bytes(24)),
        InputBatch("uint8", 1, b""),
        InputBatch("uint8", 1, bytes(23)),
        InputBatch("uint8", 2, bytes(24)),
        InputBatch("uint8", 255, bytes(8 * 257)),
        OutputBatch("cpu", 0, "uint8", "", True, 3, bytes(24), 0),
    ],
)
def test_invalid_tables_are_refused(batch):
    with pytest.raises(ProtocolError):
        batch.unpack()


def test_odd_pairs_are_refused():
    with pytest.raises(ProtocolError):
        Release(bytes(8)).unpack()


def test_dtypes_are_those_that_pipelines_know():
    from pipeline.types import to_dali_type

    for dtype in DTYPES.values():
        to_dali_type(dtype)


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_mutated_messages_are_refused_or_valid(data):
    """A hostile peer may send a valid message with one value replaced, at any depth."""
    number, body = CODEC.encode(data.draw(st.sampled_from(MESSAGES)))
    wire = msgpack.unpackb(body)
    strange = st.one_of(
        st.integers(-(2**63), 2**64 - 1), st.binary(max_size=99), st.text(max_size=9), st.none(), st.booleans(),
        st.floats(), st.lists(st.integers(0, 3), max_size=3),
    )  # fmt: skip
    node = wire
    while True:
        position = data.draw(st.integers(0, len(node) - 1))
        if isinstance(node[position], list) and node[position] and data.draw(st.booleans()):
            node = node[position]
            continue
        node[position] = data.draw(strange)
        break
    try:
        message = CODEC.decode(number, msgpack.packb(wire))
        parts = (*getattr(message, "inputs", ()), *getattr(message, "outputs", ()))
        for part in parts:
            part.unpack()
    except (ProtocolError, UnicodeEncodeError):
        return
    CODEC.encode(message)
