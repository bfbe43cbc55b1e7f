"""`cached_property`, without a lock in all versions of Python."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

__all__ = ["cached_property"]

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:
        """A property that is computed when it is first read, and kept in the object.

        That of Python 3.10 and 3.11 has one lock for all objects, which stays taken in a child that is forked while
        another thread computes. Without it, two threads may compute the value at once, as in later versions.

        Args:
            compute: method that returns the value.
        """

        def __init__(self, compute: Any) -> None:
            self.func = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.attrname = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value
