"""What was learned about videos in memory, for the next time that they are decoded."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass

import xxhash

from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._video.index import FrameIndex
from dali_proxy.pipeline._video.nvdec import Encoding
from dali_proxy.pipeline._video.packet_table import PacketTable
from dali_proxy.pipeline.tensors.cpu import Array

_FRAMES = 1 << 18  # of all known videos: 16 MB


@dataclass(frozen=True)
class Known:
    """What reading a whole video has shown.

    Attributes:
        index: its frames.
        encoding: its encoding.
        table: its packets, if it is read by ranges.
        stamped: whether the container stores time stamps of packets.
    """

    index: FrameIndex
    encoding: Encoding
    table: PacketTable | None
    stamped: bool


class KnownVideos:
    """Videos by their bytes. The least recently used ones are forgotten.

    A dataset returns the bytes of a file anew in each epoch, and for each clip of the file. To index them takes a fifth
    of the time of decoding a clip of 16 frames, to recognize them a fiftieth.
    """

    def __init__(self, limit: int = _FRAMES) -> None:
        self._limit = limit
        self._seed = secrets.randbits(64)  # nobody can make two videos with the same key
        self._lock = new_lock(Level.LEAF, "known videos")  # guards the fields below
        self._videos: OrderedDict[bytes, Known] = OrderedDict()
        self._frames = 0

    def key(self, encoded: Array) -> bytes:
        """Return the key of a video."""
        return xxhash.xxh3_128_digest(encoded.data, seed=self._seed)

    def find(self, key: bytes) -> Known | None:
        """Return what is known about a video, or None."""
        with self._lock:
            known = self._videos.get(key)
            if known is not None:
                self._videos.move_to_end(key)
            return known

    def add(self, key: bytes, known: Known) -> None:
        """Keep what is known about a video."""
        with self._lock:
            if key in self._videos:
                return
            self._videos[key] = known
            self._frames += len(known.index)
            while self._frames > self._limit:
                _, forgotten = self._videos.popitem(last=False)
                self._frames -= len(forgotten.index)
