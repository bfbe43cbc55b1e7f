"""How often Python's threads take turns while executors use a GPU."""

from __future__ import annotations

import sys

from dali_proxy.pipeline._concurrency.locks import Level, new_lock

#: Seconds after which a thread passes the GIL on to a waiting one, if a GPU is used. Python's default, 5 ms, is longer
#: than a batch takes: the threads that issue work for a GPU, and the training, would wait for each other.
SWITCH_INTERVAL = 0.0005

_lock = new_lock(Level.LEAF, "switch interval")
_users = 0
_before = 0.0


def begin_short_turns() -> None:
    """Shorten the interpreter's switch interval, until `end_short_turns` was called as often as this function."""
    global _users, _before
    with _lock:
        if not _users:
            _before = _interval()
            if _before > SWITCH_INTERVAL:
                sys.setswitchinterval(SWITCH_INTERVAL)
        _users += 1


def end_short_turns() -> None:
    """Restore the interval after the last call, unless the user has changed it in the meantime."""
    global _users
    with _lock:
        _users -= 1
        if not _users and _interval() == SWITCH_INTERVAL:
            sys.setswitchinterval(_before)


def _interval() -> float:
    return round(sys.getswitchinterval(), 6)  # the interpreter rounds microseconds down
