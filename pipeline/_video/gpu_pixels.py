"""Frames that NVDEC decoded as arrays of pixels, on the GPU all along."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pipeline._kernels import KernelContext, Samples, nv12_to_pixels
from pipeline._video.nvdec import Encoding
from pipeline._video.pixels import check_size, chroma_is_left, color_matrix
from pipeline.errors import DecodeError
from pipeline.types import DALIImageType

__all__ = ["GpuPixels", "planes_of"]

_AT_ONCE = 16  # frames a launch; until then they take memory beside their pixels


#: Types of formats with a plane of luma, and one of pairs of chroma for 2 by 2 pixels.
_DTYPES: dict[str, np.dtype[Any]] = {
    "nv12": np.dtype(np.uint8),
    "p010le": np.dtype(np.uint16),
    "p016le": np.dtype(np.uint16),
}


def planes_of(frames: Sequence[Any], untold: str = "nv12") -> tuple[Samples, Samples]:
    """Return luma and chroma of frames in NV12 or P016, which keep their memory.

    Args:
        frames: each an `av.VideoFrame`, on the CPU or a GPU; all of one format.
        untold: the format of those on a GPU, of which PyAV tells from version 18 on.

    Raises:
        DecodeError: they are of another format.
    """
    forms = {_format_of(frame, untold) for frame in frames}
    dtype = _DTYPES.get(forms.pop())
    if dtype is None or forms:
        raise DecodeError("its frames aren't 4:2:0 of 8 to 16 bits, or their format changes; use device='cpu'")
    sizes = np.array([(frame.height, frame.width) for frame in frames], np.int64)
    halves = np.column_stack([-(-sizes // 2), np.full(len(frames), 2)])  # rounded up, as what lies there
    luma, chroma = zip(*(frame.planes for frame in frames), strict=True)
    step: int = dtype.itemsize
    return _samples(luma, sizes, (step,), dtype), _samples(chroma, halves, (2 * step, step), dtype)


def _format_of(frame: Any, untold: str) -> str:
    """Return the name of the format in which a frame lies in memory."""
    stored = getattr(frame, "sw_format", None)
    name: str = stored.name if stored is not None else frame.format.name
    return untold if name == "cuda" else name


def _samples(planes: Sequence[Any], shapes: Any, steps: tuple[int, ...], dtype: np.dtype[Any]) -> Samples:
    strides = np.array([(plane.line_size, *steps) for plane in planes], np.int64)
    return Samples(np.array([plane.buffer_ptr for plane in planes], np.int64), shapes, strides, dtype)


class GpuPixels:
    """Turns frames in the memory of a GPU into CuPy arrays. Belongs to one thread at a time.

    FFmpeg copies decoded frames on CUDA's default stream, and takes the memory of those that nobody holds for the next
    ones. This works on that stream, too, so a frame may be let go while it has yet to be read.

    Args:
        output: the colours.
        kernels: runs kernels on the GPU.
        encoding: of the video.
    """

    may_wait = False

    def __init__(self, output: DALIImageType, kernels: KernelContext, encoding: Encoding) -> None:
        import cupy

        self._cupy = cupy
        self._output = output
        self._kernels = kernels
        self._encoding = encoding
        self._waiting: list[tuple[Any, Any]] = []  # frames, and where pixels are made of them
        self.channels = 1 if output is DALIImageType.GRAY else 3

    @contextmanager
    def current(self) -> Iterator[None]:
        """Work on the GPU and the stream on which pixels are written."""
        with self._stream():
            self._launch()
            yield

    def empty(self, shape: tuple[int, ...]) -> Any:
        """Return memory for frames."""
        with self._stream():
            return self._cupy.empty(shape, self._cupy.uint8)

    def write(self, frame: Any, out: Any) -> None:
        """Write a frame into an HWC array.

        Raises:
            DecodeError: the frame's size is another one, or it is of a kind that there is no kernel for.
        """
        check_size(frame, out)
        self._waiting.append((frame, out))
        if len(self._waiting) == _AT_ONCE:
            with self.current():
                pass

    def finish(self, pixels: Any) -> Any:
        """Return pixels when what was written is there."""
        with self.current():
            self._cupy.cuda.Stream.null.synchronize()
        return pixels

    @contextmanager
    def _stream(self) -> Iterator[None]:
        with self._cupy.cuda.Device(self._kernels.device_id), self._cupy.cuda.Stream.null:
            yield

    def _launch(self) -> None:
        """Make pixels of the frames that wait."""
        if not self._waiting:
            return
        frames, outs = zip(*self._waiting, strict=True)
        self._waiting = []
        luma, chroma = planes_of(frames, "nv12" if self._encoding.bits == 8 else "p016le")
        said = [(frame.colorspace, frame.color_range) for frame in frames]
        matrices = {colors: color_matrix(self._output, *colors) for colors in set(said)}
        matrix = [matrices[colors] for colors in said]
        left = chroma_is_left(self._encoding.codec)
        stream = self._cupy.cuda.Stream.null
        nv12_to_pixels(self._kernels, stream, luma, chroma, Samples.of(outs), matrix, left)
