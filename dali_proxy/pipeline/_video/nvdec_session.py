"""A session of NVDEC whose decoded frames wait on its surfaces, so that many are converted at once."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from dali_proxy.pipeline._video import cuvid
from dali_proxy.pipeline._video.nvdec import Encoding, cuda_current

_MEMORY = 64 << 20  # bytes of surfaces of a session, unless the codec needs more
_SURFACES = 32  # the most that NVDEC has, of all codecs
_LEAST = 4  # frames that may wait at least
_DELAY = 2  # frames that the parser holds back, so that NVDEC has work
_UNSPECIFIED, _FULL = 2, 2  # FFmpeg's numbers of a color space and of a range


class NvdecError(Exception):
    """NVDEC can't decode a video in this way. FFmpeg may decode it, or tells what is wrong with it."""


class DamageError(NvdecError):
    """The data of a video seems to be damaged. A core can tell: FFmpeg on NVDEC would return the damaged frame."""


@dataclass(frozen=True)
class MappedFrame:
    """A decoded frame in GPU memory, until `NvdecSession.unmap`: luma, then chroma pairs for 2 by 2 pixels.

    Attributes:
        time: its time stamp.
        address: of the luma; the chroma follows after `height` rows.
        pitch: bytes from a row to the next.
    """

    time: int
    address: int
    pitch: int


