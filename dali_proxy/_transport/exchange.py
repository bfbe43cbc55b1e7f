"""How a server in the same process hands results over that can't be shared between processes only."""

from __future__ import annotations

import itertools
import threading
from typing import Any

from pipeline._ipc.errors import ProtocolError

__all__ = ["LocalExchange"]


class LocalExchange:
    """Hands objects over within one process: CUDA memory can't be opened by IPC where it was made."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._objects: dict[int, Any] = {}

    def put(self, thing: Any) -> int:
        """Keep an object; return the number to take it by."""
        with self._lock:
            number = next(self._numbers) & 0xFFFFFFFF
            self._objects[number] = thing
            return number

    def take(self, number: int) -> Any:
        """Return the object of a number, once.

        Raises:
            ProtocolError: there is none.
        """
        with self._lock:
            if number not in self._objects:
                raise ProtocolError(f"unknown local object {number}")
            return self._objects.pop(number)
