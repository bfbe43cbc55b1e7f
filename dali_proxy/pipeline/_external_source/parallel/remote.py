"""Exceptions of worker processes in the process of the pipeline."""

from __future__ import annotations

import sys
from operator import attrgetter


class RemoteTraceback(Exception):
    """The traceback of a worker process; it is the `__cause__` of the error that this process raises."""

    def __init__(self, worker: str, text: str) -> None:
        super().__init__(worker, text)
        self.worker = worker
        self.text = text

    def __str__(self) -> str:
        return f"in {self.worker}\n\n{self.text}"


def find_type(name: str) -> type[BaseException]:
    """Return the exception type of a ``module:qualified name``; `Exception` if this process doesn't have it."""
    module, _, path = name.partition(":")
    try:
        found = attrgetter(path)(sys.modules[module])
    except (AttributeError, KeyError):
        return Exception
    return found if isinstance(found, type) and issubclass(found, BaseException) else Exception
