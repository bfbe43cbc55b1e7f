"""Queues of work whose threads can't all be started."""

from __future__ import annotations

import threading

import pytest

from dali_proxy.pipeline._concurrency.work_queue import WorkQueue


def refuse(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_queue_goes_on_with_its_threads_if_no_other_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    queue, done = WorkQueue("queue", 1), threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        queue.widen(4)
    queue.put(done.set)
    assert done.wait(60)
    queue.widen(2)
    queue.close()


def test_queue_without_threads_is_an_error_that_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    before, start = threading.active_count(), threading.Thread.start

    def start_one(thread: threading.Thread) -> None:
        if threading.active_count() > before:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        WorkQueue("queue", 2)
    assert threading.active_count() == before
