"""Defers signal handlers that may raise, so that they don't interrupt code between two steps that belong together.

Python may call a handler between any two steps of the main thread, and the handler may raise. Code between two waits
runs inside `deferred_signals`, where no handler is called. A wait is a call of `let_through`, where handlers are
called; the state must be consistent there. An exception of a handler is passed on as an `Interrupted`, which no
``except Exception`` catches, and the outermost `deferred_signals` raises the handler's own exception.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # without the enumerations of `signal`, which take fifty times as long
import os
import sys
import threading
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Any, ParamSpec, TypeVar

from dali_proxy.pipeline._concurrency.interrupts import register_handlers
from dali_proxy.pipeline._ipc.block_allocator import compiled

T = TypeVar("T")
P = ParamSpec("P")

_ACTION_BYTES = 512  # at least sizeof(struct sigaction)


class _Interrupted(BaseException):
    """Carries the exception that a handler raised during a wait."""


class _Handlers:
    """The functions of signals.h in Python. A handler that raises while others are replaced may break them."""

    def __init__(self) -> None:
        import ctypes  # only where nothing is compiled

        self.holds = 0
        self._sigaction = ctypes.CDLL(None).sigaction
        self._new_buffer = ctypes.create_string_buffer
        self._replaced: dict[int, Any] = {}
        self._came: dict[int, None] = {}

    def hold(self) -> None:
        if threading.current_thread() is threading.main_thread():
            if not self.holds:
                self._defer()
            self.holds += 1

    def release(self) -> bool:
        if threading.current_thread() is not threading.main_thread() or not self.holds:
            return False
        self.holds -= 1
        if not self.holds:
            self._restore()
        return not self.holds

    def end_hold(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if self.release() and isinstance(error, Interrupted):
                _raise_as_it_was(error.args[0])
        finally:  # a cycle of an exception and its frames would keep the locals of the callers alive
            del error, trace

    def let_through(self, call: Callable[..., T], *args: Any) -> T:
        if threading.current_thread() is not threading.main_thread() or not self.holds:
            return call(*args)
        before, self.holds = self.holds, 0
        raised: BaseException
        try:
            self._restore()
            return call(*args)
        except BaseException as error:  # noqa: BLE001  # it is raised below
            raised = error
        finally:
            self._defer()
            self.holds = before
        try:
            raise Interrupted(raised)
        finally:  # its traceback refers to this frame, and thus to those of the callers
            del raised

    def finalizer(self, function: Callable[P, None]) -> Callable[P, None]:
        uninterrupted, is_finalizing = deferred_signals(function), sys.is_finalizing

        def finalize(*args: P.args, **kwargs: P.kwargs) -> None:
            if not is_finalizing():
                uninterrupted(*args, **kwargs)

        return finalize

    def handlers(self) -> list[Any]:
        return list(self._replaced.values())

    def set_python_handler(self, number: int, handler: Any) -> None:
        action = self._new_buffer(_ACTION_BYTES)
        known = self._sigaction(number, None, action) == 0
        signal.signal(number, handler)
        if known:
            self._sigaction(number, action, None)

    def begin_signals(self, _thread: int) -> None:
        if self.holds:
            self.holds = 0
            self._came.clear()
            self._restore()

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._came[number] = None

    def _defer(self) -> None:
        for number in range(1, signal.NSIG):
            handler = signal.getsignal(number)
            if callable(handler) and handler != self._note:
                self._replaced[number] = handler
                self.set_python_handler(number, self._note)

    def _restore(self) -> None:
        while self._replaced:
            number, handler = self._replaced.popitem()
            if signal.getsignal(number) == self._note:
                self.set_python_handler(number, handler)
        while self._came:
            signal.raise_signal(self._came.popitem()[0])


_native: Any = _Handlers() if compiled is None else compiled
Interrupted: type[BaseException] = _Interrupted if compiled is None else compiled.Interrupted
"""Carries the exception of a handler from a wait to the outermost `deferred_signals`."""

hold: Callable[[], None] = _native.hold
release: Callable[[], bool] = _native.release
let_through: Callable[..., Any] = _native.let_through
"""``let_through(call, *args)`` is ``call(*args)``, during which handlers are called."""


def run_signal_handlers() -> None:
    """Call the handlers of the signals that have arrived."""
    let_through(int)


set_python_handler: Callable[[int, Any], None] = _native.set_python_handler
"""``set_python_handler(number, handler)`` sets the function that Python calls for a signal.

In contrast to `signal.signal`, the action of the system stays: if it is a C function that doesn't call Python's, as
torch's for SIGTERM in its workers, Python's function still isn't called.
"""


class _DeferredSignals:
    """See `deferred_signals`. A class, because a generator would cost several microseconds per batch."""

    __slots__ = ()

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def uninterrupted(*args: P.args, **kwargs: P.kwargs) -> T:
            with self:
                return function(*args, **kwargs)

        return uninterrupted

    __enter__, __exit__ = staticmethod(hold), staticmethod(_native.end_hold)  # in C


deferred_signals = _DeferredSignals()
"""A context manager and decorator: inside, Python calls signal handlers only in `let_through`.

Other threads aren't affected.
"""


finalizer: Callable[[Callable[[Any], None]], Callable[[Any], None]] = _native.finalizer
"""A decorator for ``__del__``: its code isn't interrupted by signal handlers, and loses none of their exceptions.

Python discards the exceptions of finalizers, and may call handlers as soon as one begins. With the compiled module, the
exception of such a handler is raised in the code that the finalizer interrupted, as if the handler had run there. In a
finalizer that runs inside `deferred_signals`, `let_through` calls no handlers. When the interpreter ends, finalizers do
nothing: modules are being cleared, and the system frees what is left.
"""


def _raise_as_it_was(error: BaseException) -> None:
    context = error.__context__
    try:
        raise error
    finally:
        error.__context__ = context
        del error, context


def _begin() -> None:
    _native.begin_signals(threading.main_thread().ident)


def _begin_in_child() -> None:
    _native.begin_signals(threading.get_ident())  # the thread that forked is the main one now


register_handlers(_native.handlers)
_begin()
os.register_at_fork(after_in_child=_begin_in_child)
