"""What the threads of a process have asked a server, and small things that go with it."""

from __future__ import annotations

import copy
import threading
import time
from typing import TYPE_CHECKING, Any

from dali_proxy.errors import ProxyError

if TYPE_CHECKING:
    from dali_proxy._transport.protocol import Result

__all__ = ["Deadline", "Question", "Talk", "fresh", "without_frames"]


class Question:
    """What was asked of the server, for all threads that want to know it."""

    __slots__ = ("answer", "coming", "samples", "sent")

    def __init__(self) -> None:
        self.answer: Any = None  # set once
        self.coming = False  # the server has answered, and this process goes on with it
        self.samples = ("", "")  # dataset indices and names of the batch's samples, packed; mostly unknown
        self.sent = False  # it may be sent twice: the server refuses the second one

    def note(self, result: Result, goes_on: bool) -> None:
        """Take note that a result has come, and whether this process goes on with it."""
        self.coming = goes_on
        source = result.origin or result
        self.samples = (source.indices, source.names)


class Deadline:
    """How long a server may take for an answer.

    Args:
        timeout: seconds from now; None for as long as it lives.
        pid: the server's process, for the message.
    """

    def __init__(self, timeout: float | None, pid: int) -> None:
        self._timeout = timeout
        self._pid = pid
        self._end = None if timeout is None else time.monotonic() + timeout

    def check(self) -> None:
        """Raise if it has passed.

        Raises:
            ProxyError: it has.
        """
        if self._end is not None and time.monotonic() > self._end:
            raise ProxyError(
                f"the server (process {self._pid}) lives but gave no answer in {self._timeout:g} s; "
                "DALIServer(timeout=...) is the limit"
            )


def fresh(error: Exception) -> Exception:
    """Copy an error that is kept: raising it would tie the frames of whoever gets it to whatever keeps it."""
    copied = copy.copy(error)
    copied.__cause__ = error.__cause__
    return copied


def without_frames(error: Exception, cause: Exception) -> Exception:
    """Return an error that is to be kept, with its cause, but not the frames of that: who keeps it is in them."""
    error.__cause__ = cause.with_traceback(None)
    return error


class Talk:  # a function to who uses it: as a generator, it would cost a batch several microseconds
    """Marks a thread as being inside a channel, until it leaves it again."""

    __slots__ = ("_outermost", "_talking")

    def __init__(self, talking: threading.local) -> None:
        self._talking = talking
        self._outermost = False

    def __enter__(self) -> None:
        if not getattr(self._talking, "now", False):
            self._outermost = self._talking.now = True

    def __exit__(self, *exc_info: object) -> None:
        if self._outermost:
            self._talking.now = False
