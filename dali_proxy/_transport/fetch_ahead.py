"""The batches that a server sends before a thread asks for them, so that they have arrived when it does."""

from __future__ import annotations

from dali_proxy._transport.origin import Key

__all__ = ["AHEAD", "FetchAhead", "Session"]

AHEAD = 2  # least number of batches beyond the current one: one is in flight while the next one is ready
_MOST = 32
# Size of the results that have arrived, or may arrive, if they are more than `AHEAD`: for the host, for a GPU.
_NBYTES, _GPU_NBYTES = 128 << 20, 256 << 20


class Session:
    """What a server sends of a session before a thread asks for it.

    Attributes:
        depth: number of batches beyond the current one that the server may send.
        through: number of the last batch that it may send.
        nbytes: size of the last result; 0 if there was none.
        on_gpu: whether a part of the last result is on a GPU.
        keys: results that have arrived, and that no thread has asked for, with the numbers of their batches.
    """

    __slots__ = ("depth", "keys", "nbytes", "on_gpu", "through")

    def __init__(self) -> None:
        self.depth = AHEAD
        self.through = -1
        self.nbytes = 0
        self.on_gpu = False
        self.keys: dict[Key, int] = {}


class FetchAhead:
    """Decides up to which batch of each session the server may send results. The caller holds a lock.

    Small batches have more in flight than large ones, within the same memory: a loop takes them faster, and none takes
    less time on its way.
    """

    def __init__(self) -> None:
        self._sessions: dict[int, Session] = {}

    @property
    def has_sessions(self) -> bool:
        """Whether the server sends results of any session unasked."""
        return bool(self._sessions)

    def open(self, session: int) -> None:
        """Add a session."""
        self._sessions[session] = Session()

    def close(self, session: int) -> set[Key]:
        """Remove a session. Return its results that no thread has asked for."""
        closed = self._sessions.pop(session, None)
        return set() if closed is None else set(closed.keys)

    def note_size(self, session: int, nbytes: int, on_gpu: bool = False, for_gpu: bool = False) -> None:
        """Record the size of a result, whether it is on a GPU, and whether it is there now or goes there."""
        known = self._sessions.get(session)
        if known is None:
            return
        if known.nbytes != nbytes:
            most = _GPU_NBYTES if for_gpu else _NBYTES
            known.depth = max(AHEAD, min(_MOST, most // nbytes)) if nbytes else AHEAD
        known.nbytes, known.on_gpu = nbytes, on_gpu

    def session(self, session: int) -> Session:
        """Return a session; if it isn't open, one without results."""
        return self._sessions.get(session) or Session()

    def arrive(self, session: int, key: Key, batch: int) -> bool:
        """Record a result that no thread has asked for. Return whether one will: whether its session is open."""
        known = self._sessions.get(session)
        if known is None:
            return False
        known.keys[key] = batch
        return True

    def find(self, session: int, batch: int) -> Key | None:
        """Return a result of a batch that no thread has asked for, or None."""
        known = self._sessions.get(session)
        return None if known is None else next((key for key, number in known.keys.items() if number == batch), None)

    def forget(self, key: Key) -> None:
        """Remove a result that a thread asks for, or that was released."""
        for session in self._sessions.values():
            session.keys.pop(key, None)

    def unused(self, session: int, batch: int) -> list[Key]:
        """Return the results of earlier batches: the user has dropped their placeholders."""
        known = self._sessions.get(session)
        if known is None:
            return []
        return [key for key, number in known.keys.items() if number < batch]

    def advance(self, session: int, batch: int) -> int | None:
        """Record that a thread asks for a batch.

        Returns:
            The number of the last batch that the server may send now; None if it needn't be notified yet.
        """
        known = self._sessions.get(session)
        if known is None:
            return None
        through = batch + known.depth
        if through - known.through <= known.depth // 4:
            return None
        known.through = through
        return through
