"""The host's thread that pins memory: its calls, its references and its end."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dali_proxy._host.pinning import Pinner
from tests.waiting import PATIENCE_S, wait_until


class Register:
    """Stands for CUDA: pins nothing, and waits if the test asks for it."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.go_on.set()
        self.asked: list[int] = []
        self.refused = False

    def __call__(self, memory: np.ndarray) -> Any:
        self.asked.append(memory.nbytes)
        assert self.go_on.wait(PATIENCE_S)
        return None if self.refused else memory


@pytest.fixture
def register() -> Register:
    return Register()


@pytest.fixture
def pinner(register: Register) -> Iterator[Pinner]:
    pinner = Pinner(register)
    yield pinner
    register.go_on.set()
    pinner.close()


def test_memory_is_used_unpinned_if_the_thread_cannot_start(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    pinner = Pinner(register)
    pinner.pin(np.zeros(10, np.uint8), lambda memory: pytest.fail("it isn't pinned"))
    pinner.close()
    assert register.asked == []


def test_pinning_is_reported_and_not_waited_for(pinner: Pinner, register: Register) -> None:
    register.go_on.clear()
    done, pinned = threading.Semaphore(0), []
    blocks = [np.zeros(10, np.uint8), np.zeros(20, np.uint8)]

    def on_pinned(memory: np.ndarray) -> None:
        pinned.append(memory)
        done.release()

    for block in blocks:
        pinner.pin(block, on_pinned)
    assert pinned == []
    register.go_on.set()
    for _ in blocks:
        assert done.acquire(timeout=PATIENCE_S)
    assert [memory.ctypes.data for memory in pinned] == [block.ctypes.data for block in blocks]
    assert register.asked == [10, 20]


def test_refused_memory_is_neither_reported_nor_kept(pinner: Pinner, register: Register) -> None:
    done = threading.Event()
    register.refused = True
    block = np.zeros(10, np.uint8)
    gone = weakref.ref(block)
    pinner.pin(block, lambda memory: pytest.fail("it was refused"))
    del block
    last = np.zeros(1, np.uint8)
    pinner.pin(last, lambda memory: done.set())
    pinner.close()
    gc.collect()
    assert gone() is None
    assert not done.is_set()


def test_end_skips_memory_that_was_not_begun(pinner: Pinner, register: Register) -> None:
    register.go_on.clear()
    pinner.pin(np.zeros(1, np.uint8), lambda memory: None)
    wait_until(lambda: bool(register.asked))
    for _ in range(5):
        pinner.pin(np.zeros(2, np.uint8), lambda memory: None)
    ending = threading.Thread(target=pinner.close)
    ending.start()
    wait_until(lambda: pinner._closing)
    register.go_on.set()
    ending.join(PATIENCE_S)
    assert not ending.is_alive()
    assert register.asked == [1]


def test_unused_pinning_has_no_thread(register: Register) -> None:
    before = threading.active_count()
    pinner = Pinner(register)
    assert threading.active_count() == before
    pinner.close()
