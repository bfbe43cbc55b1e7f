"""Arrays over memory that another object owns, and a callback when the last array is dropped."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Bytes


class Lease:
    """Lease on memory. Everything that uses the memory holds it; it ends when the last holder is dropped.

    Args:
        on_end: callback without arguments, called once: when the last reference to the lease is gone, or by `end`. It
            runs in the thread that drops the last reference, so it must be quick and must not acquire a lock that
            a holder may hold. It isn't called at interpreter exit.

    Example:
        >>> ended = []
        >>> lease = Lease(lambda: ended.append(True))
        >>> holders = [lease, lease]
        >>> del lease, holders[0]
        >>> ended
        []
        >>> del holders[0]
        >>> ended
        [True]
    """

    def __init__(self, on_end: Callable[[], object]) -> None:
        self._finalizer = weakref.finalize(self, on_end)
        self._finalizer.atexit = False

    def end(self) -> None:
        """End the lease now. Idempotent."""
        self._finalizer()


def lent_array(memory: Bytes, owner: object) -> Bytes:
    """Return a writable array over `memory`. The array and its views keep `owner` alive.

    Args:
        memory: bytes on the host.
        owner: object that releases the memory when it is finalized, such as a `Lease`. The last view may be dropped in
            any thread and, by garbage collection, within any allocation, so the release must not wait for a lock.

    Example:
        >>> ended = []
        >>> view = lent_array(np.zeros(4, np.uint8), Lease(lambda: ended.append(True)))[1:].view()
        >>> ended
        []
        >>> del view
        >>> ended
        [True]
    """
    view = _HostView()
    view.owner, view.source = owner, memory
    interface = memory.__array_interface__
    interface["data"] = (interface["data"][0], False)
    view.__array_interface__ = interface
    return np.asarray(view)


class _HostView:
    """Base of NumPy arrays over lent memory. NumPy would skip a base that is an array itself."""

    __slots__ = ("__array_interface__", "owner", "source")

    owner: object
    source: Bytes
    __array_interface__: dict[str, Any]
