"""Exceptions of signal handlers, distinguished from those of the interrupted code."""

from __future__ import annotations

import functools
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._concurrency.interrupts import is_interrupt
from dali_proxy.pipeline._external_source.data import to_batch
from dali_proxy.pipeline._ipc.signals import deferred_signals
from pipeline import dynamic, types


class Handler:
    def method(self, *_: object) -> None:
        raise ValueError("of the handler")

    def __call__(self, *_: object) -> None:
        raise ValueError("of the handler")


def function(*_: object) -> None:
    raise ValueError("of the handler")


HANDLERS = [function, Handler().method, Handler(), functools.partial(function, 1), functools.partial(Handler().method)]


@pytest.fixture(autouse=True)
def _restored_handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR2)
    yield
    signal.signal(signal.SIGUSR2, before)


def raised(call: Callable[..., Any], *args: Any) -> BaseException:
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        call(*args)
    return caught.value


@pytest.mark.parametrize("handler", HANDLERS, ids=["function", "method", "object", "partial", "partial method"])
def test_exception_of_a_handler_is_an_interrupt(handler: Callable[..., None]) -> None:
    signal.signal(signal.SIGUSR2, handler)
    error = raised(signal.raise_signal, signal.SIGUSR2)
    assert is_interrupt(error)
    with deferred_signals:  # the handler is replaced meanwhile
        assert is_interrupt(error)
    signal.signal(signal.SIGUSR2, signal.SIG_DFL)
    assert not is_interrupt(error)


@pytest.mark.parametrize("error", [ValueError(), SystemExit(), KeyboardInterrupt()], ids=repr)
def test_exception_of_a_library_is_not_an_interrupt(error: BaseException) -> None:
    def library() -> None:
        raise error

    signal.signal(signal.SIGUSR2, function)
    assert not is_interrupt(raised(library))


def test_exception_in_another_thread_is_not_an_interrupt() -> None:
    signal.signal(signal.SIGUSR2, function)
    error = raised(signal.raise_signal, signal.SIGUSR2)
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(is_interrupt(error)))
    thread.start()
    thread.join()
    assert results == [False]


class Interrupting:
    """Data whose conversion a signal interrupts."""

    def __array__(self, *_: object, **__: object) -> np.ndarray[Any, Any]:
        signal.raise_signal(signal.SIGUSR2)
        return np.zeros(2)

    shape = (2,)


def timed_out(*_: object) -> None:
    raise TimeoutError("of the handler")


@pytest.mark.parametrize(
    "convert",
    [
        dynamic.tensor,
        lambda data: dynamic.tensor([data]),
        lambda data: dynamic.batch([data]),
        types.Constant,
        lambda data: to_batch([data], None, "x"),
    ],
)
def test_exception_of_a_handler_is_not_an_error_of_the_data(convert: Callable[[Any], Any]) -> None:
    signal.signal(signal.SIGUSR2, timed_out)
    with pytest.raises(TimeoutError, match="of the handler"):
        convert(Interrupting())
