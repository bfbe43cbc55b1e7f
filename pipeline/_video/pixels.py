"""Decoded frames as arrays of pixels."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from pipeline._imaging import convert_color
from pipeline._video.native import compiled
from pipeline.errors import DecodeError
from pipeline.tensors.cpu import Array
from pipeline.types import DALIImageType

__all__ = ["Pixels", "check_size", "chroma_is_left", "color_matrix", "color_table"]

#: Formats that the compiled loop takes, and whether chroma has half of the rows, and of the columns. "j": full range.
_PLANAR = {
    f"yuv{full}{name}p": halved
    for name, halved in {
        "420": (True, True),
        "422": (False, True),
        "440": (True, False),
        "444": (False, False),
    }.items()
    for full in ("", "j")
}

#: Codecs whose chroma lies in the left one of its two columns. PyAV doesn't tell where a frame's lies.
_LEFT = {"h264", "hevc", "mpeg2video", "mpeg4"}

#: Weights of red and blue in the luma, by FFmpeg's number of the colour space. Others, and videos that don't say, have
#: those of BT.601, as in FFmpeg.
_LUMA = {1: (0.2126, 0.0722), 4: (0.30, 0.11), 7: (0.212, 0.087), 9: (0.2627, 0.0593), 10: (0.2627, 0.0593)}
_BT601 = (0.299, 0.114)
_FULL_RANGE = 2


def color_matrix(output: DALIImageType, colorspace: int, color_range: int) -> npt.NDArray[np.float32]:
    """Return the matrix (channels, 4) that makes colours of (Y, Cb, Cr, 1), all 0 to 255.

    The formulas are those of ITU-T H.273.

    Args:
        output: RGB, BGR, GRAY, or YCbCr, which stays as it is in the video.
        colorspace: FFmpeg's number.
        color_range: FFmpeg's number.

    Example:
        >>> (color_matrix(DALIImageType.RGB, 1, 1) @ [235, 128, 128, 1]).round(3).tolist()
        [255.0, 255.0, 255.0]
    """
    if output is DALIImageType.YCbCr:
        return np.eye(3, 4, dtype=np.float32)
    red, blue = _LUMA.get(colorspace, _BT601)
    green = 1 - red - blue
    full = color_range == _FULL_RANGE
    luma, chroma, black = (1.0, 1.0, 0) if full else (255 / 219, 255 / 224, 16)
    weights = {
        "RGB": [
            [luma, 0, 2 * (1 - red) * chroma],
            [luma, -2 * (1 - blue) * blue / green * chroma, -2 * (1 - red) * red / green * chroma],
            [luma, 2 * (1 - blue) * chroma, 0],
        ],
        "GRAY": [[luma, 0, 0]],
    }
    rows = np.array(weights["GRAY" if output is DALIImageType.GRAY else "RGB"])
    if output is DALIImageType.BGR:
        rows = rows[::-1]
    return np.column_stack([rows, -rows @ [black, 128, 128]]).astype(np.float32)


def chroma_is_left(codec: str) -> bool:
    """Tell whether chroma that two columns share lies in the left one of them, rather than between them.

    Args:
        codec: FFmpeg's name.
    """
    return codec in _LEFT


def check_size(frame: Any, out: Any) -> None:
    """Check that a frame fits into an HWC array.

    Raises:
        DecodeError: its size is another one.
    """
    if (frame.height, frame.width) != out.shape[:2]:
        raise DecodeError(f"its frames change size, from {out.shape[0]}x{out.shape[1]} to {frame.height}x{frame.width}")


@cache
def color_table(output: DALIImageType, colorspace: int, color_range: int) -> npt.NDArray[np.int16]:
    """Return `color_matrix` as the compiled loop takes it: (channels, 4), see there."""
    matrix = color_matrix(output, colorspace, color_range).astype(np.float64)
    offset = matrix[:, 3] + 128 * (matrix[:, 1] + matrix[:, 2])
    table: npt.NDArray[np.int16] = np.column_stack([matrix[:, :3] * 8192, offset * 32]).round().astype(np.int16)
    return table


class Pixels:
    """Turns frames into arrays on the CPU. Belongs to one thread at a time.

    The compiled loop takes the planes of 8 bits that nearly all videos have. For others, and without it, swscale
    interpolates the chroma, and OpenCV multiplies by the matrix: four times as fast as swscale's exact conversion, and
    within 2 of it. swscale's fast one repeats chroma, and is off by up to 26.

    Args:
        output: the colours.
        codec: FFmpeg's name of the video's.
    """

    may_wait = True

    def __init__(self, output: DALIImageType, codec: str = "") -> None:
        from av.video.reformatter import Interpolation, VideoReformatter

        self._output = output
        self._left = chroma_is_left(codec)
        self._reformatter = VideoReformatter()
        self._interpolation = int(Interpolation.BILINEAR)
        self.channels = 1 if output is DALIImageType.GRAY else 3

    def current(self) -> AbstractContextManager[Any]:
        """Return a context that does nothing."""
        return nullcontext()

    def empty(self, shape: tuple[int, ...]) -> Array:
        """Return memory for frames."""
        return np.empty(shape, np.uint8)

    def write(self, frame: Any, out: Array) -> None:
        """Write a frame into an HWC array.

        Raises:
            DecodeError: the frame's size is another one.
        """
        check_size(frame, out)
        if self._convert(frame, out):
            return
        if frame.format.is_rgb:
            colors = self._planes(frame, "gbrp")
            rgb = cv2.merge([colors[2], colors[0], colors[1]])
            out[...] = rgb if self._output.name == "RGB" else convert_color(rgb, "RGB", self._output.name)
            return
        planes = self._planes(frame, "yuv444p")
        target = out if self.channels > 1 else out[..., 0]
        if self._output is DALIImageType.YCbCr:
            cv2.merge(planes, dst=target)
        else:
            matrix = color_matrix(self._output, frame.colorspace, frame.color_range)
            cv2.transform(cv2.merge(planes), matrix, dst=target)

    def finish(self, pixels: Array) -> Array:
        """Return pixels: nothing is left to wait for."""
        return pixels

    def _convert(self, frame: Any, out: Array) -> bool:
        """Let the compiled loop do it; return whether it could."""
        name = frame.format.name
        if compiled is None or name not in _PLANAR or not out.flags.c_contiguous:
            return False
        planes = frame.planes
        pitches = tuple(plane.line_size for plane in planes)
        if min(pitches) <= 0:  # upside down
            return False
        table = color_table(self._output, frame.colorspace, _FULL_RANGE if "j" in name else frame.color_range)
        compiled.convert(*planes, pitches, _PLANAR[name], self._left, table, out)
        return True

    def _planes(self, frame: Any, form: str) -> list[Array]:
        made = self._reformatter.reformat(frame, format=form, interpolation=self._interpolation, threads=1)
        return [
            np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width]
            for plane in made.planes
        ]
