"""Signals at moments when they would be lost, or do harm."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["interrupts_later", "unheard"]


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Put a Ctrl-C off until the end of the block.

    While a process forks, Python runs hooks (of logging, for example) and drops what is raised in them, so a
    KeyboardInterrupt that comes just then would never be seen. Children get the interrupt as ever.
    """
    usual = signal.getsignal(signal.SIGINT)
    if not callable(usual) or threading.current_thread() is not threading.main_thread():
        yield
        return
    owner = os.getpid()
    came: list[FrameType | None] = []

    def note(number: int, frame: FrameType | None) -> None:
        if os.getpid() == owner:
            came.append(frame)
        else:
            usual(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if came:
            usual(signal.SIGINT, came[0])


@contextmanager
def unheard(number: signal.Signals) -> Iterator[None]:
    """Keep a signal from its handler.

    The end of a child of ours must not reach torch: its handler raises, at every child's end, once a worker has died.
    """
    handler = signal.getsignal(number)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(number, handler)
