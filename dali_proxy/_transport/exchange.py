"""In-process transfer of GPU results: CUDA can't open an IPC handle in the process that exported it."""

from __future__ import annotations

import itertools
from typing import Any

from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._ipc.errors import ProtocolError
from dali_proxy.pipeline._operator_api.request import DeviceMemory


class LocalExchange:
    """Passes objects between threads of one process, by number.

    Args:
        memory: where the server allocates memory of the GPU: its results then are memory of the consumer's allocator.
    """

    def __init__(self, memory: DeviceMemory | None = None) -> None:
        self.memory = memory
        self._lock = new_lock(Level.LEAF, "local exchange")
        self._numbers = itertools.count()
        self._objects: dict[int, Any] = {}

    def put(self, value: Any) -> int:
        """Store an object; return its number for `take`."""
        with self._lock:
            number = next(self._numbers) & 0xFFFFFFFF
            self._objects[number] = value
            return number

    def take(self, number: int) -> Any:
        """Remove and return the object with a number.

        Raises:
            ProtocolError: there is none.
        """
        with self._lock:
            if number not in self._objects:
                raise ProtocolError(f"unknown local object {number}")
            return self._objects.pop(number)
