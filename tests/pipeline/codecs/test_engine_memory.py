"""The JPEG engine gets only memory that no earlier work uses. Events and blocks are fakes."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from dali_proxy.pipeline._codecs.engine_memory import EngineMemory

cupy = pytest.importorskip("cupy")


class Stream:
    """A stream whose work finishes when it is synchronized, or when the test says so."""

    def __init__(self) -> None:
        self.busy = True
        self.synchronized = 0

    def synchronize(self) -> None:
        self.synchronized += 1
        self.busy = False

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class Event:
    """An event after all work of a stream."""

    def __init__(self, block: bool, disable_timing: bool) -> None:
        self.stream = Stream()

    def record(self, stream: Stream) -> None:
        self.stream = stream

    @property
    def done(self) -> bool:
        return not self.stream.busy

    def synchronize(self) -> None:
        self.stream.synchronize()


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> EngineMemory:
    monkeypatch.setattr(cupy.cuda, "Event", Event)
    monkeypatch.setattr(cupy.cuda, "Device", lambda number: nullcontext())
    monkeypatch.setattr(cupy.cuda, "alloc", lambda nbytes: SimpleNamespace(mem=SimpleNamespace(size=nbytes)))
    return EngineMemory(0, limit=2)


def test_block_is_reused_when_its_reader_has_finished(memory: EngineMemory) -> None:
    reader, stream = Stream(), Stream()
    first = memory.take(100, stream)
    memory.give(first, reader)
    assert memory.take(100, stream) is not first
    reader.busy = False
    assert memory.take(100, stream) is first


def test_new_block_waits_for_earlier_work_of_the_stream(memory: EngineMemory) -> None:
    stream = Stream()
    memory.take(100, stream)
    assert stream.synchronized == 1


def test_oldest_block_is_waited_for_when_there_are_enough(memory: EngineMemory) -> None:
    readers = [Stream(), Stream()]
    blocks: list[Any] = [memory.take(100, Stream()) for _ in readers]
    for block, reader in zip(blocks, readers, strict=True):
        memory.give(block, reader)
    assert memory.take(100, Stream()) is blocks[0]
    assert [reader.synchronized for reader in readers] == [1, 0]


def test_small_block_is_replaced(memory: EngineMemory) -> None:
    small, stream = memory.take(100, Stream()), Stream()
    stream.busy = False
    for block in (small, memory.take(100, Stream())):
        memory.give(block, stream)
    large = memory.take(1 << 24, Stream())
    assert large.mem.size >= 1 << 24


def test_closed_memory_keeps_nothing(memory: EngineMemory) -> None:
    block, stream = memory.take(100, Stream()), Stream()
    stream.busy = False
    memory.close()
    memory.give(block, stream)
    assert memory.take(100, Stream()) is not block
