"""Locks: their order is checked, and they are free in forked children."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import dali_proxy.pipeline._concurrency.forking  # noqa: F401  # frees the locks in forked children
from dali_proxy.pipeline._concurrency import locks
from dali_proxy.pipeline._concurrency.checked_lock import REPORT_VARIABLE, CheckedLock, LockOrderError
from dali_proxy.pipeline._concurrency.locks import Level, new_lock, new_rlock
from tests import lock_order
from tests.environment import with_project

outer = partial(CheckedLock, Level.SERVER, "outer", reentrant=True)
inner = partial(CheckedLock, Level.LEAF, "inner", reentrant=False)


@pytest.fixture(autouse=True)
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the errors of these tests to a separate file."""
    path = tmp_path / "report"
    monkeypatch.setenv(REPORT_VARIABLE, str(path))
    return path


def take(lock: CheckedLock) -> None:
    with lock:
        pass


def test_inner_lock_is_taken_while_the_outer_one_is_held(report: Path) -> None:
    first, second = outer(), inner()
    with first, second, first:
        pass
    with second:
        pass
    take(first)
    assert not report.exists()


def test_wrong_order_is_an_error_that_names_both_locks_and_is_reported(report: Path) -> None:
    first, second = outer(), inner()
    expected = "takes the lock 'outer' (level SERVER) while it holds 'inner' (level LEAF)"
    with second, pytest.raises(LockOrderError) as raised:
        take(first)
    assert expected in str(raised.value)
    text = report.read_text()
    assert expected in text
    assert f"process {os.getpid()}" in text
    assert "in take\n" in text, "the report has the stack"
    take(first)


def test_locks_of_one_level_must_not_be_nested() -> None:
    with inner(), pytest.raises(LockOrderError):
        take(inner())


def test_plain_lock_that_its_holder_takes_again_is_an_error() -> None:
    lock = inner()
    with lock:
        with pytest.raises(LockOrderError, match="wait forever"):
            take(lock)
        assert not lock.acquire(blocking=False)
    assert lock.acquire(blocking=False)
    lock.release()


def test_lock_that_is_not_waited_for_may_come_in_any_order() -> None:
    first = outer()
    with inner():
        assert first.acquire(blocking=False)
        first.release()


def test_locks_of_another_thread_do_not_count() -> None:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            take(outer())
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    with inner():
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert not failures


def test_condition_releases_its_lock_while_it_waits() -> None:
    lock, ready, notified = inner(), threading.Event(), threading.Event()
    condition = threading.Condition(lock)

    def wait() -> None:
        with condition:
            ready.set()
            condition.wait()
            with pytest.raises(LockOrderError):
                take(outer())
            notified.set()

    thread = threading.Thread(target=wait)
    thread.start()
    ready.wait()
    with condition:
        condition.notify_all()
    thread.join()
    assert notified.is_set()


class Closing:
    """Takes a lock in its finalizer."""

    def __init__(self, lock: CheckedLock) -> None:
        self._lock = lock
        self.me = self

    def __del__(self) -> None:
        take(self._lock)


class Watched:
    pass


def of_finalizer(lock: CheckedLock) -> None:
    Closing(lock)
    gc.collect()


def of_weak_reference(lock: CheckedLock) -> None:
    weakref.finalize(Watched(), take, lock)


def of_handler(lock: CheckedLock) -> None:
    before = signal.signal(signal.SIGALRM, lambda *_: take(lock))
    try:
        signal.raise_signal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("interrupt", [of_finalizer, of_weak_reference, of_handler])
def test_finalizers_and_handlers_may_interrupt_the_holder_of_any_lock(
    interrupt: Callable[[CheckedLock], None], report: Path
) -> None:
    with inner():
        interrupt(outer())
    assert not report.exists()


def test_handler_that_raises_while_a_lock_is_taken_leaves_it_free() -> None:
    def stop(_frame: object, event: str, _argument: object) -> None:
        if event == "c_return" and taken():
            sys.setprofile(None)
            raise TimeoutError

    def taken() -> bool:
        return bool(lock._is_owned())

    lock = inner()
    sys.setprofile(stop)
    try:
        with pytest.raises(TimeoutError):
            lock.acquire()
    finally:
        sys.setprofile(None)
    assert not taken()


def test_forked_child_gets_locks_free() -> None:
    plain, reentrant = new_lock(Level.LEAF, "plain"), new_rlock(Level.SERVER, "outer")
    held, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with reentrant, plain:
            held.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if all(lock.acquire(blocking=False) for lock in (reentrant, plain)) else 1)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_short_lived_locks_leave_nothing() -> None:
    gc.collect()
    before = len(locks._locks)
    for _ in range(100):
        new_lock(Level.LEAF, "short-lived")
    assert len(locks._locks) <= before + 1


PLAIN = """
import sys, threading
from dali_proxy.pipeline._concurrency.locks import Level, new_lock, new_rlock
assert type(new_lock(Level.LEAF, "")) is type(threading.Lock())
assert type(new_rlock(Level.LEAF, "")) is type(threading.RLock())
assert "dali_proxy.pipeline._concurrency.checked_lock" not in sys.modules
"""


def test_locks_are_pythons_own_outside_of_tests() -> None:
    environment = with_project()
    del environment["DALI_PROXY_DEBUG_LOCKS"]
    subprocess.run([sys.executable, "-c", PLAIN], env=environment, timeout=150, check=True)


def test_tests_check_the_order() -> None:
    assert os.environ["DALI_PROXY_DEBUG_LOCKS"] == "0" or isinstance(new_lock(Level.LEAF, ""), CheckedLock)
    assert lock_order.REPORT_VARIABLE == REPORT_VARIABLE
