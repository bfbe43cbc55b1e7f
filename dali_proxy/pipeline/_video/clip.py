"""One encoded video, in a file or in memory."""

from __future__ import annotations

import copy
import io
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np

from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._remote.data_file import Blocks, DataFile
from dali_proxy.pipeline._remote.urls import is_url, local_path
from dali_proxy.pipeline._video.contexts import Contexts
from dali_proxy.pipeline._video.hollow_file import HollowFile
from dali_proxy.pipeline._video.index import FrameIndex, count_frames, index_packets
from dali_proxy.pipeline._video.known import Known, KnownVideos
from dali_proxy.pipeline._video.missing import any_title, require_av
from dali_proxy.pipeline._video.nvdec import Encoding, acceleration, cuda_current, refusal, require_nvdec
from dali_proxy.pipeline._video.packet_table import PacketTable, row_of
from dali_proxy.pipeline._video.whole import whole
from dali_proxy.pipeline.errors import DecodeError, DeviceError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array

_FROM_MEMORY, _FROM_HEADER = 1 << 20, 1 << 15  # bytes that FFmpeg asks for at a time
# FFmpeg would also accept texts and images as videos, and read files and addresses that playlists name.
_CONTAINERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,mpegvideo,flv,live_flv,asf,ogg,mxf,nut,dv,rm,wtv,ivf,gif,"
    "h261,h263,h264,hevc,vvc,m4v,av1,obu,mjpeg,vc1,dirac,yuv4mpegpipe"
)
_warned_reasons: set[str] = set()
_known = KnownVideos()


