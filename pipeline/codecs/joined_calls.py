"""Calls that are made one at a time: those that wait for their turn are made as one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["JoinedCalls"]

Call = TypeVar("Call")


@dataclass(eq=False)
class _Waiting(Generic[Call]):
    call: Call
    made: bool = False
    error: BaseException | None = None


class JoinedCalls(Generic[Call]):
    """Makes calls for threads that want them at the same time.

    Whoever gets the turn makes its own call and those of all who wait as well, so that what one call costs, whatever
    is in it, is shared by more the longer they wait.

    Args:
        turn: held while calls are made; several objects may share one.
        make: makes some calls as one. If that fails, and there are several, each is made by itself.
        fit: tells whether calls can be made as one.

    Example:
        >>> calls = JoinedCalls(threading.Lock(), make=print, fit=lambda calls: len(calls) < 3)
        >>> calls("a")
        ['a']
    """

    def __init__(
        self, turn: threading.Lock, make: Callable[[list[Call]], object], fit: Callable[[Sequence[Call]], bool]
    ) -> None:
        self._turn = turn
        self._make = make
        self._fit = fit
        self._waiting: deque[_Waiting[Call]] = deque()  # who has the turn takes from it

    def __call__(self, call: Call) -> None:
        """Make a call, and return when it was made.

        Raises:
            BaseException: what `make` raises for it.
        """
        mine = _Waiting(call)
        self._waiting.append(mine)
        with self._turn:
            while not mine.made:
                self._make_all(self._next())
        if mine.error is not None:
            raise mine.error

    def _next(self) -> list[_Waiting[Call]]:
        chosen = [self._waiting.popleft()]
        while self._waiting and self._fit([one.call for one in chosen] + [self._waiting[0].call]):
            chosen.append(self._waiting.popleft())
        return chosen

    def _make_all(self, chosen: list[_Waiting[Call]]) -> None:
        try:
            self._make([one.call for one in chosen])
        except BaseException as error:  # noqa: BLE001 - it is raised by whoever wanted the call
            if len(chosen) > 1:
                for one in chosen:
                    self._make_all([one])
                return
            chosen[0].error = error
        for one in chosen:
            one.made = True
