"""Chooses where frames of a video become pixels."""

from __future__ import annotations

from pipeline._kernels import KernelContext
from pipeline._video.clip import Clip
from pipeline._video.frames import Target
from pipeline._video.gpu_pixels import GpuPixels
from pipeline._video.pixels import Pixels
from pipeline._video.uploaded_pixels import UploadedPixels
from pipeline.types import DALIImageType

__all__ = ["target_for"]


def target_for(clip: Clip, output: DALIImageType, kernels: KernelContext | None) -> Target:
    """Return what makes pixels of the frames of a clip, on the device that they are wanted on.

    Args:
        clip: the video.
        output: the colours.
        kernels: of its GPU, where it has one.
    """
    if clip.device_id is None:
        return Pixels(output, clip.encoding.codec)
    assert kernels is not None  # the executor opened the GPU before it made operators for it
    made = UploadedPixels if clip.decoded_by is None else GpuPixels
    return made(output, kernels, clip.encoding)
