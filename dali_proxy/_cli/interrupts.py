"""Ctrl-C while a command runs: it ends the command, whatever code it meets."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_PATIENCE = 0.2  # seconds in which an exception reaches code that handles it
_IMPORT_PATIENCE = 10.0  # seconds that an import may delay an interrupt
_FRAGILE = frozenset({"torch", "numpy"})  # packages whose C++ code imports modules, and can't handle exceptions there


@contextmanager
def interrupts() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt from this block, though libraries replace or discard the exception.

    If an exception is raised while torch's C++ code imports modules, the process aborts, or torch continues without
    NumPy. So it is raised after such an import. Other C extensions replace it: each error after Ctrl-C becomes a
    KeyboardInterrupt. Finalizers discard it: then it is raised again.
    """
    on_main_thread = threading.current_thread() is threading.main_thread()
    if not on_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    over = threading.Event()
    repeating: threading.Thread | None = None
    latest = float("inf")

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal repeating, latest
        if over.is_set():
            return
        if repeating is None:
            repeating = threading.Thread(target=_repeat, args=(over,), name="dali-interrupt", daemon=True)
            latest = time.monotonic() + _IMPORT_PATIENCE
            repeating.start()
        if _is_importing(frame) and time.monotonic() < latest:
            return
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except Exception as error:
        if repeating is not None:
            raise KeyboardInterrupt from error
        raise
    finally:
        over.set()
        if repeating is not None and repeating.is_alive():
            repeating.join()
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _repeat(over: threading.Event) -> None:
    """Interrupt the main thread again whenever it continues."""
    main = threading.main_thread().ident
    assert main is not None
    while not over.wait(_PATIENCE):
        if not _is_ending(main):
            signal.pthread_kill(main, signal.SIGINT)


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether code that is imported by a fragile package, or is its own, was interrupted."""
    while frame is not None:
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package in _FRAGILE and frame.f_code.co_name == "<module>":
            return True
        frame = frame.f_back
    return False


def _is_ending(thread: int) -> bool:
    """Return whether a thread cleans up after a KeyboardInterrupt: it is the exception being handled, or its cause."""
    handled = sys._current_exceptions().get(thread)
    error = handled[1] if isinstance(handled, tuple) else handled  # a tuple before Python 3.12
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False
