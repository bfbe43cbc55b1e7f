"""Converts frames that NVDEC decoded to arrays of pixels, on the GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._cuda.launch import Launch
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.nv12 import plan_nv12_to_pixels
from dali_proxy.pipeline._video.nvdec import Encoding
from dali_proxy.pipeline._video.pixels import check_size, chroma_is_left, color_matrix
from dali_proxy.pipeline.errors import DecodeError
from dali_proxy.pipeline.types import DALIImageType

_AT_ONCE = 16  # frames per launch; until the launch, they take memory in addition to their pixels


#: Dtypes of the formats with a plane of luma and a plane of chroma pairs for 2 by 2 pixels.
_DTYPES: dict[str, np.dtype[Any]] = {
    "nv12": np.dtype(np.uint8),
    "p010le": np.dtype(np.uint16),
    "p016le": np.dtype(np.uint16),
}


def planes_of(frames: Sequence[Any], default: str = "nv12") -> tuple[Samples, Samples]:
    """Return the luma and chroma of frames in NV12 or P016. The frames own the memory.

    Args:
        frames: `av.VideoFrame`s of one format, on the CPU or a GPU.
        default: format of frames on a GPU, if PyAV doesn't report it; it does since version 18.

    Raises:
        DecodeError: the frames have a different format.
    """
    dtype = _dtype_of(frames, default)
    sizes = np.array([(frame.height, frame.width) for frame in frames], np.int64)
    halves = np.column_stack([-(-sizes // 2), np.full(len(frames), 2)])  # rounded up, as in the planes
    luma, chroma = zip(*(frame.planes for frame in frames), strict=True)
    step: int = dtype.itemsize
    return _samples(luma, sizes, (step,), dtype), _samples(chroma, halves, (2 * step, step), dtype)


def plan_pixels(
    luma: Samples,
    chroma: Samples,
    outs: Sequence[Any],
    output: DALIImageType,
    colors: Sequence[tuple[int, int]],
    codec: str,
) -> Launch:
    """Return the launch that converts frames in NV12 or P016 to pixels.

    Args:
        luma: as in `planes_of`.
        chroma: see `luma`.
        outs: HWC arrays for the pixels.
        output: their color space.
        colors: FFmpeg's numbers of each frame's color space and range.
        codec: FFmpeg's name of the frames' codec.
    """
    matrices = {each: color_matrix(output, *each) for each in set(colors)}
    matrix = [matrices[each] for each in colors]
    return plan_nv12_to_pixels(luma, chroma, Samples.from_arrays(outs), matrix, chroma_is_left(codec))


def _dtype_of(frames: Sequence[Any], default: str) -> np.dtype[Any]:
    """Return the dtype of the planes of frames.

    Raises:
        DecodeError: it isn't supported, or the frames have different formats.
    """
    forms = {_format_of(frame, default) for frame in frames}
    dtype = _DTYPES.get(forms.pop())
    if dtype is None or forms:
        raise DecodeError("its frames aren't 4:2:0 of 8 to 16 bits, or their format changes; use device='cpu'")
    return dtype


def _format_of(frame: Any, default: str) -> str:
    """Return the name of the pixel format of a frame in memory."""
    stored = getattr(frame, "sw_format", None)
    name: str = stored.name if stored is not None else frame.format.name
    return default if name == "cuda" else name


def _samples(planes: Sequence[Any], shapes: Any, steps: tuple[int, ...], dtype: np.dtype[Any]) -> Samples:
    strides = np.array([(plane.line_size, *steps) for plane in planes], np.int64)
    return Samples(np.array([plane.buffer_ptr for plane in planes], np.int64), shapes, strides, dtype)


class GpuPixels:
    """Converts frames in GPU memory to CuPy arrays. Only one thread at a time may use it.

    FFmpeg copies decoded frames on CUDA's default stream, and reuses the memory of released frames for the next ones.
    This class works on the same stream, so that a frame may be released before the kernel has read it.
    """

    may_wait = False

    def __init__(self, output: DALIImageType, kernels: KernelContext, encoding: Encoding) -> None:
        import cupy

        self._cupy = cupy
        self._output = output
        self._kernels = kernels
        self._codec = encoding.codec
        self._default = "nv12" if encoding.bits == 8 else "p016le"
        self._waiting: list[tuple[Any, Any]] = []  # frames, and the arrays for their pixels
        self.channels = 1 if output is DALIImageType.GRAY else 3

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make the GPU and the stream of the writes current, and launch pending conversions."""
        with self._stream():
            self._launch()
            yield

    def empty(self, shape: tuple[int, ...]) -> Any:
        """Return uninitialized memory for frames."""
        with self._stream():
            return self._cupy.empty(shape, self._cupy.uint8)

    def write(self, frame: Any, out: Any) -> None:
        """Write a frame into an HWC array.

        Raises:
            DecodeError: the size of the frame differs, or its format isn't supported.
        """
        check_size(frame, out)
        _dtype_of([*(waiting for waiting, _ in self._waiting[:1]), frame], self._default)  # of a launch
        self._waiting.append((frame, out))
        if len(self._waiting) == _AT_ONCE:
            with self.current():
                pass

    def finish(self, pixels: Any) -> Any:
        """Wait for the writes, and return the pixels."""
        with self.current():
            self._cupy.cuda.Stream.null.synchronize()
        return pixels

    @contextmanager
    def _stream(self) -> Iterator[None]:
        with self._cupy.cuda.Device(self._kernels.device_id), self._cupy.cuda.Stream.null:
            yield

    def _launch(self) -> None:
        """Convert the waiting frames to pixels."""
        if not self._waiting:
            return
        frames, outs = zip(*self._waiting, strict=True)
        self._waiting = []
        luma, chroma = planes_of(frames, self._default)
        colors = [(frame.colorspace, frame.color_range) for frame in frames]
        launch = plan_pixels(luma, chroma, outs, self._output, colors, self._codec)
        self._kernels.run(launch, self._cupy.cuda.Stream.null)
