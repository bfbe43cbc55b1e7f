"""Work on a stream reuses what is idle there, after waiting for its last use on other streams. Events are fakes."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from dali_proxy.pipeline._codecs.stream_free_list import StreamFreeList

cupy = pytest.importorskip("cupy")


class Stream:
    """A stream that records the events that it waits for."""

    def __init__(self, number: int) -> None:
        self.ptr = number
        self.waited: list[int] = []

    def wait_event(self, event: Event) -> None:
        assert event.after is not None
        self.waited.append(event.after)


class Event:
    """An event that records its stream."""

    def __init__(self, disable_timing: bool) -> None:
        self.after: int | None = None

    def record(self, stream: Stream) -> None:
        self.after = stream.ptr


@pytest.fixture
def free_list(monkeypatch: pytest.MonkeyPatch) -> StreamFreeList:
    monkeypatch.setattr(cupy.cuda, "Event", Event)
    monkeypatch.setattr(cupy.cuda, "Device", lambda number: nullcontext())
    return StreamFreeList(0)


def test_memory_stays_with_its_stream_in_order(free_list: StreamFreeList) -> None:
    one, other = Stream(1), Stream(2)
    free_list.put("abc", one)
    free_list.put("d", other)
    assert free_list.take(0, one) == []
    assert free_list.take(2, one) == ["b", "c"]
    assert free_list.take(5, one) == ["a"]
    assert free_list.take(5, one) == []
    assert free_list.take(1, other) == ["d"]
    assert one.waited == other.waited == []


def test_last_use_on_another_stream_is_waited_for(free_list: StreamFreeList) -> None:
    own, reader, late = Stream(1), Stream(2), Stream(3)
    free_list.put("ab", own, last=reader)
    free_list.put("c", own, last=own)
    free_list.put("d", own, last=late)
    assert free_list.take(1, own) == ["d"]
    assert own.waited == [3]
    assert free_list.take(3, own) == ["a", "b", "c"]
    assert own.waited == [3, 2], "one event for all objects of a batch, and none for this stream"


def test_free_list_is_empty_after_the_end(free_list: StreamFreeList) -> None:
    free_list.put("a", Stream(1))
    free_list.close()
    free_list.put("b", Stream(1), last=Stream(2))
    assert free_list.take(2, Stream(1)) == []
    free_list.close()


def test_host_has_no_streams() -> None:
    free_list = StreamFreeList(None)
    free_list.put([1, 2], None)
    taken: list[Any] = free_list.take(2, None)
    assert taken == [1, 2]
