"""A free list of GPU resources per stream, for reuse in stream order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._cuda.errors import cuda_call, load_cupy


class StreamFreeList:
    """Idle resources, each of which belongs to a stream. The order of the stream separates consecutive uses.

    If the last use was on another stream, an event is recorded there, and the stream of the next use waits for it.
    Any thread may call the methods.
    """

    def __init__(self, device_id: int | None) -> None:
        self._device_id = device_id
        self._idle: dict[int, list[tuple[Any, Any]]] = {}  # by the stream's address: resources, and events or None
        self._closed = False
        self._lock = new_lock(Level.LEAF, "stream free list")

    def put(self, resources: Iterable[Any], stream: Any, last: Any = None) -> None:
        """Add idle resources of a stream (None on the host) after their last use, on it or another one, was enqueued.

        A closed list drops them.
        """
        event = None
        if last is not None and last.ptr != _key(stream):
            cupy = load_cupy()
            with cuda_call("cudaEventRecord"), cupy.cuda.Device(self._device_id):
                event = cupy.cuda.Event(disable_timing=True)
                event.record(last)
        with self._lock:
            if not self._closed:
                self._idle.setdefault(_key(stream), []).extend((resource, event) for resource in resources)

    def take(self, count: int, stream: Any) -> list[Any]:
        """Return up to `count` resources, the latest ones, for work that is enqueued on a stream after this call."""
        with self._lock:
            idle = self._idle.get(_key(stream), [])
            entries = idle[-count:] if count else []
            del idle[len(idle) - len(entries) :]
        for event in {id(event): event for _, event in entries if event is not None}.values():
            with cuda_call("cudaStreamWaitEvent"):
                stream.wait_event(event)
        return [resource for resource, _ in entries]

    def close(self) -> None:
        """Drop idle resources, and those that are put later. Idempotent."""
        with self._lock:
            self._closed = True
            self._idle.clear()


def _key(stream: Any) -> int:
    return 0 if stream is None else int(stream.ptr)
