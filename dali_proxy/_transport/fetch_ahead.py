"""The batches that a server sends before a thread asks for them, so that they have arrived when it does."""

from __future__ import annotations

from dali_proxy._transport.origin import Key

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
        self.keys: dict[Key, int] = {}


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

    def close(self, session: int) -> set[Key]:
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

    def arrive(self, session: int, key: Key, batch: int) -> bool:
        """Record a result that no thread has asked for. Return whether one will: whether its session is open."""
        known = self.sessions.get(session)
        if known is None:
            return False
        known.keys[key] = batch
        return True

    def forget(self, key: Key) -> None:
        """Remove a result that a thread asks for, or that was released."""
        for session in self.sessions.values():
            session.keys.pop(key, None)

    def unused(self, session: int, batch: int) -> list[Key]:
        """Return the results of earlier batches: the user has dropped their placeholders."""
        known = self.sessions.get(session)
        if known is None or not known.keys:
            return []
        return [key for key, number in known.keys.items() if number < batch]

    def advance(self, session: int, batch: int) -> int | None:
        """Record that a thread asks for a batch.

        Returns:
            The number of the last batch that the server may send now; None if it needn't be notified yet.
        """
        known = self.sessions.get(session)
        if known is None:
            return None
        through = batch + known.depth
        if through - known.through <= known.depth // 4:
            return None
        known.through = through
        return through
