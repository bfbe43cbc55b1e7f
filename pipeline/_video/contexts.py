"""What FFmpeg decodes with, kept for further videos."""

from __future__ import annotations

import threading
from typing import Any

from pipeline._video.nvdec import Encoding

__all__ = ["Contexts"]


class Contexts:
    """Contexts of codecs that nobody uses, each for the next video that is encoded like the last one.

    To make one FFmpeg first decodes a frame of the video, to know what to tell it. On a GPU it holds a session of
    NVDEC, which takes as long to make as decoding a hundred frames.

    Args:
        limit: how many are kept; those unused for the longest time are let go first.

    Example:
        >>> contexts = Contexts(4)  # doctest: +SKIP
        >>> container, stream, context = clip.open(contexts)  # doctest: +SKIP
        >>> contexts.give(clip.encoding, context)  # doctest: +SKIP
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()  # guards what follows
        self._kept: list[tuple[tuple[object, ...], Any]] = []

    def take(self, encoding: Encoding) -> Any:
        """Return an `av.CodecContext` for a video before its first packet, None where there is none."""
        with self._lock:
            for place, (key, context) in enumerate(self._kept):
                if key == encoding.key:
                    del self._kept[place]
                    return context
        return None

    def give(self, encoding: Encoding, context: Any) -> None:
        """Keep what decoded a video, with nothing of it."""
        context.flush_buffers()
        with self._lock:
            self._kept.append((encoding.key, context))
            surplus = self._kept[: max(0, len(self._kept) - self._limit)]
            del self._kept[: len(surplus)]

    def close(self) -> None:
        """Let all go."""
        with self._lock:
            self._kept, kept = [], self._kept
        del kept  # outside the lock: the driver takes its time
