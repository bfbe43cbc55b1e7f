"""Refuses a second thread in code that only one thread at a time may run."""

from __future__ import annotations

import threading

from dali_proxy.errors import ProxyError

#: The thread that runs the code, under the key "thread". To end, run ``if owner: del owner["thread"]``: no signal
#: handler runs meanwhile, unlike at the end of a `with` block.
Owner = dict[str, int]


def claim(owner: Owner, what: str) -> None:
    """Let this thread begin, or raise an error, as a generator does, instead of letting it wait.

    It isn't a lock: if a handler raises before the code has begun, the same thread may begin again.

    Args:
        owner: the thread that runs the code.
        what: name of the object that threads would share, for the error.

    Raises:
        ProxyError: another thread runs the code.
    """
    me = threading.get_ident()
    if owner.setdefault("thread", me) != me:
        raise ProxyError(
            f"another thread is in next() of this {what}. Give each thread its own loop, or let the threads share a "
            "lock and call next() while they hold it"
        )
