"""Signal handlers run only in waits, and their exceptions are neither lost nor changed."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from operator import methodcaller
from pathlib import Path

import pytest

from dali_proxy.pipeline._concurrency.interrupts import is_interrupt
from dali_proxy.pipeline._ipc.block_allocator import compiled
from dali_proxy.pipeline._ipc.connecting import connect
from dali_proxy.pipeline._ipc.frames import Codec
from dali_proxy.pipeline._ipc.signals import Interrupted, deferred_signals, finalizer, hold, let_through, release


class LateError(TimeoutError):
    pass


compiled_only = pytest.mark.skipif(compiled is None, reason="the variant in Python may be torn")


def late(*_: object) -> None:
    raise LateError("late")


@pytest.fixture(autouse=True)
def _alarm():
    before = signal.signal(signal.SIGALRM, late)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert signal.getsignal(signal.SIGALRM) is late
    signal.signal(signal.SIGALRM, before)


def test_handler_is_called_after_the_block() -> None:
    done = False

    def block() -> None:
        nonlocal done
        with deferred_signals, deferred_signals:
            signal.raise_signal(signal.SIGALRM)
            done = True

    with pytest.raises(LateError) as caught:
        block()
    assert done
    assert caught.value.__context__ is caught.value.__cause__ is None


def test_handler_is_called_in_a_wait_and_no_except_takes_its_exception() -> None:
    def wait() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        time.sleep(60)

    by_handler = False

    def block() -> None:
        nonlocal by_handler
        with deferred_signals:
            try:
                let_through(wait)
            except OSError:
                pytest.fail("it was mistaken for a system error")
            except Interrupted as interrupted:
                by_handler = is_interrupt(interrupted.args[0])
                raise

    with pytest.raises(LateError) as caught:
        block()
    assert by_handler
    assert caught.value.__context__ is None


def test_keyboard_interrupt_of_a_library_is_not_mistaken_for_a_handlers() -> None:
    def reraise() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as error:
            raise error from None

    with pytest.raises(KeyboardInterrupt) as of_handler:
        reraise()
    with pytest.raises(KeyboardInterrupt) as of_library:
        raise KeyboardInterrupt
    assert is_interrupt(of_handler.value)
    assert not is_interrupt(of_library.value)


def test_wait_outside_a_block_raises_the_original_exception() -> None:
    with pytest.raises(ZeroDivisionError):
        let_through(lambda: 1 // 0)
    assert let_through(max, 1, 2) == 2


def action() -> bytes:
    """Return the system's function for SIGALRM and its flags."""
    buffer = ctypes.create_string_buffer(512)
    assert ctypes.CDLL(None).sigaction(signal.SIGALRM, None, buffer) == 0
    return buffer.raw[:8] + buffer.raw[136:140]  # the mask of 128 bytes is in between


@pytest.mark.parametrize("interrupts", [True, False])
def test_actions_of_the_system_stay(interrupts: bool) -> None:
    signal.siginterrupt(signal.SIGALRM, interrupts)
    before = action()
    hold()
    inside = action()
    release()
    assert inside == action() == before


def test_other_threads_are_not_affected() -> None:
    made = []

    def use() -> None:
        with deferred_signals:
            made.append(let_through(max, 1, 2))

    with deferred_signals:
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
    assert made == [2]


def test_child_that_is_forked_inside_calls_handlers() -> None:
    with deferred_signals:
        pid = os.fork()
        if pid == 0:
            os._exit(0 if signal.getsignal(signal.SIGALRM) is late else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@compiled_only
def test_blocks_are_never_left_half_done() -> None:
    armed, raised, moments = False, 0, random.Random(1)
    steps = [0, 0]

    def interrupt(*_: object) -> None:
        if armed:
            raise LateError

    signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(300):
            signal.setitimer(signal.ITIMER_REAL, moments.uniform(1e-6, 1e-4))
            try:
                armed = True
                for _ in range(5):
                    with deferred_signals:
                        steps[0] += 1
                        sum(range(20))
                        steps[1] += 1
            except LateError:
                raised += 1
            finally:
                armed = False
            assert steps[0] == steps[1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, late)
    assert raised


class Finalized:
    """Calls a function when it is freed."""

    def __init__(self, function: Callable[[], object]) -> None:
        self.function = function

    @finalizer
    def __del__(self) -> None:
        self.function()


@compiled_only
def test_handlers_that_raise_in_a_finalizer_raise_in_the_code_that_it_interrupted() -> None:
    raised, caught, steps, moments = 0, 0, [0, 0], random.Random(1)

    def interrupt(*_: object) -> None:
        nonlocal raised
        raised += 1
        raise LateError

    class Stepping:
        @finalizer
        def __del__(self) -> None:
            steps[0] += 1
            sum(range(20))
            steps[1] += 1

    signal.signal(signal.SIGALRM, interrupt)
    try:
        while caught < 300:
            try:
                signal.setitimer(signal.ITIMER_REAL, moments.uniform(1e-6, 1e-4))
                for _ in range(20):
                    Stepping()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except LateError:
                caught += 1
            assert steps[0] == steps[1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, late)
    assert raised == caught


@compiled_only
@pytest.mark.parametrize("wait", [False, True])
def test_finalizer_is_not_interrupted_except_in_a_wait(wait: bool) -> None:
    steps: list[str] = []

    def end() -> None:
        if wait:
            let_through(signal.raise_signal, signal.SIGALRM)
        else:
            signal.raise_signal(signal.SIGALRM)
        steps.append("ended")

    freed = [Finalized(end)]

    def free() -> None:
        for _ in range(2):  # Python calls handlers between two rounds of a loop
            freed.clear()

    with pytest.raises(LateError):
        free()
    assert steps == ([] if wait else ["ended"])


@compiled_only
@pytest.mark.parametrize("wait", [False, True])
def test_finalizer_in_a_block_calls_no_handlers(wait: bool) -> None:
    steps: list[str] = []

    def end() -> None:
        if wait:
            let_through(signal.raise_signal, signal.SIGALRM)
        else:
            signal.raise_signal(signal.SIGALRM)
        steps.append("ended")

    freed = [Finalized(end)]

    @deferred_signals
    def block() -> None:
        freed.clear()
        steps.append("continued")

    with pytest.raises(LateError):
        block()
    assert steps == ["ended", "continued"]


@compiled_only
def test_exception_of_a_handler_in_a_finalizer_interrupts_no_block() -> None:
    """The garbage collector may run the finalizer just before the block begins."""
    steps: list[str] = []
    freed: list[Finalized] = [Finalized(lambda: let_through(signal.raise_signal, signal.SIGALRM))]

    def block() -> None:
        list(map(methodcaller("__call__"), (freed.clear, hold)))  # C code: Python does nothing in between
        steps.append("inside")
        release()

    with pytest.raises(LateError):
        block()
    assert steps == ["inside"]


def test_alarm_while_connecting(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()  # and never answers
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(LateError):
            connect(path, b"key", Codec({}), timeout=60)


def test_python_does_the_same_without_the_compiled_module() -> None:
    script = (
        "import signal\n"
        "from dali_proxy.pipeline._ipc.signals import deferred_signals\n"
        "with deferred_signals:\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    print('inside')\n"
    )
    made = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "DALI_PROXY_NATIVE": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.stdout == "inside\n"
    assert "KeyboardInterrupt" in made.stderr
