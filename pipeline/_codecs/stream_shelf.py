"""Things on a GPU that work on one stream is done with, kept for later work on it."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from pipeline._kernels.errors import cuda_call, load_cupy

__all__ = ["StreamShelf"]


class StreamShelf:
    """Idle things, each of a stream, whose order keeps those who use them one after the other apart.

    What was last used on another stream comes with an event of that use, for which the stream of the next user waits.
    Any thread may call it.

    Args:
        device_id: the CUDA device; None where there are no streams.
    """

    def __init__(self, device_id: int | None) -> None:
        self._device_id = device_id
        self._idle: dict[int, list[tuple[Any, Any]]] = {}  # by the stream's address: things, and events or None
        self._closed = False
        self._lock = threading.Lock()

    def put(self, things: Iterable[Any], stream: Any, last: Any = None) -> None:
        """Keep things, after their last use was enqueued. Once the shelf is closed, they are let go.

        Args:
            things: what is idle.
            stream: to whose work they belong; None on the host.
            last: the stream of their last use, when that is another one.
        """
        event = None
        if last is not None and last.ptr != _key(stream):
            cupy = load_cupy()
            with cuda_call("cudaEventRecord"), cupy.cuda.Device(self._device_id):
                event = cupy.cuda.Event(disable_timing=True)
                event.record(last)
        with self._lock:
            if not self._closed:
                self._idle.setdefault(_key(stream), []).extend((thing, event) for thing in things)

    def take(self, count: int, stream: Any) -> list[Any]:
        """Return up to so many things, those that were put last, for work that is enqueued on a stream from now on."""
        with self._lock:
            idle = self._idle.get(_key(stream), [])
            taken = idle[-count:] if count else []
            del idle[len(idle) - len(taken) :]
        for event in {id(event): event for _, event in taken if event is not None}.values():
            with cuda_call("cudaStreamWaitEvent"):
                stream.wait_event(event)
        return [thing for thing, _ in taken]

    def close(self) -> None:
        """Let go of what is idle, and of what is put from now on. Idempotent."""
        with self._lock:
            self._closed = True
            self._idle.clear()


def _key(stream: Any) -> int:
    return 0 if stream is None else int(stream.ptr)
