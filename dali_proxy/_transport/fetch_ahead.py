"""The batches that a server sends before a thread asks for them, so that they have arrived when it does."""

from __future__ import annotations

from dali_proxy._transport.origin import Key

__all__ = ["AHEAD", "FetchAhead"]

AHEAD = 2  # least number of batches beyond the current one: one is in flight while the next one is ready
_MOST = 32
_NBYTES = 128 << 20  # results that have arrived, or may arrive, if they are more than `AHEAD`


class _Session:
    __slots__ = ("depth", "keys", "nbytes", "on_gpu", "through")

    def __init__(self) -> None:
        self.depth = AHEAD  # batches beyond the current one that the server may send
        self.through = -1  # the server sends batches up to this number
        self.nbytes = 0  # size of the last result
        self.on_gpu = False  # whether a part of it is on a GPU
        self.keys: dict[Key, int] = {}  # results that have arrived, and that no thread has asked for: their batches


class FetchAhead:
    """Decides up to which batch of each session the server may send results. The caller holds a lock.

    Small batches have more in flight than large ones, within the same memory: a loop takes them faster, and none takes
    less time on its way.
    """

    def __init__(self) -> None:
        self._sessions: dict[int, _Session] = {}

    @property
    def has_sessions(self) -> bool:
        """Whether the server sends results of any session unasked."""
        return bool(self._sessions)

    def open(self, session: int) -> None:
        """Add a session."""
        self._sessions[session] = _Session()

    def close(self, session: int) -> set[Key]:
        """Remove a session. Return its results that no thread has asked for."""
        closed = self._sessions.pop(session, None)
        return set() if closed is None else set(closed.keys)

    def note_size(self, session: int, nbytes: int, on_gpu: bool = False) -> None:
        """Record the size of a result, and whether it is on a GPU."""
        known = self._sessions.get(session)
        if known is None:
            return
        if known.nbytes != nbytes:
            known.depth = max(AHEAD, min(_MOST, _NBYTES // nbytes)) if nbytes else AHEAD
        known.nbytes, known.on_gpu = nbytes, on_gpu

    def on_gpu(self, session: int) -> bool:
        """Return whether the last result is on a GPU."""
        known = self._sessions.get(session)
        return known is not None and known.on_gpu

    def size(self, session: int) -> int:
        """Return the size of the last result; 0 if there was none."""
        known = self._sessions.get(session)
        return 0 if known is None else known.nbytes

    def arrive(self, session: int, key: Key, batch: int) -> bool:
        """Record a result that no thread has asked for. Return whether one will: whether its session is open."""
        known = self._sessions.get(session)
        if known is None:
            return False
        known.keys[key] = batch
        return True

    def forget(self, key: Key) -> None:
        """Remove a result that a thread asks for, or that was released."""
        for session in self._sessions.values():
            session.keys.pop(key, None)

    def depth(self, session: int) -> int:
        """Return the number of batches beyond the current one that the server may send."""
        known = self._sessions.get(session)
        return AHEAD if known is None else known.depth

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
