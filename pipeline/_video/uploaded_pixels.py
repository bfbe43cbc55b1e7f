"""Frames that the CPU decoded, as arrays of pixels on the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from pipeline._kernels import KernelContext
from pipeline._video.nvdec import Encoding
from pipeline._video.pixels import Pixels
from pipeline.types import DALIImageType

__all__ = ["UploadedPixels"]


class UploadedPixels(Pixels):
    """Turns frames into CuPy arrays: pixels are made by the CPU, and a sequence is uploaded at once.

    It works on CUDA's default stream, as `GpuPixels` does, so that both kinds of videos can be in one batch.

    Args:
        output: the colours.
        kernels: of the GPU.
        encoding: of the video.
    """

    def __init__(self, output: DALIImageType, kernels: KernelContext, encoding: Encoding) -> None:
        import cupy

        super().__init__(output, encoding.codec)
        self._cupy = cupy
        self._device_id = kernels.device_id

    @contextmanager
    def current(self) -> Iterator[None]:
        """Work on the GPU and the stream on which pixels are uploaded."""
        with self._cupy.cuda.Device(self._device_id), self._cupy.cuda.Stream.null:
            yield

    def finish(self, pixels: Any) -> Any:
        """Return pixels on the GPU, when they are there."""
        with self.current():
            if isinstance(pixels, np.ndarray):
                uploaded = self._cupy.empty(pixels.shape, pixels.dtype)
                uploaded.set(pixels)
                pixels = uploaded
            self._cupy.cuda.Stream.null.synchronize()
        return pixels
