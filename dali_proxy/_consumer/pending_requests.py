"""Requests that the threads of a process have sent to a server, their deadlines and their errors."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dali_proxy._transport.fetch_ahead import FetchAhead
from dali_proxy.errors import ProxyError
from pipeline._concurrency.locks import Level, new_condition, new_rlock

if TYPE_CHECKING:
    from dali_proxy._transport.protocol import Result

_LONGEST_PAUSE = 1.0  # seconds between two checks of a deadline

Key = tuple[Any, ...]


class PendingRequest:
    """A pending request to the server, shared by all threads that wait for its answer."""

    __slots__ = ("answer", "coming", "samples", "sent", "variant")

    def __init__(self) -> None:
        self.answer: Any = None  # set once
        self.coming = False  # the server has answered, and this process continues the batch
        self.samples = ("", "")  # packed dataset indices and names of the batch's samples; usually unknown
        self.variant = 0  # variant of the pipeline that computed the batch; see `Place`
        self.sent = False  # a request may be sent twice: the server refuses the second one

    def note(self, result: Result, continues: bool) -> None:
        """Record that a result has arrived, and whether this process continues the batch."""
        self.coming = continues
        self.variant = result.variant
        source = result.origin or result
        self.samples = (source.indices, source.names)


class PendingRequests(dict[Key, PendingRequest]):
    """Requests whose answers haven't been read, and the batches that arrive early.

    Attributes:
        lock: lock for this object and for receiving. Acquiring it is faster than acquiring the condition.
        changed: condition that is notified when a request is answered or a thread stops receiving.
        ahead: results that the server sends before a thread asks for them.
    """

    def __init__(self) -> None:
        self.lock = new_rlock(Level.PENDING_REQUESTS, "pending requests")
        self.changed = new_condition(self.lock)
        self.ahead = FetchAhead()

    def answer(self, key: Key, answer: Any) -> None:
        """Store the answer to a request."""
        with self.lock:
            request = self.get(key)
            # Otherwise the request was dropped, or it was sent twice and this answer is the refusal.
            if request is not None and request.answer is None:
                request.answer = answer
                self.changed.notify_all()

    def forget(self, key: Key) -> None:
        """Drop a request."""
        with self.lock:
            self.pop(key, None)

    def forget_batches(self, batches: Iterable[tuple[int, int]]) -> None:
        """Drop the requests for batches."""
        with self.lock:
            for batch in batches:
                self.pop(("batch", *batch), None)
                self.ahead.forget(batch)

    def forget_session(self, session: int) -> None:
        """Drop the batches that arrived early for a session that has ended."""
        with self.lock:
            self.forget_batches(self.ahead.close(session))


class Deadline:
    """Time limit for an answer of the server: the smaller of two limits.

    Callers read `left` or call `check` every second: a longer pause means that this process was stopped (by Ctrl-Z or a
    paused container, for example), so the rest of the pause doesn't count.

    Args:
        timeout: limit of `DALIServer` in seconds from now; None for as long as the server lives.
        server: name of the server in the error message, with a verb; or its process.
        patience: limit of the loader in seconds; 0 or None for no limit.
    """

    def __init__(self, timeout: float | None, server: int | str, patience: float | None = None) -> None:
        self._timeout, self._limit = timeout, "DALIServer(timeout=...)"
        if patience and (timeout is None or patience < timeout):
            self._timeout, self._limit = patience, "the loader's timeout="
        self._server = f"the server (process {server}) is" if isinstance(server, int) else server
        self._checked = time.monotonic()
        self._left = self._timeout

    @property
    def left(self) -> float | None:
        """Remaining seconds; None for no limit."""
        if self._left is not None:
            now = time.monotonic()
            self._left = max(self._left - min(now - self._checked, _LONGEST_PAUSE), 0.0)
            self._checked = now
        return self._left

    def check(self) -> None:
        """Raise if the deadline has passed.

        Raises:
            ProxyError: the deadline has passed.
        """
        if self.left == 0:
            raise self.error()

    def error(self) -> ProxyError:
        """Return the error to raise when the deadline has passed."""
        return ProxyError(
            f"{self._server} alive but didn't answer within {self._timeout:g} s, the limit of {self._limit}"
        )


def fresh(error: Exception) -> Exception:
    """Copy a stored error, for raising: raising the error itself would keep the frames of its callers alive."""
    copied = copy.copy(error)
    copied.__cause__ = error.__cause__
    return copied


def without_frames(error: Exception, cause: Exception) -> Exception:
    """Set the cause of an error, without the cause's frames: they would refer to the object that stores the error."""
    error.__cause__ = cause.with_traceback(None)
    return error


class ChannelGuard(threading.local):
    """Reentrancy guard: a context that marks the current thread as being in the channel.

    Attributes:
        depth: number of these contexts that the thread is in.
    """

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *exc_info: object) -> None:
        self.depth -= 1