class NvdecSession:
    """Decodes groups of pictures of one encoding. Only one thread at a time may use it, with the GPU current.

    The wanted frames wait on NVDEC's surfaces until `map` copies all of them. To map a frame is work for the GPU, in
    contrast to decoding it.

    Args:
        device_id: the GPU.
        encoding: encoding of the videos. Their sizes, bits and colors must be as the container says.

    Raises:
        NvdecError: the driver refuses.

    Example:
        >>> session.begin(header, wanted={0, 512})  # doctest: +SKIP
        >>> session.feed(packet, time=0)  # doctest: +SKIP
        >>> session.end()  # doctest: +SKIP
        >>> frames = session.map(stream)  # doctest: +SKIP
        >>> session.unmap()  # doctest: +SKIP
    """

    def __init__(self, device_id: int, encoding: Encoding) -> None:
        self._driver = cuvid.load_cuvid()
        self._device_id, self._encoding, self._pid = device_id, encoding, os.getpid()
        self._parser, self._decoder = ctypes.c_void_p(), ctypes.c_void_p()
        self._format: tuple[int, ...] | None = None  # of the decoder
        self._surfaces = self._room = 0
        self._waiting: list[tuple[int, int]] = []  # surface and time of wanted frames
        self._passed: set[int] = set()  # surfaces of other frames, to which wanted ones may refer
        self._mapped: list[int] = []  # addresses
        self._header = b""
        self._wanted: Collection[int] = ()
        self._error: str | None = None
        #: FFmpeg's numbers of the color space and the range.
        self.colors = encoding.colors
        #: Time stamps of the frames that were shown since `begin`.
        self.shown: list[int] = []
        # The parser keeps pointers to these.
        self._callbacks = [
            cuvid.Callback(self._guarded(function))
            for function in (self._on_sequence, self._on_decode, self._on_display)
        ]
        info = cuvid.ParserInfo(
            codec=cuvid.CODECS[encoding.codec],
            surfaces=1,  # `_on_sequence` returns how many
            display_delay=_DELAY,
            on_sequence=self._callbacks[0],
            on_decode=self._callbacks[1],
            on_display=self._callbacks[2],
        )
        self._check("cuvidCreateVideoParser", ctypes.byref(self._parser), ctypes.byref(info))

    def begin(self, header: bytes, wanted: Collection[int]) -> None:
        """Begin with a group of pictures.

        Args:
            header: parameter sets, which precede the first packet.
            wanted: time stamps of the frames to keep.
        """
        self._header, self._wanted, self.shown = header, wanted, []
        self._passed.clear()

    def feed(self, packet: bytes, time: int) -> None:
        """Decode a packet: a part of the stream with exactly one picture.

        Raises:
            NvdecError: NVDEC can't decode it.
        """
        data, self._header = self._header + packet, b""
        self._parse(data, cuvid.HAS_TIME | cuvid.END_OF_PICTURE, time)

    def end(self) -> None:
        """Decode what the parser holds back. Raises the same error."""
        self._parse(b"", cuvid.END_OF_STREAM, 0)

    @property
    def is_full(self) -> bool:
        """Whether `map` must be called before the next packet."""
        return self._decoder.value is not None and len(self._waiting) >= self._room

    def map(self, stream: Any) -> list[MappedFrame]:
        """Wait until the wanted frames are decoded, and copy them from their surfaces, on a `cupy.cuda.Stream`.

        Raises:
            NvdecError: one of them can't be decoded.
        """
        made = []
        for surface, time in self._waiting:
            address, pitch = ctypes.c_ulonglong(), ctypes.c_uint()
            mapping = cuvid.Mapping(progressive=1, stream=stream.ptr)
            pointers = ctypes.byref(address), ctypes.byref(pitch), ctypes.byref(mapping)
            self._check("cuvidMapVideoFrame64", self._decoder, surface, *pointers)
            self._mapped.append(address.value)
            made.append(MappedFrame(time, address.value, pitch.value))
        for surface in {surface for surface, _ in self._waiting} | self._passed:
            status = cuvid.Status()
            failed = self._driver.cuvidGetDecodeStatus(self._decoder, surface, ctypes.byref(status))
            if not failed and status.status in cuvid.DECODE_ERRORS:  # not all codecs report it
                raise DamageError("the data of a picture is damaged")
        self._passed.clear()
        return made

    def unmap(self) -> None:
        """Free the surfaces of mapped frames. The work that reads the frames must have ended."""
        while self._mapped:
            self._driver.cuvidUnmapVideoFrame64(self._decoder, ctypes.c_ulonglong(self._mapped.pop()))
        self._waiting = []

    def flush_buffers(self) -> None:
        """Forget the frames that wait, before the session decodes another video."""
        self.unmap()

    def close(self) -> None:
        """End the session."""
        if self._parser and self._pid == os.getpid():
            with cuda_current(self._device_id):
                self.unmap()
                self._driver.cuvidDestroyVideoParser(self._parser)
                if self._decoder:
                    self._driver.cuvidDestroyDecoder(self._decoder)
        self._parser, self._decoder = ctypes.c_void_p(), ctypes.c_void_p()
        self._callbacks = []  # which refer to the session

    # Called by the parser -------------------------------------------------------------------------------------------

    def _on_sequence(self, pointer: int) -> int:
        found = cuvid.Format.from_address(pointer)
        size = found.right - found.left, found.bottom - found.top
        if size != (self._encoding.width, self._encoding.height) or found.left % 2 or found.top % 2:
            raise NvdecError(f"it has {size[0]}x{size[1]} pixels, not those of the container")
        bits = {found.bits_above_8 + 8, found.chroma_bits_above_8 + 8}
        if found.chroma != cuvid.CHROMA_420 or bits != {self._encoding.bits}:
            raise NvdecError("its pixels have another format than in the container")
        area = found.left, found.top, found.right, found.bottom
        form = found.coded_width, found.coded_height, *area, found.least_surfaces
        self.colors = self._colors(found)
        if self._format is None:
            self._create(found, area)
            self._format = form
        elif form != self._format:
            raise NvdecError("its size changes")
        return self._surfaces

    def _on_decode(self, pointer: int) -> int:
        surface = ctypes.c_int.from_address(pointer + cuvid.PICTURE_INDEX).value
        if any(surface == each for each, _ in self._waiting):
            raise NvdecError("a surface is used again while its frame waits")
        self._check("cuvidDecodePicture", self._decoder, ctypes.c_void_p(pointer))
        return 1

    def _on_display(self, pointer: int | None) -> int:
        if pointer:
            frame = cuvid.Shown.from_address(pointer)
            self.shown.append(frame.time)
            if frame.time in self._wanted:
                self._waiting.append((frame.surface, frame.time))
            else:
                self._passed.add(frame.surface)
        return 1

    def _guarded(self, function: Callable[[Any], int]) -> Callable[[Any, Any], int]:
        """Return a callback that keeps an exception for `_parse`, which the parser can't pass on."""

        def call(_: Any, pointer: Any) -> int:
            if self._error is not None:
                return 0
            try:
                return function(pointer)
            except NvdecError as error:
                self._error = str(error)
                return 0

        return call

    def _create(self, found: cuvid.Format, area: tuple[int, ...]) -> None:
        deep = self._encoding.bits > 8
        frame = found.coded_width * found.coded_height * 3 // 2 * (1 + deep)
        reserved = found.least_surfaces + _DELAY
        self._surfaces = min(_SURFACES, max(reserved + _LEAST, _MEMORY // frame))
        self._room = self._surfaces - reserved
        info = cuvid.DecoderInfo(
            width=found.coded_width,
            height=found.coded_height,
            max_width=found.coded_width,
            max_height=found.coded_height,
            surfaces=self._surfaces,
            codec=found.codec,
            chroma=found.chroma,
            flags=4,  # cudaVideoCreate_PreferCUVID: NVDEC
            bits_above_8=found.bits_above_8,
            area=area,
            output_format=cuvid.P016 if deep else cuvid.NV12,
            target_width=self._encoding.width,
            target_height=self._encoding.height,
            output_surfaces=self._surfaces,
        )
        self._check("cuvidCreateDecoder", ctypes.byref(self._decoder), ctypes.byref(info))

    def _colors(self, found: cuvid.Format) -> tuple[int, int]:
        """Return what FFmpeg uses: the stream's colors, or else those of the container.

        Raises:
            NvdecError: they contradict each other.
        """
        space, color_range = self._encoding.colors
        full = bool(found.signal & 8)
        if color_range and (color_range == _FULL) != full:
            raise NvdecError("the ranges of its stream and its container differ")
        if found.matrix != _UNSPECIFIED and space not in (_UNSPECIFIED, found.matrix):
            raise NvdecError("the color spaces of its stream and its container differ")
        return space if found.matrix == _UNSPECIFIED else found.matrix, _FULL if full else color_range

    def _parse(self, data: bytes, flags: int, time: int) -> None:
        pointer = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p)
        packet = cuvid.Packet(flags=flags, size=len(data), data=pointer, time=time)
        status = self._driver.cuvidParseVideoData(self._parser, ctypes.byref(packet))
        error, self._error = self._error, None
        if error is not None or status:
            raise NvdecError(error or f"cuvidParseVideoData failed with error {status}")

    def _check(self, name: str, *arguments: Any) -> None:
        status = getattr(self._driver, name)(*arguments)
        if status:
            raise NvdecError(f"{name} failed with error {status}")
