"""What ends with its owner though garbage collection may come on any thread, on one that the end waits for too."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

__all__ = ["THREAD_PREFIX", "finalize"]

THREAD_PREFIX = "dali-"  # begins the names of all threads of pipelines and hosts: ends wait for some of them


def finalize(owner: object, end: Callable[[], object]) -> weakref.finalize[..., Any]:
    """Have `end` called when `owner` is collected or the interpreter ends, where it may wait for other threads.

    That is the thread that collects `owner`, unless it is one of this project's: then it's a new one.

    Args:
        owner: what must not be reachable from `end`.
        end: called once.

    Returns:
        What calls `end` at once, or forgets it.

    Example:
        >>> class Owner: pass
        >>> owner = Owner()
        >>> _ = finalize(owner, lambda: print("ended"))
        >>> del owner
        ended
    """
    return weakref.finalize(owner, _call, end)


def _call(end: Callable[[], object]) -> None:
    if threading.current_thread().name.startswith(THREAD_PREFIX):
        threading.Thread(target=end, name="end-of-garbage").start()
    else:
        end()
