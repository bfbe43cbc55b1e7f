"""FLAC files, decoded by the package miniaudio, if it is installed: in half to three quarters of libsndfile's time."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Array

#: The first bytes of a file: its signature, and the type of the block STREAMINFO, which may be the last (RFC 9639).
_BEGINNINGS = (b"fLaC\x00", b"fLaC\x80")
#: Size of the beginning up to the sample rate, the number of channels, and the number of frames.
_HEAD = 26
_READERS = {"int16": "flac_read_s16", "int32": "flac_read_s32", "float32": "flac_read_f32"}


@cache
def _miniaudio() -> Any:
    """Return the package, or None if it isn't installed."""
    try:
        import miniaudio
    except (ImportError, OSError):  # OSError: a library that it loads is missing
        return None
    return miniaudio


class FlacFile:
    """A FLAC file in memory, whose samples have the values of libsndfile.

    Unlike libsndfile, miniaudio calls no Python function to read the file, so its threads don't wait for the GIL.

    Attributes:
        samplerate: samples per second.
        channels: number of channels.
        frames: number of samples of each channel.
    """

    def __init__(self, encoded: Array, samplerate: int, channels: int, frames: int) -> None:
        self._encoded = encoded
        self.samplerate, self.channels, self.frames = samplerate, channels, frames

    @classmethod
    def open(cls, encoded: Array) -> FlacFile | None:
        """Return the file with this content, 1-D uint8; None if libsndfile must read it, or report what is wrong."""
        head = encoded[:_HEAD].tobytes()
        if _miniaudio() is None or len(head) < _HEAD or head[:5] not in _BEGINNINGS:
            return None
        numbers = int.from_bytes(head[-8:], "big")  # 20 bits, 3, 5 for the bits of a sample, and 36
        frames = numbers & (1 << 36) - 1
        # Encoders that didn't know the number of frames write 0.
        return cls(encoded, numbers >> 44, (numbers >> 41 & 7) + 1, frames) if frames else None

    def read(self, dtype: str) -> Array | None:
        """Return the samples, (frames, channels) of int16, int32 or float32, whose integers fill their range.

        It returns None as `open` does.
        """
        miniaudio = _miniaudio()
        try:
            sound = getattr(miniaudio, _READERS[dtype])(self._encoded.tobytes())
        except (miniaudio.MiniaudioError, ValueError):
            return None
        if (sound.sample_rate, sound.nchannels) != (self.samplerate, self.channels):
            return None
        if len(sound.samples) != self.frames * self.channels:  # samples are missing
            return None
        return np.frombuffer(sound.samples, dtype).reshape(self.frames, self.channels)
