"""The role of a process in one loader, and the exceptions that may end a worker."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from dali_proxy.pipeline._concurrency.interrupts import is_interrupt
from dali_proxy.pipeline._ipc.signals import set_python_handler

_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_MARK = "_dali_proxy_of_signal"


class OwnWorker:
    """The role of this process in one loader: one of its workers, or the process that iterates.

    torch's `get_worker_info` can't replace it: in a loop that runs inside a worker of another loader, it describes that
    worker. The components of one loader share an object of this class. They are sent to a worker together, and
    `WorkerInit` sets the attributes there.

    Attributes:
        id: worker number; None in the process that iterates.
        count: number of workers; 0 in the process that iterates.
        init_error: exception that the user's `worker_init_fn` raised, or None.
    """

    def __init__(self) -> None:
        self.id: int | None = None
        self.count = 0
        self.init_error: BaseException | None = None

    def batch_number(self, number: int) -> int:
        """Return a batch's number in the epoch, given its number among the batches of this process, from 0.

        Different workers use different numbers.
        """
        return number if self.id is None else self.id + number * self.count

    def is_interrupted_by(self, error: BaseException) -> bool:
        """Return whether an exception comes from a signal handler rather than from the batch.

        In a worker, return True only for exceptions that end the worker. Exceptions that other signal handlers raise
        in the user's code belong to the batch.
        """
        return is_interrupt(error) if self.id is None else ends_process(error)


def mark_signal_exits() -> None:
    """Mark the exceptions that handlers of ending signals raise in this process, for `ends_process`."""
    for number in _ENDING_SIGNALS:
        handler = signal.getsignal(number)
        if callable(handler) and not isinstance(handler, _MarkingHandler):
            set_python_handler(number, _MarkingHandler(handler))


def ends_process(error: BaseException) -> bool:
    """Return whether an exception comes from a signal that ends this process, rather than from the current batch."""
    link: BaseException | None = error
    while link is not None:
        if getattr(link, _MARK, False):
            return True
        link = link.__cause__ or link.__context__
    return False


class _MarkingHandler:
    """A signal handler that marks the exceptions of another handler."""

    def __init__(self, handler: Callable[[int, Any], Any]) -> None:
        self._handler = handler

    def __call__(self, number: int, frame: Any) -> None:
        try:
            self._handler(number, frame)
        except BaseException as error:
            setattr(error, _MARK, True)
            raise