@dataclass(frozen=True)
class FileVersion:
    """What identifies the content of a local file, as far as that is possible without reading it."""

    device: int
    inode: int
    size: int
    modified_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileVersion:
        """Return the version of a file with a status."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class Clip:
    """An encoded video.

    Args:
        source: path of the file, or the encoded bytes.
        device_id: GPU for the decoded frames; None for the CPU.
        version: version of the local file to read; None for any.
        ranges: whether to read only parts of MP4 videos, for frames at random: `table`.

    Raises:
        DeviceError: a library for decoding videos is missing.
    """

    def __init__(
        self,
        source: str | Array,
        device_id: int | None = None,
        version: FileVersion | None = None,
        ranges: bool = False,
    ) -> None:
        self._av = require_av() if device_id is None else require_nvdec()
        self._source = source if isinstance(source, str) else np.ascontiguousarray(source).reshape(-1).view(np.uint8)
        self._version = version
        self._ranges = ranges
        self._remote: DataFile | None = None  # the file behind a URL, when it has been opened
        self.device_id = device_id
        #: Exceptions that PyAV raises for videos that can't be decoded.
        self.decoding_errors: tuple[type[Exception], ...] = (self._av.FFmpegError, NotImplementedError)
        self._lock = new_lock(Level.VIDEO_CLIP, "video clip")  # guards the creation of the index
        self._index: FrameIndex | None = None
        self._encoding: Encoding | None = None  # known with the index
        self._header_count: int | None = None  # number of frames in the header; 0 if unreliable
        self._context: Any = None  # codec context for the packets of `table`, until a decoder takes it
        #: The packets of an MP4, to read exactly the bytes of a group; known with the index, if it is read by ranges.
        self.table: PacketTable | None = None
        self._stamped = False  # whether the container stores time stamps of packets; known with the index

    @property
    def name(self) -> str:
        """Name of the video in messages."""
        return f"the file {self._source!r}" if isinstance(self._source, str) else f"{self._source.size} encoded bytes"

    @property
    def indexed(self) -> bool:
        """Whether `index` has been created."""
        return self._index is not None

    @property
    def index(self) -> FrameIndex:
        """Index of the frames. The first access reads the whole video, without decoding it if possible.

        Raises:
            DecodeError: the data isn't a video.
            PipelineError: the file can't be read.
        """
        with self._lock:
            if self._index is None:
                with self.errors():
                    self._index = self._make_index() if isinstance(self._source, str) else self._recall()
            return self._index

    @property
    def count(self) -> int:
        """Number of frames: from the header of an MP4; other videos are read for the index.

        Raises:
            DecodeError: the data isn't a video.
            PipelineError: the file can't be read.
        """
        with self._lock:
            if self._index is None and self._header_count is None:
                with self.errors():
                    self._header_count = self._count_in_header()
        return len(self.index) if self._index is not None or not self._header_count else self._header_count

    @property
    def encoding(self) -> Encoding:
        """Encoding of the video. Created with `index`, and raises the same errors."""
        self.make_index()
        assert self._encoding is not None
        return self._encoding

    @property
    def decoded_by(self) -> int | None:
        """The GPU that decodes the video; None for the CPU, the fallback. Raises the same errors as `index`."""
        if self.device_id is None:
            return None
        reason = refusal(self.device_id, self.encoding)
        if reason is not None:
            _warn_of(reason, self.name)
        return self.device_id if reason is None else None

    def on_cores(self) -> Clip:
        """Return the same video for decoding on the CPU. It shares the index, and raises its errors."""
        self.make_index()
        same = copy.copy(self)
        same.device_id = same._context = None
        return same

    def make_index(self) -> FrameIndex:
        """Create `index` if necessary and return it. Raises the same errors."""
        return self.index

    def open(self, contexts: Contexts | None = None) -> tuple[Any, Any, Any]:
        """Return a PyAV container, its video stream before the first packet, and the codec context of the stream.

        The caller closes the container, and drops the others or returns the codec context to `contexts`.

        Args:
            contexts: codec contexts of other videos, to reuse one with the same encoding.

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
        separate = self.encoding.codec == "av1"  # PyAV's default library for it doesn't support hardware
        failures: tuple[type[Exception], ...] = (*self.decoding_errors, RuntimeError)
        with cuda_current(device_id):
            try:
                container, stream = self._open(**({} if separate else {"hwaccel": hardware}))
                if not separate:
                    return container, stream, stream.codec_context
                context = self._av.CodecContext.create("av1", "r", hwaccel=hardware)
            except failures as error:  # not an error of the video: the CPU has read it
                raise DeviceError(f"NVDEC of GPU {device_id} can't be used: {error}") from error
        context.extradata = stream.codec_context.extradata
        context.thread_count = 1
        return container, stream, context

    def context(self, contexts: Contexts | None = None) -> Any:
        """Return a codec context for the packets of `table`. The caller drops it, or returns it to `contexts`.

        Raises:
            DeviceError: NVDEC can't be used.
        """
        with self._lock:
            context, self._context = self._context, None
        if context is not None and self.decoded_by is None:
            return context
        context = contexts.take(self.encoding) if contexts is not None else None
        if context is None and self.decoded_by is None:
            with self._opened_hollow() as (_, _, stream):
                context = stream.codec_context
        elif context is None:
            container, _, context = self.open()
            container.close()
        return context

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Convert errors of PyAV, and our own, into errors that name the video."""
        try:
            yield
        except PipelineError as error:
            what = f"{self.name} can't be decoded" if isinstance(error, DecodeError) else self.name
            raise type(error)(f"{what}: {error}") from error
        except self.decoding_errors as error:
            reason = getattr(error, "strerror", None) or str(error)
            if isinstance(error, OSError) and isinstance(self._source, str) and not os.path.exists(self._source):
                raise PipelineError(f"can't read {self.name}: {reason}") from error
            raise DecodeError(f"{self.name} can't be decoded: {reason}") from error

    def _open(self, probe: bool = True, file: HollowFile | None = None, **options: Any) -> tuple[Any, Any]:
        """Return a PyAV container and its video stream.

        Args:
            file: stream to read in place of the video; its packets aren't parsed.
            probe: let FFmpeg decode one or more frames to find the decoder's parameters. It takes 20 ms at 1080p.
            options: options for PyAV.
        """
        options["options"] = {"format_whitelist": _CONTAINERS, "protocol_whitelist": "file"}
        if not probe:  # FFmpeg would read on until its decoder knows all parameters
            options["options"].update(skip_frame="all", analyzeduration="1")
        if file is not None:
            options["options"].update(fflags="noparse")
        with self._opened() if file is None else nullcontext(file) as source:
            try:
                size = _FROM_MEMORY if file is None else _FROM_HEADER
                container = self._av.open(source, buffer_size=size, **any_title(self._av), **options)
            except self._av.ArgumentError as error:
                raise DecodeError("it isn't a video container, or is damaged") from error
        try:
            stream = container.streams.best("video")  # prefers a video to a cover image
            if stream is None:
                raise DecodeError("it has no video")
            if stream.codec_context is None:
                raise DecodeError("FFmpeg has no decoder for it")
            stream.codec_context.thread_count = 1  # videos are decoded in parallel
            for other in container.streams:
                if other is not stream and hasattr(other, "discard"):  # since PyAV 17.1
                    other.discard = self._av.stream.Discard.all
        except BaseException:
            container.close()
            raise
        return container, stream

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """Yield what PyAV opens: the name of a file, or a stream."""
        source = self._source
        if not isinstance(source, str):
            if not source.size:
                raise DecodeError("the data is empty")
            yield io.BytesIO(source.data)
        elif is_url(source):
            yield self._remote_file(source).stream()
        else:
            source = local_path(source)
            if os.path.isdir(source):
                raise DecodeError("it is a folder")
            # FFmpeg would wait for the writer of a named pipe.
            if os.path.exists(source) and not os.path.isfile(source):
                raise DecodeError("it isn't a regular file")
            if self._version is None:
                yield f"file:{source}"  # so that a name like "a:b.mp4" isn't read as an address
                return
            with self._descriptor(source) as descriptor:
                yield f"file:/proc/self/fd/{descriptor}"  # another file may get its name at any time

    @contextmanager
    def _opened_hollow(self) -> Iterator[tuple[HollowFile, Any, Any]]:
        """Yield the file as a stream, with its PyAV container and video stream."""
        with self._reading() as (read, size):
            file = HollowFile(read, size)
            container, stream = self._open(file=file)
            with container:
                yield file, container, stream

    @contextmanager
    def _reading(self) -> Iterator[tuple[Callable[[int, int], bytes], int]]:
        """Yield a function that reads the requested version of the file, and its size."""
        if not isinstance(self._source, str):
            encoded = self._source
            yield lambda count, position: encoded[position : position + count].tobytes(), encoded.size
            return
        if is_url(self._source):
            remote = self._remote_file(self._source)
            yield remote.pread, remote.size
            return
        with self._descriptor(local_path(self._source)) as descriptor:
            yield partial(os.pread, descriptor), os.fstat(descriptor).st_size

    def _remote_file(self, url: str) -> DataFile:
        if self._remote is None:
            self._remote = DataFile(url, _remote_blocks())
        return self._remote

    @contextmanager
    def _descriptor(self, path: str) -> Iterator[int]:
        """Open the requested version of a local file."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise PipelineError(error.strerror or str(error)) from error
        try:
            self._check(os.fstat(descriptor))
            yield descriptor
        finally:
            os.close(descriptor)

    def read(self, count: int, offset: int) -> bytes:
        """Return bytes of the requested version of the file.

        Raises:
            DecodeError: the file ends before.
            PipelineError: it can't be read, or was changed.
        """
        with self._reading() as (read, _):
            content = read(count, offset)
        if len(content) < count:
            raise DecodeError("it is truncated")
        return content

    def check_version(self) -> None:
        """Check that a local file is still the version that was requested.

        Raises:
            PipelineError: it was changed or replaced.
        """
        if self._version is not None:
            assert isinstance(self._source, str)
            self._check(os.stat(local_path(self._source)))

    def _check(self, status: os.stat_result) -> None:
        if FileVersion.of(status) != self._version:
            raise PipelineError("the file was changed while frames of it were read")

    def _count_in_header(self) -> int:
        """Return the number of frames in the header, or 0 if it isn't reliable."""
        container, stream = self._open(probe=False)
        with container:
            entries = stream.index_entries
            if not container.format.name.startswith("mov") or len(entries) != stream.frames:
                return 0
            if any(entry.is_discard for entry in entries) or not (entries and entries[0].is_keyframe):
                return 0
            return len(entries)

    def _recall(self) -> FrameIndex:
        """Return the index of a video in memory, which may be known from before."""
        assert not isinstance(self._source, str)
        key = _known.key(self._source) + bytes([self._ranges])
        known = _known.find(key)
        if known is None:
            index = self._make_index()
            if self._encoding is not None:
                _known.add(key, Known(index, self._encoding, self.table, self._stamped))
            return index
        self._encoding, self.table, self._stamped = known.encoding, known.table, known.stamped
        return known.index

    def _make_index(self) -> FrameIndex:
        index = self._index_header() if self._ranges else None
        if index is not None:
            return index
        container, stream = self._open()
        with container:
            index = self._index_packets(container, stream)
            rate = stream.average_rate or Fraction(25)
        if index is None:
            container, stream = self._open()
            with container:
                return count_frames(sum(1 for _ in container.decode(stream)), rate)
        return index if index.keys[0] == 0 else self._without_orphans(index)

    def _index_header(self) -> FrameIndex | None:
        """Return the index of an MP4 without reading the data of its packets; None if its header doesn't suffice.

        FFmpeg's parsers, which need the data, may find key frames that the header doesn't list. If it lists all frames
        as key frames, it may lack the list, so only the parsers know them.
        """
        try:
            if self.read(8, 0)[4:] != b"ftyp":
                return None
            with self._opened_hollow() as (file, container, stream):
                entries = (entry for each in container.streams for entry in each.index_entries)
                file.leave_out((entry.pos, entry.size) for entry in entries)
                index = self._index_packets(container, stream)
        except PipelineError:  # reading the data raises it again, or succeeds
            return None
        except self.decoding_errors:
            return None
        return None if index is None or index.keys[0] != 0 or len(index.keys) == len(index) else index

    def _index_packets(self, container: Any, stream: Any) -> FrameIndex | None:
        """Return the index of an open video; None if its time stamps don't suffice. Sets `encoding` and `table`."""
        decoder = stream.codec_context
        codec = decoder.codec.canonical_name
        details = decoder.extradata, decoder.codec_tag, decoder.profile, decoder.has_b_frames, stream.time_base
        colors = int(decoder.colorspace), int(decoder.color_range)
        self._encoding = Encoding(codec, decoder.format, decoder.width, decoder.height, details, colors)
        self._stamped = container.format.name.startswith(("mov", "matroska"))
        may_lie = container.format.name == "avi" and bool(decoder.has_b_frames)
        rows: list[Any] = []
        packets = whole(container.demux(stream), stream)
        has_table = self._ranges and container.format.name.startswith("mov")
        index = index_packets(_noted(packets, rows) if has_table else packets, stream.time_base, may_lie)
        self.table = None
        if has_table and index is not None and index.keys[0] == 0:
            self.table = PacketTable.from_packets(rows, index, self.read)
        self._context = None if self.table is None else decoder
        return index

    def _without_orphans(self, index: FrameIndex) -> FrameIndex:
        """Drop frames before the first key frame whose reference frames are missing, as in a cut video."""
        first = index.times[index.keys[0]]
        shown = []
        container, stream = self._open()
        with container:
            for frame in container.decode(stream):
                if frame.pts is not None and frame.pts >= first:
                    break
                shown.append(frame.pts)
        decodable = np.isin(index.times, shown) | (index.times >= first)
        return replace(index, times=index.times[decodable], keys=index.keys - np.count_nonzero(~decodable))


def _noted(packets: Iterator[Any], rows: list[Any]) -> Iterator[Any]:
    """Yield packets unchanged, and append their rows of a `PacketTable`."""
    for packet in packets:
        if packet.size:
            rows.append(row_of(packet))
        yield packet


@cache
def _remote_blocks() -> Blocks:
    """Return the blocks of all remote videos of this process."""
    return Blocks()


def _warn_of(reason: str, name: str) -> None:
    """Warn that a GPU doesn't decode a video, once per reason."""
    if reason not in _warned_reasons:
        _warned_reasons.add(reason)
        warnings.warn(
            f"{name} and similar files are decoded on the CPU, and their frames are uploaded: {reason}",
            RuntimeWarning,
            stacklevel=2,
        )
