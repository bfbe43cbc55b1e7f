"""The videos that `benchmarks.gpu.video` reads."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from dali_proxy._demo.data import photograph_paths

LENGTH = 16
"""Frames per sequence."""

GROUP = 24
"""Distance of key frames, in frames."""

CODECS = {
    "h264": ("libx264", {"preset": "veryfast", "crf": "21", "bf": "2", "g": str(GROUP)}),
    "hevc": (
        "libx265",
        {"preset": "superfast", "crf": "23", "x265-params": f"keyint={GROUP}:bframes=2:log-level=none"},
    ),
}


_BT709, _LIMITED = 1, 1  # FFmpeg's numbers


@dataclass(frozen=True)
class Videos:
    """Identical files of one codec.

    Attributes:
        codec: Key in `CODECS`.
        paths: Paths of the files.
        frames: Number of frames per file.
    """

    codec: str
    paths: tuple[str, ...]
    frames: int

    @property
    def sequences(self) -> int:
        """Number of whole sequences per file."""
        return self.frames // LENGTH


def make_videos(folder: str, codec: str, count: int, size: tuple[int, int], frames: int) -> Videos:
    """Encode one video that pans over photographs, and copy it.

    Args:
        folder: Output folder.
        codec: One of `CODECS`.
        count: Number of files.
        size: Width and height.
        frames: Number of frames per file.
    """
    paths = [Path(folder) / f"{codec}-{number:02}.mp4" for number in range(count)]
    _encode(paths[0], codec, size, frames)
    for path in paths[1:]:
        shutil.copyfile(paths[0], path)
    return Videos(codec, tuple(map(str, paths)), frames)


def _encode(path: Path, codec: str, size: tuple[int, int], frames: int) -> None:
    import av

    width, height = size
    photographs = []
    for found in photograph_paths(3).values():
        with Image.open(found) as opened:
            photographs.append(opened.convert("RGB").resize((2 * width, 2 * height), Image.Resampling.BICUBIC))
    name, options = CODECS[codec]
    with av.open(str(path), "w") as file:
        stream = file.add_stream(name, rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        context = stream.codec_context
        context.thread_count = 0  # one per core
        context.colorspace = context.color_primaries = context.color_trc = _BT709  # so that no decoder guesses
        context.color_range = _LIMITED
        for number in range(frames):
            turn = number / 40
            left, top = (int(length / 2 * (1 + wave(turn))) for length, wave in ((width, math.sin), (height, math.cos)))
            shown = photographs[number * len(photographs) // frames].crop((left, top, left + width, top + height))
            frame = av.VideoFrame.from_image(shown)
            file.mux(stream.encode(frame.reformat(format="yuv420p", dst_colorspace=_BT709, dst_color_range=_LIMITED)))
        file.mux(stream.encode())
