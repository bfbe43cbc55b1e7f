"""Frames that NVDEC decoded as arrays of pixels, on the GPU all along."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from pipeline.errors import DecodeError
from pipeline.kernels import KernelContext, Samples, nv12_to_pixels
from pipeline.types import DALIImageType
from pipeline.video.pixels import chroma_is_left, color_matrix

__all__ = ["GpuPixels", "planes_of"]


class _Plane:
    """A plane of a frame, for CuPy: it would hand over a stream, which PyAV refuses, as FFmpeg waits for none."""

    def __init__(self, plane: Any) -> None:
        self._plane = plane

    def __dlpack_device__(self) -> Any:
        return self._plane.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self._plane.__dlpack__()


def planes_of(frame: Any, from_dlpack: Callable[[Any], Any]) -> tuple[Samples, Samples, list[Any]]:
    """Return luma and chroma of a frame in NV12 or P016, and what keeps their memory.

    Args:
        frame: `av.VideoFrame`.
        from_dlpack: of CuPy or NumPy, by where the frame lies.
    """
    planes = [from_dlpack(_Plane(plane)) for plane in frame.planes]
    luma, chroma = (Samples.of([plane]) for plane in planes)
    # PyAV rounds the size of chroma down: of an odd size it leaves out what is there.
    halves = np.array([[-(-frame.height // 2), -(-frame.width // 2), 2]])
    return luma, Samples(chroma.pointers, halves, chroma.strides, chroma.dtype), planes


class GpuPixels:
    """Turns frames in the memory of a GPU into CuPy arrays. Belongs to one thread at a time.

    FFmpeg decodes on CUDA's default stream, so that is where this works, too. A decoder has few surfaces for frames, so
    each is read before the next one is asked for.

    Args:
        output: the colours.
        kernels: runs kernels on the GPU.
        codec: FFmpeg's name of the video's.
    """

    may_wait = False

    def __init__(self, output: DALIImageType, kernels: KernelContext, codec: str) -> None:
        import cupy

        self._cupy = cupy
        self._output = output
        self._kernels = kernels
        self._left = chroma_is_left(codec)
        self.channels = 1 if output is DALIImageType.GRAY else 3

    @contextmanager
    def current(self) -> Iterator[None]:
        """Work on the GPU and the stream on which pixels are written."""
        with self._cupy.cuda.Device(self._kernels.device_id), self._cupy.cuda.Stream.null:
            yield

    def empty(self, shape: tuple[int, ...]) -> Any:
        """Return memory for frames."""
        with self.current():
            return self._cupy.empty(shape, self._cupy.uint8)

    def write(self, frame: Any, out: Any) -> None:
        """Write a frame into an HWC array.

        Raises:
            DecodeError: the frame's size is another one, or it is of a kind that there is no kernel for.
        """
        if (frame.height, frame.width) != out.shape[:2]:
            raise DecodeError(
                f"its frames change size, from {out.shape[0]}x{out.shape[1]} to {frame.height}x{frame.width}"
            )
        matrix = color_matrix(self._output, frame.colorspace, frame.color_range)
        with self.current():
            try:
                luma, chroma, _planes = planes_of(frame, self._cupy.from_dlpack)
            except (NotImplementedError, ValueError) as error:
                raise DecodeError(
                    f"its frames are no 4:2:0 of 8 to 16 bits, which is what the GPU makes pixels of ({error}); "
                    "device='cpu' decodes them"
                ) from error
            stream = self._cupy.cuda.Stream.null
            nv12_to_pixels(self._kernels, stream, luma, chroma, Samples.of([out]), matrix, self._left)
        self.finish()

    def finish(self) -> None:
        """Wait until what was written is there."""
        with self.current():
            self._cupy.cuda.Stream.null.synchronize()
