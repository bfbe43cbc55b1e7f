"""What is idle on a stream goes to the next work on it, which waits for its last use elsewhere. Events are played."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from pipeline._codecs.stream_shelf import StreamShelf

cupy = pytest.importorskip("cupy")


class Stream:
    """Notes what it waits for."""

    def __init__(self, number: int) -> None:
        self.ptr = number
        self.waited: list[int] = []

    def wait_event(self, event: Event) -> None:
        assert event.after is not None
        self.waited.append(event.after)


class Event:
    """Notes on which stream it was recorded."""

    def __init__(self, disable_timing: bool) -> None:
        self.after: int | None = None

    def record(self, stream: Stream) -> None:
        self.after = stream.ptr


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> StreamShelf:
    monkeypatch.setattr(cupy.cuda, "Event", Event)
    monkeypatch.setattr(cupy.cuda, "Device", lambda number: nullcontext())
    return StreamShelf(0)


def test_things_stay_with_their_stream_in_their_order(shelf: StreamShelf) -> None:
    one, other = Stream(1), Stream(2)
    shelf.put("abc", one)
    shelf.put("d", other)
    assert shelf.take(0, one) == []
    assert shelf.take(2, one) == ["b", "c"]
    assert shelf.take(5, one) == ["a"]
    assert shelf.take(5, one) == []
    assert shelf.take(1, other) == ["d"]
    assert one.waited == other.waited == []


def test_the_last_use_on_another_stream_is_waited_for_by_whoever_takes(shelf: StreamShelf) -> None:
    own, reader, late = Stream(1), Stream(2), Stream(3)
    shelf.put("ab", own, last=reader)
    shelf.put("c", own, last=own)
    shelf.put("d", own, last=late)
    assert shelf.take(1, own) == ["d"]
    assert own.waited == [3]
    assert shelf.take(3, own) == ["a", "b", "c"]
    assert own.waited == [3, 2], "one event for all things of a batch, and none of its own stream"


def test_nothing_is_kept_after_the_end(shelf: StreamShelf) -> None:
    shelf.put("a", Stream(1))
    shelf.close()
    shelf.put("b", Stream(1), last=Stream(2))
    assert shelf.take(2, Stream(1)) == []
    shelf.close()


def test_the_host_has_no_streams() -> None:
    shelf = StreamShelf(None)
    shelf.put([1, 2], None)
    taken: list[Any] = shelf.take(2, None)
    assert taken == [1, 2]
