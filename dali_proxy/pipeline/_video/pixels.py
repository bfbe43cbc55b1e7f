"""Converts decoded frames to arrays of pixels on the CPU."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._imaging import convert_color
from dali_proxy.pipeline._video.native import compiled
from dali_proxy.pipeline.errors import DecodeError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import DALIImageType

#: Formats that the compiled loop supports, and whether chroma has half the rows and half the columns. "j": full range.
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

#: Codecs whose chroma is sited in the left one of two columns. PyAV doesn't report the siting of a frame.
_LEFT = {"h264", "hevc", "mpeg2video", "mpeg4"}

#: Weights of red and blue in the luma, by FFmpeg's number of the color space. Other and unspecified color spaces use
#: BT.601, as in FFmpeg.
_LUMA = {1: (0.2126, 0.0722), 4: (0.30, 0.11), 7: (0.212, 0.087), 9: (0.2627, 0.0593), 10: (0.2627, 0.0593)}
_BT601 = (0.299, 0.114)
_FULL_RANGE = 2


def color_matrix(output: DALIImageType, colorspace: int, color_range: int) -> npt.NDArray[np.float32]:
    """Return the matrix (channels, 4) that converts (Y, Cb, Cr, 1) to colors, all from 0 to 255.

    The formulas are those of ITU-T H.273.

    Args:
        output: RGB, BGR, GRAY, or YCbCr, which keeps the values of the video.
        colorspace: FFmpeg's number of the color space.
        color_range: FFmpeg's number of the range.

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
    """Return whether chroma that two columns share is sited in the left one, instead of between them."""
    return codec in _LEFT


def check_size(frame: Any, out: Any) -> None:
    """Check that a frame has the size of an HWC array.

    Raises:
        DecodeError: the size of the frame differs.
    """
    if (frame.height, frame.width) != out.shape[:2]:
        raise DecodeError(f"its frames change size, from {out.shape[0]}x{out.shape[1]} to {frame.height}x{frame.width}")


@cache
def color_table(output: DALIImageType, colorspace: int, color_range: int) -> npt.NDArray[np.int16]:
    """Return `color_matrix` in the format of the compiled loop: (channels, 4), see `_native.c`."""
    matrix = color_matrix(output, colorspace, color_range).astype(np.float64)
    offset = matrix[:, 3] + 128 * (matrix[:, 1] + matrix[:, 2])
    table: npt.NDArray[np.int16] = np.column_stack([matrix[:, :3] * 8192, offset * 32]).round().astype(np.int16)
    return table


class Pixels:
    """Converts frames to arrays on the CPU. Only one thread at a time may use it.

    The compiled loop handles planes of 8 bits, which nearly all videos have. For other videos, and without the loop,
    swscale interpolates the chroma and OpenCV multiplies by the matrix: four times as fast as swscale's exact
    conversion, and within 2 of it. swscale's fast conversion repeats chroma, and is off by up to 26.
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
        """Return uninitialized memory for frames."""
        return np.empty(shape, np.uint8)

    def write(self, frame: Any, out: Array) -> None:
        """Write a frame into an HWC array.

        Raises:
            DecodeError: the size of the frame differs.
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
        """Return the pixels, which are complete."""
        return pixels

    def _convert(self, frame: Any, out: Array) -> bool:
        """Convert a frame with the compiled loop; return False if it doesn't support the format."""
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
        converted = self._reformatter.reformat(frame, format=form, interpolation=self._interpolation, threads=1)
        return [
            np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width]
            for plane in converted.planes
        ]
