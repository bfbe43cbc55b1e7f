"""Decoding of audio files by libsndfile, and of FLAC by miniaudio."""

from __future__ import annotations

import io
import math
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._audio.flac import FlacFile
from dali_proxy.pipeline._audio.resampling import resample, to_range
from dali_proxy.pipeline._optional import optional_package
from dali_proxy.pipeline._size_limit import check_size
from dali_proxy.pipeline.errors import DecodeError

#: The number of samples that libsndfile reports if the header has none.
_UNKNOWN_LENGTH = 2**63 - 1
_ADDRESS = re.compile(r"Error opening <[^>]*>: ")  # the file in memory has no name


def load_decoder() -> Any:
    """Return the package that decodes audio.

    Raises:
        BuildError: it isn't installed.
    """
    return optional_package("soundfile", "decoding audio", "audio")


@dataclass(frozen=True)
class Decoding:
    """The requested form of decoded audio.

    Attributes:
        dtype: int16, int32 or float32; integers fill their range.
        downmix: whether to return the mean of the channels, 1-D.
        quality: quality of resampling, 0 to 100.
        antialias: whether resampling to a lower rate removes the frequencies that the new rate can't represent.
    """

    dtype: np.dtype[Any]
    downmix: bool = False
    quality: float = 50.0
    antialias: bool = True


@dataclass(frozen=True)
class Segment:
    """A part of a recording; as in DALI, only whole samples of the time count.

    Attributes:
        offset: beginning, in seconds; less than 0 for 0.
        duration: length in seconds; less than 0 for all up to the end.
    """

    offset: float = 0.0
    duration: float = -1.0

    def bounds(self, rate: float, frames: int) -> tuple[int, int]:
        """Return the first sample and the number of samples, in a file.

        Raises:
            DecodeError: the segment begins behind the end of the file.
        """
        first = max(0, int(self.offset * rate))
        if first > frames:
            raise DecodeError(f"the segment begins at {self.offset:g} s, but the audio ends at {frames / rate:g} s")
        count = frames if self.duration < 0 else int(self.duration * rate)
        return first, min(count, frames - first)


_WHOLE = Segment()


def decode(encoded: Array, wanted: Decoding, rate: float = 0.0, segment: Segment = _WHOLE) -> tuple[Array, float]:
    """Decode an audio file: WAV, FLAC, Ogg Vorbis, Ogg Opus, MP3 and others.

    Args:
        encoded: content of the file, 1-D uint8.
        wanted: dtype and channels of the result.
        rate: sample rate to resample to, in hertz; 0 or less for that of the file.
        segment: the part to decode.

    Returns:
        the samples, of shape (samples, channels) or (samples,), not rounded unless they have the requested dtype; and
        the sample rate of the file.

    Raises:
        DecodeError: the file is damaged or too large, or isn't an audio file, or the segment begins behind its end.
    """
    flac = FlacFile.open(encoded) if segment == _WHOLE else None
    if flac is not None:
        plan = _Plan.of(flac, wanted, rate, segment)
        if (signal := flac.read(plan.read.name)) is not None:
            return _finish(signal, plan, wanted)
    soundfile = load_decoder()
    try:
        with soundfile.SoundFile(io.BytesIO(encoded.data)) as file:
            plan = _Plan.of(file, wanted, rate, segment)
            if plan.first:
                file.seek(plan.first)
            signal = file.read(plan.frames, plan.read.name, always_2d=True)
    except soundfile.SoundFileError as error:
        reason = _ADDRESS.sub("", str(error))
        raise DecodeError(f"not a valid audio file (it begins with {bytes(encoded.data[:8])!r}): {reason}") from error
    if len(signal) != plan.frames:
        raise DecodeError(f"the audio file is truncated: it has {len(signal)} of {plan.frames} samples")
    return _finish(signal, plan, wanted)


class _Plan(NamedTuple):
    """The steps of decoding a file.

    Attributes:
        own: sample rate of the file.
        first: first sample to decode.
        frames: number of samples to decode, of each channel.
        read: dtype in which to decode the samples.
        mixes: whether to compute the mean of the channels.
        scale: factor of the sample rate.
        length: number of samples of a channel in the result.
    """

    own: float
    first: int
    frames: int
    read: np.dtype[Any]
    mixes: bool
    scale: float
    length: int

    @classmethod
    def of(cls, file: Any, wanted: Decoding, rate: float, segment: Segment) -> _Plan:
        """Return the plan for an open file.

        Raises:
            DecodeError: it is too large, of unknown length, or ends before the segment.
        """
        if file.frames == _UNKNOWN_LENGTH:
            raise DecodeError(
                "the file doesn't say how many samples it has, so missing ones wouldn't be noticed: write it again "
                "with a program that fills in the header, such as `ffmpeg -i OLD NEW` or `flac`"
            )
        own = float(file.samplerate)
        if own <= 0:
            raise DecodeError("the file's header is damaged: its sample rate is 0")
        first, frames = segment.bounds(own, file.frames)
        mixes, resamples = wanted.downmix and file.channels > 1, rate > 0 and rate != own
        # Values that depend on several samples are computed in float32, and rounded once.
        read = np.dtype(np.float32) if mixes or resamples else wanted.dtype
        scale = rate / own if resamples else 1.0
        length = math.ceil(frames * scale)
        check_size("the decoded audio", max(frames, length), file.channels, read.itemsize)
        return cls(own, first, frames, read, mixes, scale, length)


def _finish(signal: Array, plan: _Plan, wanted: Decoding) -> tuple[Array, float]:
    """Mix the channels, resample, and convert to the requested dtype."""
    if plan.mixes:
        signal = signal.mean(axis=1, dtype=np.float32, keepdims=True)
    if plan.scale != 1.0:
        signal = resample(signal, plan.scale, plan.length, wanted.quality, wanted.antialias)
    if plan.read != wanted.dtype:
        signal = to_range(signal, wanted.dtype)
    return (signal[:, 0] if wanted.downmix else signal), plan.own
