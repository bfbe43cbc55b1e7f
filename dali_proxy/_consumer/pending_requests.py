"""Requests that the threads of a process have sent to a server, and the results that it sends before they ask."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable
from typing import Any

from dali_proxy.errors import ProxyError
from dali_proxy.pipeline._concurrency.locks import Level, new_condition, new_rlock

AHEAD = 2  # least number of batches beyond the current one: one is in flight while the next one is ready
_MOST = 32
_NBYTES = 128 << 20  # results that have arrived, or may arrive, if they are more than `AHEAD`


class SentAhead:
    """The results of a session.

    Attributes:
        depth: number of batches beyond the current one that the server may send before a thread asks for them.
        through: the server sends batches up to this number.
        nbytes: size of the last result in the server's memory; 0 if there was none.
        on_gpu: whether a part of it is on a GPU.
        keys: results that have arrived, and that no thread has asked for: their batches.
    """

    __slots__ = ("depth", "keys", "nbytes", "on_gpu", "through")

    def __init__(self, depth: int = AHEAD) -> None:
        self.depth = depth
        self.through = -1
        self.nbytes = 0
        self.on_gpu = False
        self.keys: dict[tuple[int, int], int] = {}

    def advance(self, batch: int) -> int | None:
        """Record that a thread asks for a batch.

        Returns:
            The number of the last batch that the server may send now; None if it needn't be notified yet.
        """
        through = batch + self.depth
        if through - self.through <= self.depth // 4:
            return None
        self.through = through
        return through

    def unused(self, batch: int) -> list[tuple[int, int]]:
        """Return the results of earlier batches: the user has dropped their placeholders."""
        return [key for key, number in self.keys.items() if number < batch]


class FetchAhead:
    """Decides up to which batch of each session the server may send results. The caller holds a lock.

    Small batches have more in flight than large ones, within the same memory: a loop takes them faster, and none takes
    less time on its way.

    Attributes:
        sessions: the open sessions, by number.
    """

    def __init__(self) -> None:
        self.sessions: dict[int, SentAhead] = {}

    def open(self, session: int) -> SentAhead:
        """Add a session."""
        self.sessions[session] = opened = SentAhead()
        return opened

    def close(self, session: int) -> set[tuple[int, int]]:
        """Remove a session. Return its results that no thread has asked for."""
        closed = self.sessions.pop(session, None)
        return set() if closed is None else set(closed.keys)

    def note_size(self, session: int, nbytes: int, on_gpu: bool = False) -> None:
        """Record the size of a result, and whether it is on a GPU."""
        known = self.sessions.get(session)
        if known is None:
            return
        if known.nbytes != nbytes:
            known.depth = max(AHEAD, min(_MOST, _NBYTES // nbytes)) if nbytes else AHEAD
        known.nbytes, known.on_gpu = nbytes, on_gpu

    def arrive(self, session: int, key: tuple[int, int], batch: int) -> bool:
        """Record a result that no thread has asked for. Return whether one will: whether its session is open."""
        known = self.sessions.get(session)
        if known is None:
            return False
        known.keys[key] = batch
        return True

    def forget(self, key: tuple[int, int]) -> None:
        """Remove a result that a thread asks for, or that was released."""
        for session in self.sessions.values():
            session.keys.pop(key, None)


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
