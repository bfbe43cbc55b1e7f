"""A stand-in for the driver's libnvcuvid: FFmpeg decodes on the CPU, and mapped frames are in the CPU's memory."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._video import cuvid

av = pytest.importorskip("av")

_NAMES = {number: name for name, number in cuvid.CODECS.items()}
_PADDING = 64  # bytes at the end of each row


class FakeCuvid:
    """The functions that `NvdecSession` calls.

    Attributes:
        codecs: numbers of the codecs that "NVDEC" supports.
        created: number of decoders.
        largest: the most frames that were mapped at once.
        mapped: frames that are mapped, by address.
        damaged: time stamps whose pictures have errors.
        hidden: time stamps of frames that aren't shown.
        greedy: whether the parser uses the same surface for each picture.
    """

    def __init__(self, codecs: tuple[int, ...] = (4, 8)) -> None:
        self.codecs = codecs
        self.created = self.largest = 0
        self.mapped: dict[int, Any] = {}
        self.damaged: set[int] = set()
        self.hidden: set[int] = set()
        self.greedy = False
        self._parsers: dict[int, _Parser] = {}
        self._frames: dict[int, dict[int, Any]] = {}  # frames of each decoder, by surface

    def cuvidGetDecoderCaps(self, pointer: Any) -> int:
        asked = pointer._obj
        asked.supported = asked.codec in self.codecs
        asked.min_width, asked.min_height, asked.max_width, asked.max_height = 16, 16, 4096, 2304
        asked.max_blocks = 4096 * 2304 // 256
        return 0

    def cuvidCreateVideoParser(self, handle: Any, info: Any) -> int:
        handle._obj.value = len(self._parsers) + 1
        self._parsers[handle._obj.value] = _Parser(self, info._obj)
        return 0

    def cuvidDestroyVideoParser(self, parser: Any) -> int:
        return 0

    def cuvidParseVideoData(self, parser: Any, packet: Any) -> int:
        given = packet._obj
        data = ctypes.string_at(given.data, given.size) if given.size else b""
        return self._parsers[parser.value].parse(data, given.time)

    def cuvidCreateDecoder(self, handle: Any, info: Any) -> int:
        self.created += 1
        handle._obj.value = self.created
        self._frames[self.created] = {}
        return 0

    def cuvidDestroyDecoder(self, decoder: Any) -> int:
        del self._frames[decoder.value]
        return 0

    def cuvidDecodePicture(self, decoder: Any, picture: Any) -> int:
        surface = ctypes.c_int.from_address(picture.value + cuvid.PICTURE_INDEX).value
        self._frames[decoder.value][surface] = self.picture
        return 0

    def cuvidMapVideoFrame64(self, decoder: Any, surface: int, address: Any, pitch: Any, mapping: Any) -> int:
        frame = self._frames[decoder.value][surface].frame
        deep = frame.format.components[0].bits > 8
        shown = frame.reformat(format="p010le" if deep else "nv12")
        rows = [np.frombuffer(plane, np.uint8).reshape(plane.height, -1) for plane in shown.planes]
        width = frame.width * (1 + deep)
        memory = np.concatenate([np.pad(each[:, :width], ((0, 0), (0, _PADDING))) for each in rows])
        address._obj.value, pitch._obj.value = memory.ctypes.data, width + _PADDING
        self.mapped[memory.ctypes.data] = memory
        self.largest = max(self.largest, len(self.mapped))
        return 0

    def cuvidUnmapVideoFrame64(self, decoder: Any, address: Any) -> int:
        self.mapped.pop(address.value)[:] = 77  # what reads it later gets wrong pixels
        return 0

    def cuvidGetDecodeStatus(self, decoder: Any, surface: int, status: Any) -> int:
        frame = self._frames[decoder.value][surface].frame
        status._obj.status = 1 if frame is None else 8 if frame.pts in self.damaged else 2
        return 0


class _Picture:
    """A picture, and its frame as soon as FFmpeg returns it."""

    frame: Any = None


class _Parser:
    def __init__(self, driver: FakeCuvid, info: Any) -> None:
        self._driver, self._info = driver, info
        self._context: Any = None
        self._surfaces = self._next = 0
        self._pictures: dict[int, tuple[int, _Picture]] = {}  # by time

    def parse(self, data: bytes, time: int) -> int:
        if self._context is None:
            self._context = av.CodecContext.create(_NAMES[self._info.codec], "r")
            self._context.thread_count = 1
            self._surfaces = 0
        packet = None
        if data:
            packet = av.Packet(data)
            packet.pts = packet.dts = time
        frames = self._context.decode(packet)
        if not self._surfaces:
            self._surfaces = self._info.on_sequence(None, ctypes.addressof(self._format()))
            if not self._surfaces:
                return 1
        if packet is not None:
            surface = 0 if self._driver.greedy else self._next % self._surfaces
            self._next += 1
            self._driver.picture = picture = _Picture()
            fields = (ctypes.c_int * 3)(0, 0, surface)
            self._pictures[time] = surface, picture
            if not self._info.on_decode(None, ctypes.addressof(fields)):
                return 1
        for frame in frames:
            surface, picture = self._pictures.pop(frame.pts)
            picture.frame = frame
            if frame.pts not in self._driver.hidden:
                shown = cuvid.Shown(surface=surface, progressive=1, time=frame.pts)
                if not self._info.on_display(None, ctypes.addressof(shown)):
                    return 1
        if packet is None:
            self._context = None
            self._pictures.clear()
        return 0

    def _format(self) -> Any:
        context = self._context
        self._kept = cuvid.Format(
            codec=self._info.codec, least_surfaces=5, chroma=1, matrix=2,
            coded_width=-(-context.width // 16) * 16, coded_height=-(-context.height // 16) * 16,
            right=context.width, bottom=context.height,
            bits_above_8=context.format.components[0].bits - 8,
            chroma_bits_above_8=context.format.components[0].bits - 8,
        )  # fmt: skip
        return self._kept
