"""Divides groups of pictures between NVDEC and the cores that wait for it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

_EACH = 2  # groups for each of the GPU's decoders: one that it decodes, one whose packets or pixels a core handles
_AGE = 64  # groups that NVDEC gets in place of slow cores, before the cores' speed is measured again

#: Codecs whose standards define each bit of a frame. For others, NVDEC and cores may differ.
_EXACT = {"h264", "hevc", "vp8", "vp9", "av1"}


@dataclass
class _Speed:
    """Seconds for each decoded pixel of a codec; None before they are measured."""

    nvdec: float | None = None
    core: float | None = None
    trying: bool = False
    age: int = 0


class NvdecQueue:
    """Decides whether NVDEC or a core decodes a group of pictures. Callers take turns: it isn't thread-safe.

    NVDEC decodes while its queue has room: two groups for each of the GPU's decoders. Then the calling thread decodes,
    if cores have been as fast as NVDEC with its queue. One group measures their speed.

    Example:
        >>> queue = NvdecQueue()
        >>> queue.enter("h264", engines=1), queue.enter("h264", engines=1)
        (True, True)
        >>> queue.leave("h264", by_nvdec=True, pixels=1000, seconds=2.0)
        >>> queue.enter("h264", engines=1), queue.enter("h264", engines=1)
        (True, False)
    """

    def __init__(self) -> None:
        self._running = 0
        self._speeds: defaultdict[str, _Speed] = defaultdict(_Speed)

    def enter(self, codec: str, engines: int) -> bool:
        """Return whether NVDEC decodes the next group, which ends with `leave`."""
        by_nvdec = not self.prefers_cores(codec, engines)
        if by_nvdec:
            self.enter_nvdec()
        return by_nvdec

    def enter_nvdec(self) -> None:
        """Record that NVDEC decodes the next group, which ends with `leave`."""
        self._running += 1

    def prefers_cores(self, codec: str, engines: int) -> bool:
        """Return whether a core would decode the next group sooner. If so, it must, and end with `leave`."""
        return self._running >= _EACH * engines and self._cores_are_fast(codec)

    def leave(self, codec: str, by_nvdec: bool, pixels: int, seconds: float) -> None:
        """Record how long a group took.

        Args:
            codec: FFmpeg's name of the codec.
            by_nvdec: what `enter` returned.
            pixels: decoded pixels; 0 if an error occurred.
            seconds: duration.
        """
        speed = self._speeds[codec]
        if by_nvdec:
            self._running -= 1
        else:
            speed.trying = False
        if not pixels:
            return
        known = speed.nvdec if by_nvdec else speed.core
        measured = seconds / pixels if known is None else 0.75 * known + 0.25 * seconds / pixels
        if by_nvdec:
            speed.nvdec = measured
        else:
            speed.core = measured

    def _cores_are_fast(self, codec: str) -> bool:
        speed = self._speeds[codec]
        if speed.nvdec is None or codec not in _EXACT:
            return False
        if speed.core is not None and speed.core > speed.nvdec:
            speed.age += 1
            if speed.age < _AGE:
                return False
            speed.age, speed.core = 0, None
        if speed.core is None and speed.trying:
            return False
        speed.trying = speed.core is None
        return True
