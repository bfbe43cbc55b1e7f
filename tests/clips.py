"""Small videos of every kind, whose frames show their frame numbers."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.ffmpeg import usual_scheduling

Pixels = npt.NDArray[np.uint8]


def _has_nvdec() -> bool:
    try:
        ctypes.CDLL("libnvcuvid.so.1")
    except OSError:
        return False
    return True


#: Containers without NVIDIA_DRIVER_CAPABILITIES=video have a GPU whose video engine can't be reached.
needs_nvdec = pytest.mark.skipif(not _has_nvdec(), reason="needs the driver's libnvcuvid")

COUNT = 40
SIZE = (48, 64)
#: Display time of each frame of a clip with a variable frame rate, in milliseconds.
VARYING = [int(time) for time in np.cumsum([20 + number * 37 % 50 for number in range(COUNT)])]


def remux(source: Path, target: Path, *, first: int = 0, title: str = "", turned: float = 0) -> None:
    """Copy the packets of a video, starting at `first`, and set a title or the rotation of the frames."""
    import av

    with av.open(str(source)) as whole, av.open(str(target), "w") as copy:
        if title:
            copy.metadata["title"] = title
        stream = copy.add_stream_from_template(whole.streams.video[0])
        if turned:
            stream.set_display_rotation(turned)
        for number, packet in enumerate(whole.demux(video=0)):
            if number >= first and packet.size:
                packet.stream = stream
                copy.mux(packet)


@dataclass(frozen=True)
class Kind:
    """Encoding of a clip. `extra` are options of x264 and x265; the file ends before the bytes `before`."""

    codec: str
    extra: str = ""
    options: dict[str, str] = field(default_factory=dict)
    muxer: dict[str, str] = field(default_factory=dict)
    pixels: str = "yuv420p"
    times: list[int] | None = None
    b_frames: int | None = None
    size: tuple[int, int] | None = None
    before: bytes = b""


_GOP = "keyint=12:min-keyint=12:scenecut=0"
_VP9 = {"deadline": "realtime", "cpu-used": "8", "lag-in-frames": "8", "auto-alt-ref": "1"}

_AV1 = {"preset": "11", "crf": "20"}
_LIVE = {"live": "1"}  # Matroska without an index
_FRAGMENTS = {"movflags": "frag_keyframe+empty_moov"}

#: Every codec in every container that FFmpeg supports for it: WebM has only VP9 and AV1, and AVI lacks HEVC.
KINDS = {
    "h264.mp4": Kind("libx264", f"{_GOP}:bframes=3:b-pyramid=normal"),
    "h264_open_gop.mp4": Kind("libx264", "keyint=10:min-keyint=10:scenecut=0:bframes=3:open-gop=1"),
    "h264_varying.mp4": Kind("libx264", f"{_GOP}:bframes=3", times=VARYING),
    "h264_fragments.mp4": Kind("libx264", f"{_GOP}:bframes=2", muxer=_FRAGMENTS),
    "h264_faststart.mp4": Kind("libx264", f"{_GOP}:bframes=2", muxer={"movflags": "faststart"}),
    "h264.mkv": Kind("libx264", f"{_GOP}:bframes=3"),
    "h264_no_index.mkv": Kind("libx264", f"{_GOP}:bframes=3", muxer=_LIVE),
    "h264_refresh.mkv": Kind("libx264", "keyint=10:intra-refresh=1:scenecut=0:bframes=2"),
    "h264_varying.mkv": Kind("libx264", f"{_GOP}:bframes=2", times=VARYING),
    "h264.avi": Kind("libx264", f"{_GOP}:bframes=3"),
    "h264_no_b.avi": Kind("libx264", f"{_GOP}:bframes=0"),
    "hevc_open_gop.mp4": Kind("libx265", "keyint=10:min-keyint=10:scenecut=0:bframes=3:open-gop=1"),
    "hevc_varying.mp4": Kind("libx265", f"{_GOP}:bframes=3", times=VARYING),
    "hevc_fragments.mp4": Kind("libx265", f"{_GOP}:bframes=3:open-gop=0", muxer=_FRAGMENTS),
    "hevc.mkv": Kind("libx265", f"{_GOP}:bframes=3:open-gop=0"),
    "vp9.webm": Kind("libvpx-vp9", options=_VP9),
    "vp9_varying.webm": Kind("libvpx-vp9", options=_VP9, times=VARYING),
    "vp9_no_index.webm": Kind("libvpx-vp9", options=_VP9, muxer=_LIVE),
    "vp9.mp4": Kind("libvpx-vp9", options=_VP9),
    "vp9.mkv": Kind("libvpx-vp9", options=_VP9),
    "vp9.avi": Kind("libvpx-vp9", options=_VP9),
    "odd.webm": Kind("libvpx-vp9", options=_VP9, size=(47, 63)),
    "av1.mp4": Kind("libsvtav1", options=_AV1),
    "av1.mkv": Kind("libsvtav1", options=_AV1),
    "av1.webm": Kind("libsvtav1", options=_AV1),
    "av1.avi": Kind("libsvtav1", options=_AV1),
    "av1_varying.mp4": Kind("libsvtav1", options=_AV1, times=VARYING),
    "mpeg4.mp4": Kind("mpeg4", b_frames=2),
    "mpeg4.mkv": Kind("mpeg4", b_frames=2),
    "mpeg4.avi": Kind("mpeg4", b_frames=2),
    "mpeg4_no_index.avi": Kind("mpeg4", b_frames=2, before=b"idx1"),
    "mjpeg.mp4": Kind("mjpeg", pixels="yuvj420p"),
    "mjpeg.mkv": Kind("mjpeg", pixels="yuvj420p"),
    "mjpeg.avi": Kind("mjpeg", pixels="yuvj420p"),
    "h264.ts": Kind("libx264", f"{_GOP}:bframes=3"),
    "h264.h264": Kind("libx264", f"{_GOP}:bframes=3"),
}


class Clips:
    """Encodes each clip once, at its first use.

    Args:
        folder: folder of the clips.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = cache(self._path)

    def bytes(self, name: str) -> Pixels:
        return np.fromfile(self.path(name), np.uint8)

    def _path(self, name: str) -> Path:
        path = self.folder / name
        encode(path, KINDS[name])
        return path


