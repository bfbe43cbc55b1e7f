"""Signals that would do harm; `pipeline._ipc.signals` puts others off."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["blocked_signal"]


@contextmanager
def blocked_signal(number: signal.Signals) -> Iterator[None]:
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
