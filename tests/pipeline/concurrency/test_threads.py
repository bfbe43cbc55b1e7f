"""Finalizers of objects that are collected on threads which the finalizers join."""

from __future__ import annotations

import threading

from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX, Finalizer


class Owner:
    """An object that can be collected."""


def _collect_on(name: str) -> str:
    """Return the name of the thread that runs a finalizer whose owner is collected on a thread called `name`."""
    owner, ended, threads = Owner(), threading.Event(), []

    def end() -> None:
        threads.append(threading.current_thread().name)
        ended.set()

    Finalizer(owner, end)
    held = [owner]
    del owner
    thread = threading.Thread(target=held.clear, name=name)
    thread.start()
    assert ended.wait(60)
    thread.join()
    return threads[0]


def test_end_comes_on_the_thread_that_collects() -> None:
    assert _collect_on("user") == "user"


def test_end_never_comes_on_a_thread_of_this_project() -> None:
    name = f"{THREAD_PREFIX}cpu-0"
    assert _collect_on(name) != name


def test_requested_end_comes_at_once_and_once() -> None:
    owner, threads = Owner(), []
    finalizer = Finalizer(owner, lambda: threads.append(threading.current_thread().name))
    thread = threading.Thread(target=finalizer.run, name=f"{THREAD_PREFIX}host")
    thread.start()
    thread.join()
    finalizer.run()
    del owner
    assert threads == [thread.name]


def test_disabled_finalizer_does_not_run() -> None:
    owner, calls = Owner(), []
    Finalizer(owner, lambda: calls.append(1)).cancel()
    del owner
    assert calls == []
