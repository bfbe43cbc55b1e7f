"""What the threads of a process have asked a server, and small things that go with it."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dali_proxy._transport.fetch_ahead import Lookahead
from dali_proxy.errors import ProxyError
from pipeline._concurrency.locks import Level, new_rlock

if TYPE_CHECKING:
    from dali_proxy._transport.protocol import Result

__all__ = ["Deadline", "Key", "Question", "Questions", "Talk", "fresh", "without_frames"]


Key = tuple[Any, ...]


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


class Questions(dict[Key, Question]):
    """Questions that nobody has taken the answer of, and what is fetched before anybody asks.

    Attributes:
        lock: guards this object, and whoever receives. It is quicker to take than the condition.
        changed: notified when something was answered, or somebody receives no more.
        ahead: what is fetched early.
    """

    def __init__(self) -> None:
        self.lock = new_rlock(Level.PENDING_REQUESTS, "pending requests")
        self.changed = threading.Condition(self.lock)
        self.ahead = Lookahead()

    def answer(self, key: Key, answer: Any) -> None:
        """Note an answer."""
        with self.lock:
            asked = self.get(key)
            # Else whoever asked has gone, and the answer with it; or it was asked twice, and this one refuses.
            if asked is not None and asked.answer is None:
                asked.answer = answer
                self.changed.notify_all()

    def forget(self, key: Key) -> None:
        """Drop a question."""
        with self.lock:
            self.pop(key, None)

    def forget_batches(self, batches: Iterable[tuple[int, int]]) -> None:
        """Drop what was asked about batches."""
        with self.lock:
            for batch in batches:
                self.pop(("batch", *batch), None)
                self.ahead.forget(batch)

    def forget_session(self, session: int) -> None:
        """Drop what was fetched early for a session, which has ended."""
        with self.lock:
            self.forget_batches(self.ahead.close(session))


class Deadline:
    """How long a server may take for an answer: the smaller one of two limits.

    Args:
        timeout: seconds from now that `DALIServer` gives it; None for as long as it lives.
        pid: the server's process, for the message.
        patience: seconds that a loader gives it; 0 or None for any time.
    """

    def __init__(self, timeout: float | None, pid: int, patience: float | None = None) -> None:
        self._timeout, self._limit = timeout, "DALIServer(timeout=...)"
        if patience and (timeout is None or patience < timeout):
            self._timeout, self._limit = patience, "the loader's timeout="
        self._pid = pid
        self._end = None if self._timeout is None else time.monotonic() + self._timeout

    @property
    def left(self) -> float | None:
        """Seconds that are left; None for any time."""
        return None if self._end is None else max(self._end - time.monotonic(), 0.0)

    def check(self) -> None:
        """Raise if it has passed.

        Raises:
            ProxyError: it has.
        """
        if self._end is not None and time.monotonic() >= self._end:
            raise ProxyError(
                f"the server (process {self._pid}) is alive but didn't answer within {self._timeout:g} s, the limit of "
                f"{self._limit}"
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
