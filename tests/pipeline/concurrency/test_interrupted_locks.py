"""A signal handler that raises leaves no lock taken, wherever it interrupts a caller of the threads."""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from dali_proxy.pipeline._concurrency import latch, locks, thread_pool
from dali_proxy.pipeline._concurrency.latch import Latch
from dali_proxy.pipeline._concurrency.locks import Level, new_condition, new_rlock
from dali_proxy.pipeline._concurrency.thread_pool import ThreadPool

# The lock of tests that checks the order isn't among them: it is more than one instruction.
_FILES = {module.__file__ for module in (threading, locks, latch, thread_pool)}


def interrupted(call: Callable[[], object], step: int) -> bool:
    """Call a function, and raise `KeyboardInterrupt` after one of its calls, in it or what it calls.

    Return whether it had so many calls. Python looks for signals after calls, and at the begin of functions and loops.
    """
    left = step
    before: dict[FrameType, str] = {}

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event != "opcode" or frame.f_code.co_filename not in _FILES:
            return count
        last, before[frame] = before.get(frame, ""), dis.opname[frame.f_code.co_code[frame.f_lasti]]
        if last.startswith(("CALL", "JUMP", "RESUME")):
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return count

    sys.settrace(count)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return left <= 0


def ends(call: Callable[[], object]) -> bool:
    """Return whether a function ends on another thread."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(60)
    return not thread.is_alive()


def test_pool_serves_others_after_an_interrupt_anywhere() -> None:
    with ThreadPool(2, "test") as pool:
        step = 1
        while interrupted(lambda: pool.run(lambda _: None, 3), step):
            step += 1
            assert ends(lambda: pool.run(lambda _: None, 3))
        assert step > 20
        assert not pool.busy


def test_condition_is_free_after_an_interrupt_anywhere() -> None:
    condition = new_condition(new_rlock(Level.LEAF, "test"))

    def notify() -> None:
        with condition:
            condition.notify_all()

    step = 1
    while interrupted(notify, step):
        step += 1
        assert ends(notify)
    assert step > 3


def test_latch_lets_others_through_after_an_interrupt_anywhere() -> None:
    step = 1
    while True:
        late = Latch()
        opener = threading.Timer(0.001, late.open)
        opener.start()
        more = interrupted(late.wait, step)
        opener.join()
        assert ends(late.wait)
        if not more:
            break
        step += 1
