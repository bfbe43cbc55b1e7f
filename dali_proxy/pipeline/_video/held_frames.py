"""Decoded frames in memory, up to a limit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

#: What is known of a frame, in the order in which frames are given up.
_USED, _UNUSED, _WANTED = range(3)


class HeldFrames:
    """Decoded frames. Those that known requests need stay longest. Callers take turns: it isn't thread-safe.

    Beyond the limit, it first gives up frames that were used and that no known request needs, then frames that were
    never used, and last those that known requests need, from the newest one on: they are needed last.

    Example:
        >>> frames = HeldFrames(limit=2)
        >>> for number in range(3):
        ...     frames.put(number, b"x", 1, wanted=number == 0)
        >>> [frames.take(number, wanted=False) for number in range(3)]
        [b'x', None, b'x']
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._nbytes = [0, 0, 0]  # of each kind
        self._kinds: tuple[OrderedDict[Hashable, tuple[Any, int]], ...] = (OrderedDict(), OrderedDict(), OrderedDict())
        self._kind: dict[Hashable, int] = {}
        self._used: set[Hashable] = set()

    @property
    def nbytes(self) -> int:
        """Size of all frames."""
        return sum(self._nbytes)

    @property
    def wanted_nbytes(self) -> int:
        """Size of the frames that known requests need."""
        return self._nbytes[_WANTED]

    def __contains__(self, key: Hashable) -> bool:
        return key in self._kind

    def take(self, key: Hashable, wanted: bool) -> Any:
        """Return a frame for a request, or None.

        Args:
            key: identity of the frame.
            wanted: whether other requests are known that need it.
        """
        if key not in self._kind:
            return None
        self._used.add(key)
        pixels, _ = self._move(key, _WANTED if wanted else _USED)
        return pixels

    def put(self, key: Hashable, pixels: Any, nbytes: int, wanted: bool, used: bool = False) -> None:
        """Add a frame, and give up others beyond the limit.

        Args:
            key: identity of the frame.
            pixels: the frame.
            nbytes: its size.
            wanted: whether requests are known that need it.
            used: whether it is already in use.
        """
        if key in self._kind or nbytes > self.limit:
            return
        if used:
            self._used.add(key)
        kind = _WANTED if wanted else _USED if used else _UNUSED
        self._kind[key] = kind
        self._kinds[kind][key] = pixels, nbytes
        self._nbytes[kind] += nbytes
        while self.nbytes > self.limit:
            self._drop(self._next_to_drop())

    def note(self, key: Hashable, wanted: bool) -> None:
        """Record whether known requests need a frame, if it is held."""
        kind = self._kind.get(key)
        if kind is not None and (kind == _WANTED) != wanted:
            self._move(key, _WANTED if wanted else _USED if key in self._used else _UNUSED)

    def drop(self, belongs: Callable[[Any], bool]) -> None:
        """Give up the frames for whose keys a function returns True."""
        for key in [key for key in self._kind if belongs(key)]:
            self._drop(key)

    def _move(self, key: Hashable, kind: int) -> tuple[Any, int]:
        before = self._kind[key]
        held = self._kinds[before].pop(key)
        self._kinds[kind][key] = held
        self._nbytes[before] -= held[1]
        self._nbytes[kind] += held[1]
        self._kind[key] = kind
        return held

    def _next_to_drop(self) -> Any:
        for kind in (_USED, _UNUSED):
            if self._kinds[kind]:
                return next(iter(self._kinds[kind]))
        return next(reversed(self._kinds[_WANTED]))

    def _drop(self, key: Hashable) -> None:
        kind = self._kind.pop(key)
        _, nbytes = self._kinds[kind].pop(key)
        self._used.discard(key)
        self._nbytes[kind] -= nbytes
