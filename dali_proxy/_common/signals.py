"""Blocking of harmful signals; `pipeline._ipc.signals` defers others."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def blocked_signal(number: signal.Signals) -> Iterator[None]:
    """Keep a signal from its Python handler.

    Torch's handler of SIGCHLD must not see the end of this project's processes: once a worker has died, it raises at
    the end of any child.
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
