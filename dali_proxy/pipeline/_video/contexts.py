"""A cache of FFmpeg's codec contexts, for reuse with other videos."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._video.nvdec import Encoding


class Contexts:
    """Idle codec contexts, each for the next video with the same encoding. The most recently used ones are kept.

    A context is expensive to create: FFmpeg first decodes a frame of the video to find its parameters. On a GPU, a
    context holds a session of NVDEC, which takes as long to create as decoding a hundred frames.

    Args:
        limit: number of contexts to keep.
        end: called with each context that isn't kept.

    Example:
        >>> contexts = Contexts(4)  # doctest: +SKIP
        >>> container, stream, context = clip.open(contexts)  # doctest: +SKIP
        >>> contexts.give(clip.encoding, context)  # doctest: +SKIP
    """

    def __init__(self, limit: int, end: Callable[[Any], object] | None = None) -> None:
        self._limit, self._end = limit, end
        self._lock = new_lock(Level.LEAF, "video contexts")  # guards the fields below
        self._idle: list[tuple[tuple[object, ...], Any]] = []

    def take(self, encoding: Encoding) -> Any:
        """Return an `av.CodecContext` for a video before its first packet, or None."""
        with self._lock:
            for index, (key, context) in enumerate(self._idle):
                if key == encoding.key:
                    del self._idle[index]
                    return context
        return None

    def give(self, encoding: Encoding, context: Any) -> None:
        """Flush the codec context of a video and keep it."""
        context.flush_buffers()
        with self._lock:
            self._idle.append((encoding.key, context))
            surplus = self._idle[: max(0, len(self._idle) - self._limit)]
            del self._idle[: len(surplus)]
        self._drop(surplus)

    def close(self) -> None:
        """Drop all contexts."""
        with self._lock:
            self._idle, dropped = [], self._idle
        self._drop(dropped)

    def _drop(self, dropped: list[tuple[tuple[object, ...], Any]]) -> None:
        """Drop contexts, outside the lock: the driver may be slow."""
        while dropped:
            _, context = dropped.pop()
            if self._end is not None:
                self._end(context)
