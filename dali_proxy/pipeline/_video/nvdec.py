"""Checks whether NVDEC, the video decoder of NVIDIA GPUs, is available, and which videos it supports."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from dali_proxy.pipeline._cuda.errors import load_cupy, require_device
from dali_proxy.pipeline._video import cuvid
from dali_proxy.pipeline._video.missing import require_av
from dali_proxy.pipeline.errors import DeviceError

_BLOCK = 16  # pixels; the driver's limits are multiples of blocks


@dataclass(frozen=True)
class Encoding:
    """The properties of an encoded video that its decoder needs.

    Attributes:
        codec: FFmpeg's name of the codec.
        pixels: `av.VideoFormat` of the frames on the CPU; None if the container doesn't have it.
        width: width in pixels.
        height: height in pixels.
        details: other decoder parameters from the container; the first one is FFmpeg's "extradata".
        colors: FFmpeg's numbers of the color space and of the range, from the container.
    """

    codec: str
    pixels: Any
    width: int
    height: int
    details: tuple[object, ...] = ()
    colors: tuple[int, int] = (2, 0)

    @property
    def bits(self) -> int:
        """Bits per value; 8 if the container doesn't have it."""
        return self.pixels.components[0].bits if self.pixels is not None else 8

    @property
    def key(self) -> tuple[object, ...]:
        """Key that is equal for videos that can share a codec context."""
        return self.codec, self.pixels and self.pixels.name, self.width, self.height, *self.details


def require_nvdec() -> Any:
    """Return the module `av` after checking that its FFmpeg and the driver can decode on NVIDIA GPUs.

    Raises:
        DeviceError: PyAV is missing, its FFmpeg was built without CUDA, or the driver's library is missing.
    """
    av = require_av()
    from av.codec.hwaccel import hwdevices_available

    if "cuda" not in hwdevices_available():
        raise DeviceError(
            "videos can't be decoded on the GPU: the FFmpeg of this PyAV was built without CUDA; install a wheel of av "
            "from PyPI, which includes it"
        )
    cuvid.load_cuvid()
    return av


def refusal(device_id: int, encoding: Encoding) -> str | None:
    """Return why a GPU can't decode a video, or None if it can.

    This includes videos whose frames our kernel can't convert to pixels.

    Raises:
        DeviceError: the query of the driver failed.
    """
    codec, pixels = encoding.codec, encoding.pixels
    decodes = f"NVDEC of GPU {device_id} doesn't decode"
    if pixels is not None and not is_420(pixels):
        return f"{decodes} {pixels.name}, only 4:2:0"
    if encoding.width % 2 or encoding.height % 2:  # FFmpeg loses rows of chroma when it copies them
        return f"{decodes} {encoding.width}x{encoding.height} pixels correctly, only even sizes"
    bits = encoding.bits
    found = _capabilities(device_id, codec, bits)
    if found is None:
        return f"{decodes} {codec} of {bits} bits"
    width, height = (-(-size // _BLOCK) for size in (encoding.width, encoding.height))
    if (
        not found.min_width <= width * _BLOCK <= -(-found.max_width // _BLOCK) * _BLOCK
        or not found.min_height <= height * _BLOCK <= -(-found.max_height // _BLOCK) * _BLOCK
        or width * height > found.max_blocks
    ):
        return (
            f"{decodes} {codec} of {encoding.width}x{encoding.height} pixels, only {found.min_width}x"
            f"{found.min_height} to {found.max_width}x{found.max_height}"
        )
    return None


def engines(device_id: int, encoding: Encoding) -> int:
    """Return how many decoders a GPU has for a video that it decodes."""
    found = _capabilities(device_id, encoding.codec, encoding.bits)
    return max(1, found.engines) if found is not None else 1  # old drivers don't report it


def acceleration(device_id: int) -> Any:
    """Return the `av.codec.hwaccel.HWAccel` for a GPU, for use within `cuda_current`.

    FFmpeg can share CUDA's primary context only if its flags differ from those of CuPy and PyTorch. It therefore uses
    the current context, which is the primary one.
    """
    from av.codec.hwaccel import HWAccel

    options: dict[str, object] = {"primary_ctx": "0", "current_ctx": "1"}
    return HWAccel("cuda", str(device_id), allow_software_fallback=False, options=options, is_hw_owned=True)


@contextmanager
def cuda_current(device_id: int) -> Iterator[None]:
    """Make the primary context of a GPU current on this thread.

    Raises:
        DeviceError: the GPU doesn't exist.
    """
    require_device(device_id)
    cupy = load_cupy()
    with cupy.cuda.Device(device_id):
        cupy.cuda.runtime.free(0)  # creates the context: a thread that never called CUDA has none
        yield


@cache
def _capabilities(device_id: int, codec: str, bits: int) -> cuvid.Capabilities | None:
    """Return the limits of a GPU for a codec, or None if it isn't supported."""
    if codec not in cuvid.CODECS:
        return None
    capabilities = cuvid.Capabilities(codec=cuvid.CODECS[codec], chroma=cuvid.CHROMA_420, bits_above_8=bits - 8)
    with cuda_current(device_id):
        status = cuvid.load_cuvid().cuvidGetDecoderCaps(ctypes.byref(capabilities))
    if status:
        raise DeviceError(f"NVDEC of GPU {device_id} can't be used: cuvidGetDecoderCaps failed with error {status}")
    return capabilities if capabilities.supported else None


def is_420(pixels: Any) -> bool:
    """Return whether frames have three planes, with chroma for 2 by 2 pixels."""
    planes = pixels.components
    sizes = [(-(-pixels.width // 2), -(-pixels.height // 2))] * 2
    return len(planes) == 3 and not pixels.is_rgb and [(plane.width, plane.height) for plane in planes[1:]] == sizes
