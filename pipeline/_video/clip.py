"""One encoded video, in a file or in memory."""

from __future__ import annotations

import io
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from pipeline._video.contexts import Contexts
from pipeline._video.index import FrameIndex, count_frames, index_packets
from pipeline._video.missing import any_title, require_av
from pipeline._video.nvdec import Encoding, acceleration, cuda_current, refusal, require_nvdec
from pipeline._video.whole import whole
from pipeline.errors import DecodeError, DeviceError, PipelineError
from pipeline.tensors.cpu import Array

__all__ = ["Clip"]

_FROM_MEMORY = 1 << 20  # bytes that FFmpeg asks for at a time
# FFmpeg also takes texts and images for videos, and reads files and addresses that playlists name.
_CONTAINERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,mpegvideo,flv,live_flv,asf,ogg,mxf,nut,dv,rm,wtv,ivf,gif,"
    "h261,h263,h264,hevc,vvc,m4v,av1,obu,mjpeg,vc1,dirac,yuv4mpegpipe"
)
_told_reasons: set[str] = set()


class Clip:
    """An encoded video.

    Args:
        source: the path of its file, or its bytes.
        device_id: the GPU that its frames are wanted on; None for the CPU.

    Raises:
        DeviceError: what decodes videos is missing.
    """

    def __init__(self, source: str | Array, device_id: int | None = None) -> None:
        self._av = require_av() if device_id is None else require_nvdec()
        self._source = source
        self.device_id = device_id
        #: What PyAV raises for videos that can't be decoded.
        self.decoding_errors: tuple[type[Exception], ...] = (self._av.FFmpegError, NotImplementedError)
        self._lock = threading.Lock()  # guards the making of the index
        self._index: FrameIndex | None = None
        self._encoding: Encoding | None = None  # known with the index
        self._told: int | None = None  # frames, by its header
        self._stamped = False  # whether packets have their time stamps in the container; known with the index

    @property
    def name(self) -> str:
        """How messages call it."""
        return f"the file {self._source!r}" if isinstance(self._source, str) else f"{self._source.size} encoded bytes"

    @property
    def index(self) -> FrameIndex:
        """Its frames. The first that asks reads all of the video for it, and decodes nothing where that can be.

        Raises:
            DecodeError: it is no video.
            PipelineError: the file can't be read.
        """
        with self._lock:
            if self._index is None:
                with self.errors():
                    self._index = self._make_index()
            return self._index

    @property
    def count(self) -> int:
        """How many frames there are. The header of an MP4 tells; any other video is read for its index.

        Raises:
            DecodeError: it is no video.
            PipelineError: the file can't be read.
        """
        with self._lock:
            if self._index is None and self._told is None:
                with self.errors():
                    self._told = self._count_in_header()
        return len(self.index) if self._index is not None or not self._told else self._told

    @property
    def encoding(self) -> Encoding:
        """How it is encoded. Made with `index`, whose errors it may raise."""
        self.make_index()
        assert self._encoding is not None
        return self._encoding

    @property
    def decoded_by(self) -> int | None:
        """The GPU that decodes it; None for the CPU, which decodes what a GPU doesn't. Raises as `index` does."""
        if self.device_id is None:
            return None
        reason = refusal(self.device_id, self.encoding)
        if reason is not None:
            _warn_of(reason, self.name)
        return self.device_id if reason is None else None

    def make_index(self) -> FrameIndex:
        """Return `index`, which is made if nobody has asked for it before. Raises as that does."""
        return self.index

    def open(self, contexts: Contexts | None = None) -> tuple[Any, Any, Any]:
        """Return a container of PyAV, its video stream before the first packet, and what decodes that.

        The caller closes the container, and forgets the others or gives what decodes back to `contexts`.

        Args:
            contexts: decoders of other videos that are encoded alike.

        Raises:
            DeviceError: NVDEC can't be used.
        """
        context = contexts.take(self.encoding) if contexts is not None else None
        device_id = self.decoded_by
        if context is not None:
            container, stream = self._open(probe=not self._stamped)
            return container, stream, context
        if device_id is None:
            container, stream = self._open()
            return container, stream, stream.codec_context
        hardware = acceleration(device_id)
        apart = self.encoding.codec == "av1"  # for which PyAV takes a library that knows no hardware
        failures: tuple[type[Exception], ...] = (*self.decoding_errors, RuntimeError)
        with cuda_current(device_id):
            try:
                container, stream = self._open(**({} if apart else {"hwaccel": hardware}))
                if not apart:
                    return container, stream, stream.codec_context
                context = self._av.CodecContext.create("av1", "r", hwaccel=hardware)
            except failures as error:  # the video isn't to blame, the CPU has read it
                raise DeviceError(f"NVDEC of GPU {device_id} can't be used: {error}") from error
        context.extradata = stream.codec_context.extradata
        context.thread_count = 1
        return container, stream, context

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of PyAV, and ours, into ones that name the video."""
        try:
            yield
        except PipelineError as error:
            raise type(error)(f"{self.name} can't be decoded: {error}") from error
        except self.decoding_errors as error:
            reason = getattr(error, "strerror", None) or str(error)
            if isinstance(error, OSError) and isinstance(self._source, str) and not os.path.exists(self._source):
                raise PipelineError(f"can't read {self.name}: {reason}") from error
            raise DecodeError(f"{self.name} can't be decoded: {reason}") from error

    def _open(self, probe: bool = True, **options: Any) -> tuple[Any, Any]:
        """Return a container of PyAV, and its video stream.

        Args:
            probe: let FFmpeg decode a frame or more, to know what its decoder must be told. It takes 20 ms of 1080p.
            options: for PyAV.
        """
        options["options"] = {"format_whitelist": _CONTAINERS, "protocol_whitelist": "file"}
        if not probe:
            options["options"]["skip_frame"] = "all"
        source: Any = self._source
        if isinstance(source, str):
            if os.path.isdir(source):
                raise DecodeError("it is a folder")
            source = f"file:{source}"  # a name is a name, though it begins like an address: "a:b.mp4"
        elif not source.size:
            raise DecodeError("there is no data")
        else:
            source = io.BytesIO(np.ascontiguousarray(source).reshape(-1).view(np.uint8).data)
        try:
            container = self._av.open(source, buffer_size=_FROM_MEMORY, **any_title(self._av), **options)
        except self._av.ArgumentError as error:
            raise DecodeError("it isn't a video container, or is damaged") from error
        try:
            stream = container.streams.best("video")  # no cover image, where there is a video
            if stream is None:
                raise DecodeError("it has no video")
            if stream.codec_context is None:
                raise DecodeError("FFmpeg has no decoder for it")
            stream.codec_context.thread_count = 1  # videos are decoded side by side
            for other in container.streams:
                if other is not stream and hasattr(other, "discard"):  # PyAV has it from 17.1 on
                    other.discard = self._av.stream.Discard.all
        except BaseException:
            container.close()
            raise
        return container, stream

    def _count_in_header(self) -> int:
        """Return how many frames the header lists; 0 where that isn't for sure."""
        container, stream = self._open(probe=False)
        with container:
            entries = stream.index_entries
            if not container.format.name.startswith("mov") or len(entries) != stream.frames:
                return 0
            if any(entry.is_discard for entry in entries) or not (entries and entries[0].is_keyframe):
                return 0
            return len(entries)

    def _make_index(self) -> FrameIndex:
        container, stream = self._open()
        with container:
            decoder = stream.codec_context
            codec = decoder.codec.canonical_name
            details = decoder.extradata, decoder.codec_tag, decoder.profile, decoder.has_b_frames, stream.time_base
            self._encoding = Encoding(codec, decoder.format, decoder.width, decoder.height, details)
            self._stamped = container.format.name.startswith(("mov", "matroska"))
            may_lie = container.format.name == "avi" and bool(decoder.has_b_frames)
            index = index_packets(whole(container.demux(stream), stream), stream.time_base, may_lie)
            rate = stream.average_rate or Fraction(25)
        if index is None:
            container, stream = self._open()
            with container:
                return count_frames(sum(1 for _ in container.decode(stream)), rate)
        return index if index.keys[0] == 0 else self._without_orphans(index)

    def _without_orphans(self, index: FrameIndex) -> FrameIndex:
        """Leave out frames shown before the first key frame that lack what they are made from, as in a cut video."""
        first = index.times[index.keys[0]]
        shown = []
        container, stream = self._open()
        with container:
            for frame in container.decode(stream):
                if frame.pts is not None and frame.pts >= first:
                    break
                shown.append(frame.pts)
        kept = np.isin(index.times, shown) | (index.times >= first)
        return replace(index, times=index.times[kept], keys=index.keys - np.count_nonzero(~kept))


def _warn_of(reason: str, name: str) -> None:
    """Say why a GPU doesn't decode a video, unless that was said of another one."""
    if reason not in _told_reasons:
        _told_reasons.add(reason)
        warnings.warn(
            f"{name} and similar files are decoded on the CPU, and their frames are uploaded: {reason}",
            RuntimeWarning,
            stacklevel=2,
        )
