"""The counter of completed requests and its doorbell."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator

import pytest

from dali_proxy.pipeline._ipc import completion
from dali_proxy.pipeline._ipc.completion import CompletionReader, CompletionWriter
from dali_proxy.pipeline._ipc.errors import ChannelClosedError, ChannelTimeoutError
from tests.waiting import PATIENCE_S, wait_until


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[CompletionWriter, CompletionReader]]:
    monkeypatch.setattr(completion, "_GLANCE", 1000.0)  # only the bell ends waits
    writer = CompletionWriter()
    reader = CompletionReader(*map(os.dup, writer.fds))
    yield writer, reader
    reader.close()
    writer.close()


def _rings(writer: CompletionWriter) -> bool:
    poll = select.poll()
    poll.register(writer.fds[1], select.POLLIN)
    return bool(poll.poll(0))


def test_counter_has_no_gaps(pair: tuple[CompletionWriter, CompletionReader]) -> None:
    writer, reader = pair
    for seq in range(3):
        writer.begin(seq)
    writer.complete(1)
    assert reader.count == 0
    writer.complete(0)
    assert reader.count == 2
    writer.complete(0)
    assert reader.count == 2


def test_bell_is_silent_while_the_writer_does_not_wait(pair: tuple[CompletionWriter, CompletionReader]) -> None:
    writer, reader = pair
    writer.begin(0)
    writer.complete(0)
    assert not _rings(writer)
    reader.wait(1)


@pytest.mark.timeout(30)
def test_bell_wakes_a_waiting_writer(pair: tuple[CompletionWriter, CompletionReader]) -> None:
    writer, reader = pair
    seen = []

    def complete(seq: int) -> None:
        while not writer.is_awaited:
            os.sched_yield()
        writer.complete(seq)

    for seq in range(2_000):
        writer.begin(seq)
        thread = threading.Thread(target=complete, args=(seq,))
        thread.start()
        reader.wait(seq + 1)
        seen.append(reader.count)
        thread.join()
    assert seen == list(range(1, 2_001))
    assert not writer.is_awaited


def test_wait_ends_in_time_and_leaves_no_trace(pair: tuple[CompletionWriter, CompletionReader]) -> None:
    writer, reader = pair
    writer.begin(0)
    with pytest.raises(ChannelTimeoutError, match=r"request 0 wasn't read within 0\.01 s"):
        reader.wait(1, 0.01)
    writer.complete(0)
    assert not _rings(writer)


def test_wait_after_close_is_an_error(pair: tuple[CompletionWriter, CompletionReader]) -> None:
    writer, reader = pair
    writer.begin(0)
    reader.close()
    with pytest.raises(ChannelClosedError, match="is closed"):
        reader.wait(1)


def test_descriptor_stays_open_while_a_thread_waits_for_it(pair: tuple[CompletionWriter, CompletionReader]) -> None:
    """Otherwise another file could get its number, and the thread would wait for that file."""
    writer, reader = pair
    writer.begin(0)
    errors: list[Exception] = []

    def wait() -> None:
        try:
            reader.wait(1)
        except ChannelClosedError as error:
            errors.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    wait_until(lambda: bool(writer._words[completion._WAITING]))
    doorbell = reader._doorbell
    with reader._order:
        reader.close()
        os.fstat(doorbell)
    waiter.join(PATIENCE_S)
    assert "closed" in str(errors[0])
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(doorbell)
