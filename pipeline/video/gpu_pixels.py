"""Frames that NVDEC decoded as arrays of pixels, on the GPU all along."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from pipeline.errors import DecodeError
from pipeline.kernels import KernelContext, Samples, nv12_to_pixels
from pipeline.types import DALIImageType
from pipeline.video.nvdec import Encoding
from pipeline.video.pixels import check_size, chroma_is_left, color_matrix

__all__ = ["GpuPixels", "planes_of"]

_AT_ONCE = 16  # frames a launch; until then they take memory beside their pixels


class _Plane:
    """A plane of a frame, for CuPy: it would hand over a stream, which PyAV refuses, as FFmpeg waits for none."""

    def __init__(self, plane: Any) -> None:
        self._plane = plane

    def __dlpack_device__(self) -> Any:
        return self._plane.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self._plane.__dlpack__()


def planes_of(frames: Sequence[Any], from_dlpack: Callable[[Any], Any]) -> tuple[Samples, Samples, list[Any]]:
    """Return luma and chroma of frames in NV12 or P016, and what keeps their memory.

    Args:
        frames: each an `av.VideoFrame`.
        from_dlpack: of CuPy or NumPy, by where the frames lie.
    """
    planes = [[from_dlpack(_Plane(plane)) for plane in frame.planes] for frame in frames]
    luma, chroma = (Samples.of([pair[number] for pair in planes]) for number in range(2))
    # PyAV rounds the size of chroma down: of an odd size it leaves out what is there.
    halves = np.column_stack([-(-luma.shapes // 2), np.full(len(frames), 2)])
    return luma, replace(chroma, shapes=halves), planes


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

    def finish(self) -> None:
        """Wait until what was written is there."""
        with self.current():
            self._cupy.cuda.Stream.null.synchronize()

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
        try:
            luma, chroma, _planes = planes_of(frames, self._cupy.from_dlpack)
        except (NotImplementedError, ValueError) as error:
            raise DecodeError(
                f"its frames are no 4:2:0 of 8 to 16 bits, which is what the GPU makes pixels of ({error}); "
                "device='cpu' decodes them"
            ) from error
        matrix = [color_matrix(self._output, frame.colorspace, frame.color_range) for frame in frames]
        left = chroma_is_left(self._encoding.codec)
        stream = self._cupy.cuda.Stream.null
        nv12_to_pixels(self._kernels, stream, luma, chroma, Samples.of(outs), matrix, left)
