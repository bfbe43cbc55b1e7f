"""What the threads of a process have asked a server, and small things that go with it."""

from __future__ import annotations

import copy
from collections import deque
from typing import Any, TypeVar

__all__ = ["Question", "drained", "fresh"]

T = TypeVar("T")


class Question:
    """What was asked of the server, for all threads that want to know it."""

    __slots__ = ("answer", "coming", "sent")

    def __init__(self) -> None:
        self.answer: Any = None  # set once
        self.coming = False  # the server has answered, and this process goes on with it
        self.sent = False  # it may be sent twice: the server refuses the second one


def fresh(error: Exception) -> Exception:
    """Copy an error that is kept: raising it would tie the frames of whoever gets it to whatever keeps it."""
    copied = copy.copy(error)
    copied.__cause__ = error.__cause__
    return copied


def drained(items: deque[T]) -> list[T]:
    """Take all items out of a deque that other threads, and finalizers, fill and drain at the same time."""
    taken = []
    while items:
        try:
            taken.append(items.popleft())
        except IndexError:
            break  # another thread was faster
    return taken
