"""What ends with its owner though garbage collection may come on any thread, on one that the end waits for too."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

__all__ = ["THREAD_PREFIX", "Ending"]

THREAD_PREFIX = "dali-"  # begins the names of all threads of pipelines and hosts: ends wait for some of them


class Ending:
    """Ends something when its owner is collected or the interpreter ends, where the end may wait for other threads.

    That is the thread that collects the owner, unless it is one of this project's: then it's a new one.

    Args:
        owner: what must not be reachable from `end`.
        end: called once.

    Example:
        >>> class Owner: pass
        >>> owner = Owner()
        >>> ending = Ending(owner, lambda: print("ended"))
        >>> del owner
        ended
        >>> ending.now()
    """

    def __init__(self, owner: object, end: Callable[[], object]) -> None:
        self._finalizer = weakref.finalize(owner, _end_apart, end)
        self._end = end

    def now(self) -> None:
        """End it on this thread, if it hasn't ended."""
        if self._finalizer.detach() is not None:
            self._end()

    def never(self) -> None:
        """Leave the end to somebody else."""
        self._finalizer.detach()


def _end_apart(end: Callable[[], object]) -> None:
    if threading.current_thread().name.startswith(THREAD_PREFIX):
        threading.Thread(target=end, name="end-of-garbage", daemon=False).start()  # waited for at exit
    else:
        end()
