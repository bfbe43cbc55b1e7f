"""CUDA streams, which a forked child must not destroy."""

from __future__ import annotations

import os
import weakref
from typing import Any

from pipeline.kernels.errors import load_cupy

__all__ = ["keep_in_children", "new_stream"]

_made: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_inherited: list[Any] = []


def new_stream(priority: int | None = None) -> Any:
    """Return a new `cupy.cuda.Stream` of the current device, which waits for no other one.

    Args:
        priority: smaller numbers come first; None for the usual one.
    """
    made = load_cupy().cuda.Stream(non_blocking=True, priority=priority)
    keep_in_children(made)
    return made


def keep_in_children(made: Any) -> None:
    """Have forked children keep something for ever: CUDA doesn't work there, and destroying it would be an error.

    Args:
        made: something that can have weak references. In this process it lives no longer for that.
    """
    _made[id(made)] = made


def _after_fork_in_child() -> None:
    _inherited.extend(_made.values())


os.register_at_fork(after_in_child=_after_fork_in_child)
