"""Colours of frames, compared with the formulas in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._imaging import convert_color
from dali_proxy.pipeline._video.clip import Clip
from dali_proxy.pipeline._video.frames import Decoders, read_frames
from dali_proxy.pipeline._video.pixels import Pixels
from pipeline.errors import DecodeError
from pipeline.types import DALIImageType
from tests.clips import Clips, Kind, encode

av = pytest.importorskip("av")

#: Weights of red and blue, by the number of the colour space.
WEIGHTS = {1: (0.2126, 0.0722), 2: (0.299, 0.114), 5: (0.299, 0.114), 9: (0.2627, 0.0593)}


def rgb_of(planes: Any, weights: tuple[float, float], full: bool) -> Any:
    """Convert planes to RGB by ITU-T H.273, 8.3."""
    y, u, v = np.asarray(planes, np.float64)
    black, luma, chroma = (0, 255, 255) if full else (16, 219, 224)
    y, u, v = (y - black) / luma, (u - 128) / chroma, (v - 128) / chroma
    red, blue = weights
    r, b = y + 2 * (1 - red) * v, y + 2 * (1 - blue) * u
    return np.clip(np.stack([r, (y - red * r - blue * b) / (1 - red - blue), b], -1) * 255, 0, 255)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("space", WEIGHTS)
def test_color_spaces_and_ranges(space: int, full: bool, tmp_path: Path) -> None:
    path = tmp_path / "clip.mkv"
    encode(path, Kind("libx264", "qp=0:keyint=1", pixels="yuv444p"), 2, color=(space, 2 if full else 1))
    with av.open(str(path)) as file:
        frames = list(file.decode(video=0))
    assert [(frame.colorspace, frame.color_range) for frame in frames] == [(space, 2 if full else 1)] * 2
    made = read_frames(Clip(str(path)), [0, 1], Pixels(DALIImageType.RGB), Decoders(0))
    for frame, got in zip(frames, made, strict=True):
        assert np.abs(got - rgb_of(frame.to_ndarray(), WEIGHTS[space], full)).max() < 1.5


@pytest.mark.parametrize("output", ["BGR", "GRAY", "YCbCr"])
def test_other_colors(output: str, clips: Clips) -> None:
    clip = Clip(str(clips.path("h264.mp4")))
    rgb, made = (read_frames(clip, [7], Pixels(DALIImageType[name]), Decoders(0))[0] for name in ("RGB", output))
    if output == "YCbCr":
        rgb, made = rgb, convert_color(made, "YCbCr", "RGB")
    else:
        rgb = convert_color(rgb, "RGB", output)
    assert rgb.shape == made.shape
    assert np.mean(np.abs(rgb.astype(int) - made)) < 1.5


@pytest.mark.parametrize("pixels", ["rgb24", "gray", "yuv420p10le", "yuv422p"])
def test_other_kinds_of_frames(pixels: str, tmp_path: Path) -> None:
    path = tmp_path / "clip.mkv"
    codec = "libx264rgb" if pixels == "rgb24" else "libx264"
    encode(path, Kind(codec, "qp=0:keyint=1", pixels=pixels), 1)
    with av.open(str(path)) as file:
        (frame,) = file.decode(video=0)
    made = read_frames(Clip(str(path)), [0], Pixels(DALIImageType.RGB), Decoders(0))[0]
    expected = frame.to_ndarray(format="rgb24").astype(int)
    assert np.mean(np.abs(made - expected)) < (0.01 if pixels == "rgb24" else 2)


def test_frames_of_one_color(clips: Clips) -> None:
    clip, target = Clip(str(clips.path("mjpeg.avi"))), Pixels(DALIImageType.RGB)
    made = read_frames(clip, [-1, 5, -1, 5], target, Decoders(0), (10, 20, 30))
    assert (made[[0, 2]] == (10, 20, 30)).all()
    np.testing.assert_array_equal(made[1], made[3])
    assert (read_frames(clip, [-1], target, Decoders(0), (9,)) == 9).all()


def test_frames_that_change_their_size(tmp_path: Path) -> None:
    parts = []
    for number, size in enumerate([(48, 64), (64, 48)]):
        path = tmp_path / f"{number}.ts"
        encode(path, Kind("libx264", "keyint=4"), 4, size)
        parts.append(path.read_bytes())
    joined = Clip(np.frombuffer(b"".join(parts), np.uint8))
    with pytest.raises(DecodeError, match="its frames change size, from 48x64 to 64x48"):
        read_frames(joined, range(len(joined.index)), Pixels(DALIImageType.RGB), Decoders(0))
