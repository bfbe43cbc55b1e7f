from __future__ import annotations

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dali_proxy._transport.fields import DTYPES, unpack_table
from dali_proxy._transport.origin import Origin
from dali_proxy._transport.prepared import Launched, Prepared, PreparedOutput
from dali_proxy._transport.protocol import (
    CODEC,
    Advance,
    AttachSegment,
    BatchRead,
    CloseSession,
    Computed,
    DatasetWorkers,
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
    PipelineThreads,
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
from dali_proxy.pipeline._ipc.errors import ProtocolError
from tests.dali_proxy.hostile import packed

SAMPLES = packed("uint8", [(0, 64 * number, 4, 3) for number in range(5)])
OUTPUT = OutputBatch(
    device="cpu",
    device_id=0,
    dtype="float32",
    layout="CHW",
    dense=True,
    ndim=2,
    table=np.array([[0, 5, 3]]).tobytes(),
    slot=3,
    generation=1,
    nbytes=4096,
    attach=True,
)
MESSAGES = [
    Hello(role="worker", pid=123, name="worker 0"),
    Welcome(client=2**64 - 1, server=b"0123456789abcdef", control_nbytes=65536),
    AttachSegment(0, 64 << 20),
    DetachSegment(3),
    Submit(
        seq=0,
        session=1,
        epoch=2,
        batch=3,
        view=1,
        batch_size=5,
        indices="0\0a/é.jpg\x002\x003\x004",
        inputs=(SAMPLES, SAMPLES),
        waited_ns=17,
    ),
    Fetch(1, 2),
    Release.pack([(1, 2), (2**64 - 1, 0)]),
    OpenSession(4),
    CloseSession(4),
    Advance(4, 17),
    Place(2, True),
    Computed(2, 7, 1 << 40),
    LoopReport(
        training=1.0,
        worker_wait=0.5,
        result_wait=0.25,
        start_wait=0.0,
        loop_batches=9,
        loop_samples=576,
        worker_starts=1,
        num_workers=4,
        looping=True,
        skipped=1,
        replaced=0,
        restarts=2,
        placement="auto",
        placement_reason="é",
        in_flight=(("loader", 4, "prefetch_factor"),),
    ),
    NotPlaced(2, "CudaError: no memory"),
    Result(client=1, seq=2, outputs=(OUTPUT, OUTPUT), detached=(7,)),
    SlotsDetached((1, 2)),
    Failure(
        client=1,
        seq=2,
        type_name="builtins:ValueError",
        message="bad",
        operator="fn.resize",
        samples=(3,),
        indices=("3",),
        worker_pid=5,
    ),
    StatsRequest(1),
    Stats(1, "{}"),
    ReadBatch(number=1, session=4, request=b"request", reader_nbytes=4096),
    BatchRead(number=1, lengths=(3, 4), data=b"pickled"),
    DatasetWorkers(3),
    PipelineThreads(3),
    Goodbye("stopped"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_messages_come_back_unchanged(message):
    assert CODEC.decode(*CODEC.encode(message)) == message


def test_message_types_are_all_tested():
    assert {type(message) for message in MESSAGES} == set(CODEC._numbers)


def test_messages_with_many_fields_need_keywords():
    """The order of the fields is the order on the wire, and a caller must not depend on it."""
    kinds = {*CODEC._numbers, InputBatch, OutputBatch, Origin, Prepared, PreparedOutput, Launched}
    for kind in kinds:
        fields = kind.__struct_fields__
        if len(fields) > 3:
            with pytest.raises(TypeError, match="positional"):
                kind(*fields)
        else:
            kind(*fields)


def unpacked(arrays):
    return unpack_table(arrays.dtype, arrays.ndim + (2 if type(arrays) is InputBatch else 1), arrays.table)


def test_samples_are_a_table():
    dtype, table = unpacked(SAMPLES)
    assert dtype == np.uint8
    assert table.tolist() == [[0, 64 * number, 4, 3] for number in range(5)]
    _, scalars = unpacked(packed("bool", [(0, 0), (0, 64)]))
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
        OutputBatch(device="cpu", device_id=0, dtype="uint8", layout="", dense=True, ndim=3, table=bytes(24), slot=0),
    ],
)
def test_invalid_tables_are_refused(batch):
    with pytest.raises(ProtocolError):
        unpacked(batch)


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
            unpacked(part)
    except (ProtocolError, UnicodeEncodeError):
        return
    CODEC.encode(message)
