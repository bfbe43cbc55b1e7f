"""Frames of video decoders, converted on the GPU and on the CPU."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._kernels.nv12 import plan_nv12_to_pixels
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline._video.gpu_pixels import planes_of
from dali_proxy.pipeline._video.pixels import Pixels, color_matrix
from pipeline.errors import PipelineError
from pipeline.types import DALIImageType
from tests.clips import Clips, decode_from_start

av = pytest.importorskip("av")


def planes(frame: av.VideoFrame, dtype: str = "uint8") -> tuple[Any, Any]:
    """Return luma and chroma as a decoder on the GPU stores them: rows have a pitch."""
    made = frame.reformat(format={"uint8": "nv12", "uint16": "p016le"}[dtype])
    views = []
    luma, chroma = planes_of([made])
    for samples in (luma, chroma):
        shape, strides = samples.shapes[0].tolist(), samples.strides[0].tolist()
        memory = (ctypes.c_byte * (shape[0] * strides[0])).from_address(int(samples.pointers[0]))
        views.append(np.ndarray(shape, samples.dtype, memory, strides=strides).copy())
    return views[0], views[1]


@pytest.mark.parametrize(
    ("name", "output", "dtype"),
    [
        ("h264.mp4", "RGB", "uint8"),
        ("h264.mp4", "YCbCr", "uint16"),
        ("mjpeg.avi", "BGR", "uint8"),
        ("vp9.webm", "RGB", "uint16"),
        ("vp9.webm", "GRAY", "uint8"),
    ],
)
def test_pixels_are_those_of_the_cpu(runner: Any, name: str, output: str, dtype: str, clips: Clips) -> None:
    frames = decode_from_start(clips.path(name))[4:7]
    kind = DALIImageType[output]
    target = Pixels(kind, "h264" if name == "h264.mp4" else "")
    expected = np.zeros((len(frames), frames[0].height, frames[0].width, target.channels), np.uint8)
    for frame, out in zip(frames, expected, strict=True):
        target.write(frame, out)
    luma, chroma = zip(*(planes(frame, dtype) for frame in frames), strict=True)
    made = [np.zeros(out.shape, np.uint8) for out in expected]
    matrix = color_matrix(kind, frames[0].colorspace, frames[0].color_range)
    runner.nv12_to_pixels(list(luma), list(chroma), made, matrix, name == "h264.mp4")
    difference = np.abs(np.stack(made).astype(int) - expected)
    assert difference.max() <= (2 if dtype == "uint8" else 4)
    assert difference.mean() < 0.5


def test_planes_of_odd_sizes(runner: Any) -> None:
    frame = av.VideoFrame.from_ndarray(np.full((25, 41, 3), (200, 30, 90), np.uint8), "rgb24").reformat(format="nv12")
    luma, chroma = planes(frame)
    assert (luma.shape, chroma.shape) == ((25, 41), (13, 21, 2))
    made = [np.zeros((25, 41, 3), np.uint8)]
    runner.nv12_to_pixels([luma], [chroma], made, color_matrix(DALIImageType.RGB, 2, 1))
    assert np.abs(made[0].astype(int) - (200, 30, 90)).max() <= 3


def test_odd_sizes(runner: Any) -> None:
    rng = np.random.default_rng(1)
    luma, chroma = rng.integers(16, 235, (5, 7), np.uint8), rng.integers(16, 240, (3, 4, 2), np.uint8)
    made = [np.zeros((5, 7, 3), np.uint8)]
    runner.nv12_to_pixels([luma], [chroma], made, color_matrix(DALIImageType.YCbCr, 2, 1))
    np.testing.assert_array_equal(made[0][..., 0], luma)
    padded = np.pad(chroma, ((1, 1), (1, 1), (0, 0)), mode="edge").astype(float)
    for y in range(5):
        for x in range(7):
            near, far = (y // 2 + 1, x // 2 + 1), (y // 2 + 1 + (1 if y % 2 else -1), x // 2 + 1 + (1 if x % 2 else -1))
            upper = 0.75 * padded[near[0], near[1]] + 0.25 * padded[near[0], far[1]]
            lower = 0.75 * padded[far[0], near[1]] + 0.25 * padded[far[0], far[1]]
            assert np.abs(made[0][y, x, 1:] - (0.75 * upper + 0.25 * lower)).max() <= 0.5


def test_shapes_must_fit() -> None:
    luma, chroma, pixels = (
        Samples.from_arrays([np.zeros(shape, np.uint8)]) for shape in ((4, 6), (2, 3, 2), (4, 6, 3))
    )
    matrix = np.eye(3, 4)
    with pytest.raises(PipelineError, match="differ in size"):
        plan_nv12_to_pixels(luma, Samples.from_arrays([np.zeros((1, 3, 2), np.uint8)]), pixels, matrix)
    with pytest.raises(PipelineError, match="need 1 channels"):
        plan_nv12_to_pixels(luma, chroma, pixels, matrix[:1])
    with pytest.raises(PipelineError, match="luma is uint8 and chroma is uint16"):
        plan_nv12_to_pixels(luma, Samples.from_arrays([np.zeros((2, 3, 2), np.uint16)]), pixels, matrix)
