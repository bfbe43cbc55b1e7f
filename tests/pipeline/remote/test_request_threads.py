"""The threads that the batches of an operator share for their requests."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dali_proxy.pipeline._remote import request_threads
from dali_proxy.pipeline._remote.request_threads import RequestThreads
from tests.waiting import wait_until


def test_later_batches_use_the_same_threads_until_these_are_collected() -> None:
    threads, used = RequestThreads(), set()
    for _ in range(5):
        assert threads.run(lambda _: used.add(threading.current_thread()), 3) == []
    assert 1 <= len(used) <= 3
    del threads
    wait_until(lambda: not any(thread.is_alive() for thread in used))


def test_batches_at_once_have_a_thread_for_each_request() -> None:
    threads, all_sent = RequestThreads(), threading.Barrier(12)

    def send(_: int) -> None:
        all_sent.wait(20)

    with ThreadPoolExecutor(3) as batches:
        errors = batches.map(lambda _: threads.run(send, 4), range(3))
        assert [*errors] == [[], [], []]


def test_number_of_threads_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_threads, "MOST_REQUESTS", 4)
    threads, used = RequestThreads(), set()
    assert threads.run(lambda _: used.add(threading.current_thread()), 100) == []
    assert len(used) <= 4


def test_errors_come_with_their_numbers() -> None:
    def fail(index: int) -> None:
        if index % 2:
            raise OSError(index)

    errors = RequestThreads().run(fail, 4)
    assert [(index, type(error)) for index, error in errors] == [(1, OSError), (3, OSError)]
