"""Chooses the device that converts the frames of a video to pixels."""

from __future__ import annotations

from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._video.clip import Clip
from dali_proxy.pipeline._video.frames import Target
from dali_proxy.pipeline._video.gpu_pixels import GpuPixels
from dali_proxy.pipeline._video.pixels import Pixels
from dali_proxy.pipeline._video.uploaded_pixels import UploadedPixels
from dali_proxy.pipeline.types import DALIImageType


def target_for(clip: Clip, output: DALIImageType, kernels: KernelContext | None) -> Target:
    """Return the converter of a clip's frames to pixels on the requested device."""
    if clip.device_id is None:
        return Pixels(output, clip.encoding.codec)
    assert kernels is not None  # the executor opens the GPU before it creates operators for it
    converter = UploadedPixels if clip.decoded_by is None else GpuPixels
    return converter(output, kernels, clip.encoding)
