"""Converts frames that a core decoded for a GPU, as those of NVDEC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dali_proxy.pipeline._video.gpu_pixels import GpuPixels
from dali_proxy.pipeline._video.missing import require_av
from dali_proxy.pipeline._video.nvdec import is_420


@dataclass(frozen=True)
class _Plane:
    """A plane on the GPU, with the attributes of an `av.VideoPlane` that `GpuPixels` reads."""

    array: Any

    @property
    def buffer_ptr(self) -> int:
        return int(self.array.data.ptr)

    @property
    def line_size(self) -> int:
        return int(self.array.shape[1] * self.array.dtype.itemsize)


@dataclass(frozen=True)
class _Frame:
    """The same for an `av.VideoFrame`."""

    height: int
    width: int
    format: Any
    colorspace: int
    color_range: int
    planes: Sequence[_Plane]


class UploadedPlanes(GpuPixels):
    """Uploads the planes of frames, and converts them with the kernel for NVDEC's frames: with the same bits."""

    def write(self, frame: Any, out: Any) -> None:
        """Write a frame of three planes in 4:2:0 into an HWC array.

        Raises:
            DecodeError: the size of the frame differs, or its format isn't supported.
        """
        super().write(self._upload(frame), out)

    def _upload(self, frame: Any) -> Any:
        form = frame.format
        bits = form.components[0].bits
        dtype = np.dtype(np.uint8 if bits == 8 else np.uint16)
        if not is_420(form) or (dtype == np.uint8) != (self._default == "nv12"):
            return frame  # which `GpuPixels` refuses
        luma, blue, red = (
            np.frombuffer(memoryview(plane), dtype).reshape(plane.height, -1)[:, : plane.width]
            for plane in frame.planes
        )
        chroma = np.stack([blue, red], axis=-1).reshape(len(blue), -1)
        host = [luma, chroma] if bits == 8 else [luma << (16 - bits), chroma << (16 - bits)]
        with self._stream():
            arrays = [self._cupy.empty(each.shape, dtype) for each in host]
            for array, each in zip(arrays, host, strict=True):
                array.set(np.ascontiguousarray(each))
        stored = require_av().VideoFormat(self._default, frame.width, frame.height)
        planes = [_Plane(array) for array in arrays]
        return _Frame(frame.height, frame.width, stored, frame.colorspace, frame.color_range, planes)
