"""Converts frames that the CPU decoded to arrays of pixels on the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._video.nvdec import Encoding
from dali_proxy.pipeline._video.pixels import Pixels
from dali_proxy.pipeline.types import DALIImageType


class UploadedPixels(Pixels):
    """Converts frames to CuPy arrays: the CPU computes the pixels, and a whole sequence is uploaded at once.

    Like `GpuPixels`, it works on CUDA's default stream, so that a batch can contain both kinds of videos.
    """

    def __init__(self, output: DALIImageType, kernels: KernelContext, encoding: Encoding) -> None:
        import cupy

        super().__init__(output, encoding.codec)
        self._cupy = cupy
        self._device_id = kernels.device_id

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make the GPU and the stream of the uploads current."""
        with self._cupy.cuda.Device(self._device_id), self._cupy.cuda.Stream.null:
            yield

    def finish(self, pixels: Any) -> Any:
        """Upload the pixels if necessary, and return them when they are complete."""
        with self.current():
            if isinstance(pixels, np.ndarray):
                uploaded = self._cupy.empty(pixels.shape, pixels.dtype)
                uploaded.set(pixels)
                pixels = uploaded
            self._cupy.cuda.Stream.null.synchronize()
        return pixels
