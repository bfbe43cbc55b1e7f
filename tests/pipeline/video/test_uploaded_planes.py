"""Frames that cores decode for a GPU, beside the same frames in the formats of NVDEC."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._video.nvdec import Encoding
from dali_proxy.pipeline._video.uploaded_planes import UploadedPlanes
from dali_proxy.pipeline.errors import DecodeError
from dali_proxy.pipeline.types import DALIImageType
from tests import host_cupy
from tests.pipeline.kernels import emulator

av = pytest.importorskip("av")
pytestmark = pytest.mark.skipif(emulator.COMPILER is None, reason="needs a C++ compiler")


def planes_of(frame: Any) -> list[Any]:
    """Return the planes of a frame that wait for the launch."""
    kernels: Any = SimpleNamespace(device_id=0)
    pixels = UploadedPlanes(DALIImageType.RGB, kernels, Encoding("hevc", frame.format, 64, 48))
    pixels.write(frame, np.empty((frame.height, frame.width, 3), np.uint8))
    ((waiting, _),) = pixels._waiting
    assert (waiting.colorspace, waiting.color_range) == (frame.colorspace, frame.color_range)
    return [each.array.get() for each in waiting.planes]


@pytest.mark.parametrize("form", ["yuv420p", "yuvj420p", "yuv420p10le", "yuv420p12le"])
def test_planes_are_those_of_nvdec(form: str) -> None:
    """NVDEC interleaves chroma, and its values of more than 8 bits begin at the highest bit."""
    rng = np.random.default_rng(1)
    frame = av.VideoFrame(64, 48, form)
    bits = frame.format.components[0].bits
    dtype = np.dtype(np.uint8 if bits == 8 else np.uint16)
    for plane in frame.planes:
        plane.update(rng.integers(0, 1 << bits, plane.buffer_size // dtype.itemsize).astype(dtype).tobytes())
    luma, blue, red = (
        np.frombuffer(memoryview(plane), dtype).reshape(plane.height, -1)[:, : plane.width] for plane in frame.planes
    )
    shift = 0 if bits == 8 else 16 - bits
    with host_cupy.installed():
        made = planes_of(frame)
    np.testing.assert_array_equal(made[0], luma << shift)
    np.testing.assert_array_equal(made[1][:, 0::2], blue << shift)
    np.testing.assert_array_equal(made[1][:, 1::2], red << shift)


@pytest.mark.parametrize("form", ["gray", "yuv422p", "yuv420p10le"])
def test_frame_of_another_format_is_an_error(form: str) -> None:
    kernels: Any = SimpleNamespace(device_id=0)
    frame = av.VideoFrame(64, 48, form)
    with host_cupy.installed():
        pixels = UploadedPlanes(DALIImageType.RGB, kernels, Encoding("h264", av.VideoFormat("yuv420p"), 64, 48))
        with pytest.raises(DecodeError, match=r"aren't 4:2:0|changes"):
            pixels.write(frame, np.empty((48, 64, 3), np.uint8))
