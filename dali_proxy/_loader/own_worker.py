"""Which worker of one loader a process is, and which exceptions may end it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from pipeline._ipc.signals import raised_by_handler

__all__ = ["OwnWorker", "ends_process", "mark_signal_exits"]

_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_MARK = "_dali_proxy_of_signal"


class OwnWorker:
    """Which worker of one loader this process is.

    torch's `get_worker_info` answers for the process: in a loop inside a worker of another loader, it describes that
    worker. The parts of one loader share an object of this class. They travel to a worker together, and `WorkerInit`
    fills it in there.

    Attributes:
        id: number of the worker; None in the process that iterates.
        count: number of workers; 0 in the process that iterates.
        init_error: the exception that the user's `worker_init_fn` raised, or None.
    """

    def __init__(self) -> None:
        self.id: int | None = None
        self.count = 0
        self.init_error: BaseException | None = None

    def batch_number(self, made: int) -> int:
        """Return the number of the batch that this process makes after `made` others.

        No two workers use one number.
        """
        return made if self.id is None else self.id + made * self.count

    def is_interrupted_by(self, error: BaseException) -> bool:
        """Return whether a signal handler raised an exception, so that it isn't the batch's.

        In a worker, these are the exceptions that end it; what other handlers raise there in the user's code belongs to
        the batch.
        """
        return raised_by_handler(error) if self.id is None else ends_process(error)


def mark_signal_exits() -> None:
    """Mark what the handlers of ending signals raise in this process, for `ends_process`."""
    for number in _ENDING_SIGNALS:
        handler = signal.getsignal(number)
        if callable(handler) and not isinstance(handler, _MarkingHandler):
            signal.signal(number, _MarkingHandler(handler))


def ends_process(error: BaseException) -> bool:
    """Whether a signal raised an exception to end this process. Any other exception belongs to the current batch."""
    link: BaseException | None = error
    while link is not None:
        if getattr(link, _MARK, False):
            return True
        link = link.__cause__ or link.__context__
    return False


class _MarkingHandler:
    """A signal handler that marks what another one raises."""

    def __init__(self, handler: Callable[[int, Any], Any]) -> None:
        self._handler = handler

    def __call__(self, number: int, frame: Any) -> None:
        try:
            self._handler(number, frame)
        except BaseException as error:
            setattr(error, _MARK, True)
            raise