def encode(
    path: Path,
    kind: Kind,
    count: int = COUNT,
    size: tuple[int, int] | None = None,
    color: Any = None,
    begin: int = 0,
    first: int = 0,
    sound: bool = False,
) -> None:
    """Write a video of `count` frames, which show consecutive numbers.

    Args:
        path: path of the file.
        kind: encoding.
        count: number of frames.
        size: height and width.
        color: colour space and range.
        begin: number that the first frame shows.
        first: time stamp of the first frame; an MP4 gets an edit list that leaves out negative ones.
        sound: write silence, too, as the first stream.
    """
    import av

    size = size or kind.size or SIZE
    rate = Fraction(1, 1000) if kind.times else Fraction(1, 25)
    extra = {"libx264": "x264-params", "libx264rgb": "x264-params", "libx265": "x265-params"}.get(kind.codec)
    options = dict(kind.options)
    if extra:
        options[extra] = kind.extra + (":log-level=none" if kind.codec == "libx265" else "")
    with usual_scheduling(), av.open(str(path), "w", container_options=kind.muxer) as file:
        voice = file.add_stream("aac", rate=8000, layout="mono") if sound else None
        stream = file.add_stream(kind.codec, rate=25, options=options)
        context = stream.codec_context
        stream.height, stream.width = size
        stream.pix_fmt = kind.pixels
        context.gop_size = 12
        context.time_base = rate
        context.thread_count = 1
        if kind.b_frames is not None:
            context.max_b_frames = kind.b_frames
        if kind.codec in ("mpeg4", "mjpeg", "libvpx-vp9"):
            context.bit_rate = 800_000
        if color is not None:
            context.colorspace, context.color_range = color
        for number in range(count):
            shown = sample_image(begin + number, size)
            frame = av.VideoFrame.from_ndarray(shown, "rgb24").reformat(format=kind.pixels)
            frame.pts = kind.times[number] if kind.times else number + first
            frame.time_base = rate
            file.mux(stream.encode(frame))
        file.mux(stream.encode())
        if voice is not None:
            for number in range(count * 320 // 1024):
                silence = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
                silence.rate, silence.pts = 8000, number * 1024
                file.mux(voice.encode(silence))
            file.mux(voice.encode())
    if kind.before:
        data = path.read_bytes()
        path.write_bytes(data[: data.rindex(kind.before)])


def sample_image(number: int, size: tuple[int, int] = SIZE) -> Pixels:
    """Return an image of 8 squares, the bits of a number, on a moving background."""
    height, width = size
    y, x = np.mgrid[:height, :width]
    ground = [(x * 3 + number * 5) % 256, (y * 4 + number * 3) % 256, ((x + y) * 2 - number * 7) % 256]
    made = (np.stack(ground, -1) * 0.3 + 40).astype(np.uint8)
    for bit, part in enumerate(_squares(made, 4, 3)):
        part[...] = 230 if number >> bit & 1 else 20
    return made


def number_of(frame: Pixels) -> int:
    """Return the number that a frame shows."""
    return sum(1 << bit for bit, part in enumerate(_squares(frame, 8, 5)) if part.mean() > 128)


def _squares(frame: Pixels, top: int, left: int) -> list[Pixels]:
    height, width = frame.shape[0] // 2, frame.shape[1] // 4
    return [
        frame[row * height + top : (row + 1) * height - top, column * width + left : (column + 1) * width - left]
        for row in range(2)
        for column in range(4)
    ]


def decode_from_start(path: Path) -> list[Any]:
    """Return all frames that FFmpeg decodes without seeking."""
    import av

    with av.open(str(path)) as file:
        stream = file.streams.video[0]
        stream.codec_context.thread_count = 1
        return list(file.decode(stream))
