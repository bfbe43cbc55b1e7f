"""A child that is forked while a block holds something, and outlives the block."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager


@contextmanager
def child_forked_inside(block: AbstractContextManager[object]) -> Iterator[None]:
    """Fork a child inside `block`; it lives until the end of this block."""
    with block:
        child = os.fork()
        if not child:
            signal.pause()
            os._exit(1)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
