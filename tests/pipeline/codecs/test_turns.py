"""One thread at a time calls libnvjpeg, with the right arguments, with and without the C module."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._codecs import turns
from dali_proxy.pipeline._codecs.turns import Turn

pytestmark = pytest.mark.timeout(60)

PREPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int] * 3)
DECODE = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 7)
HANDLE, STATE = ctypes.c_void_p(16), ctypes.c_void_p(32)
BATCH = tuple(np.arange(count, dtype=np.uint64) for count in (3, 4, 5, 6))


def library(prepare: Callable[..., int] = lambda *_: 0, decode: Callable[..., int] = lambda *_: 0) -> Any:
    """Return a fake of libnvjpeg: functions that C can call."""
    return SimpleNamespace(nvjpegDecodeBatchedInitialize=PREPARE(prepare), nvjpegDecodeBatchedEx=DECODE(decode))


@pytest.fixture(params=["compiled", "python"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_LOCKS", {})
    if request.param == "python":
        monkeypatch.setattr(turns, "compiled", None)
    elif turns.compiled is None:
        pytest.skip("needs the C module")


def test_calls_and_their_arguments() -> None:
    calls: list[tuple[str, tuple[int, ...]]] = []

    def recorded(name: str, status: int) -> Callable[..., int]:
        return lambda *arguments: calls.append((name, arguments)) or status

    made = library(recorded("prepare", 0), recorded("decode", 7))
    turn = Turn(3)
    assert turn.decode(made, HANDLE, STATE, (3, 5), BATCH, 48) == (0, 7)
    assert turn.decode(made, HANDLE, STATE, None, BATCH, 64) == (0, 7)
    arrays = tuple(array.ctypes.data for array in BATCH)
    assert calls == [
        ("prepare", (16, 32, 3, 1, 5)),
        ("decode", (16, 32, *arrays, 48)),
        ("decode", (16, 32, *arrays, 64)),
    ]


def test_batch_that_could_not_be_prepared_is_not_decoded() -> None:
    decoded: list[int] = []
    made = library(lambda *_: 2, lambda *_: decoded.append(1) or 0)
    assert Turn(0).decode(made, HANDLE, STATE, (3, 5), BATCH, 0) == (2, 0)
    assert not decoded


def test_turns_of_a_gpu_come_one_at_a_time() -> None:
    inside, go_on, other_gpu = threading.Event(), threading.Event(), threading.Event()
    order: list[int] = []

    def decode(handle: int, *_: int) -> int:
        order.append(handle)
        if handle == 1:
            inside.set()
            assert go_on.wait(50)
        order.append(-handle)
        return 0

    made = library(decode=decode)

    def call(number: int, gpu: int) -> None:
        Turn(gpu).decode(made, ctypes.c_void_p(number), STATE, None, BATCH, 0)
        if gpu:
            other_gpu.set()

    threads = [threading.Thread(target=call, args=(number, gpu)) for number, gpu in ((1, 0), (2, 0), (3, 1))]
    threads[0].start()
    assert inside.wait(50)
    for thread in threads[1:]:
        thread.start()
    assert other_gpu.wait(50)  # another GPU has separate turns
    with Turn(2).held:
        pass
    assert order == [1, 3, -3]
    go_on.set()
    for thread in threads:
        thread.join(50)
    assert order == [1, 3, -3, -1, 2, -2]


def test_held_turn_keeps_others_out() -> None:
    order: list[str] = []
    made = library(decode=lambda *_: order.append("decoded") or 0)
    begun = threading.Event()

    def call() -> None:
        begun.set()
        Turn(0).decode(made, HANDLE, STATE, None, BATCH, 0)

    with Turn(0).held:
        thread = threading.Thread(target=call)
        thread.start()
        assert begun.wait(50)
        order.append("held")
    thread.join(50)
    assert order == ["held", "decoded"]


class Interrupted(Exception):
    """The exception that a signal raises in the main thread, like Ctrl-C."""


@pytest.fixture
def interrupting() -> Iterator[None]:
    """Let SIGUSR1 raise while a thread keeps the GIL until it waits for something else."""

    def interrupt(*_: object) -> None:
        raise Interrupted

    before, interval = signal.signal(signal.SIGUSR1, interrupt), sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(interval)
    signal.signal(signal.SIGUSR1, before)


def is_free(gpu: int) -> bool:
    """Return whether another thread can get the turn."""
    had = threading.Event()

    def take() -> None:
        with Turn(gpu).held:
            had.set()

    threading.Thread(target=take, daemon=True).start()
    return had.wait(60)


@pytest.mark.usefixtures("interrupting")
def test_turn_is_released_by_an_interrupted_waiter() -> None:
    inside, waited_for = threading.Event(), threading.Event()

    def decode(*_: int) -> int:
        inside.set()
        assert waited_for.wait(50)
        signal.raise_signal(signal.SIGUSR1)  # the main thread has released the GIL, so it waits for the turn
        return 0

    made = library(decode=decode)
    thread = threading.Thread(target=lambda: Turn(5).decode(made, HANDLE, STATE, None, BATCH, 0))
    thread.start()
    assert inside.wait(50)
    turn = Turn(5)

    def take() -> None:
        waited_for.set()
        with turn.held:
            sum(range(3))  # Python handles the signal here or before

    with pytest.raises(Interrupted):
        take()
    thread.join(50)
    assert is_free(5)


def test_turn_may_be_taken_again_by_its_holder() -> None:
    """Garbage collection may close another decoder during a turn."""
    done = threading.Event()

    def twice() -> None:
        with Turn(6).held, Turn(6).held:
            pass
        done.set()

    threading.Thread(target=twice, daemon=True).start()
    assert done.wait(60)
    assert is_free(6)


def test_turn_ends_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), Turn(0).held:
        _ = 1 // 0
    assert is_free(0)


def test_impossible_gpus_are_refused() -> None:
    if turns.compiled is None:
        pytest.skip("needs the C module")
    for gpu in (-1, 64):
        with pytest.raises(ValueError, match=f"GPU {gpu} doesn't exist"):
            Turn(gpu)
