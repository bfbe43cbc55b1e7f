"""The compiled conversion of planes to pixels, compared with the formulas in float64 and with the fallback."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._video import pixels
from dali_proxy.pipeline._video.native import compiled
from dali_proxy.pipeline._video.pixels import Pixels, color_matrix, color_table
from pipeline.types import DALIImageType
from tests.clips import Clips, decode_from_start

needs_compiled = pytest.mark.skipif(compiled is None, reason="the package was installed without a C compiler")

#: Rows and columns: smaller than a block, more than one block, and odd.
SIZES = [(1, 1), (2, 2), (3, 5), (4, 255), (3, 256), (5, 257), (2, 515)]
#: Whether rows are halved, whether columns are halved, and whether chroma lies in the left column.
KINDS = [(True, True, False), (True, True, True), (False, True, False), (False, True, True), (False, False, False)]


def test_module_is_built_where_there_is_a_compiler() -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    assert compiled is not None


def enlarged(chroma: Any, count: int, left: bool) -> Any:
    """Double the columns of chroma, and return the first `count`."""
    padded = np.pad(chroma, ((0, 0), (1, 1)), mode="edge")
    before, here, after = padded[:, :-2], padded[:, 1:-1], padded[:, 2:]
    even, odd = (here, (here + after) / 2) if left else ((3 * here + before) / 4, (3 * here + after) / 4)
    return np.stack([even, odd], -1).reshape(len(chroma), -1)[:, :count]


@needs_compiled
@pytest.mark.parametrize(("rows", "columns", "left"), [*KINDS, (True, False, False)])
@pytest.mark.parametrize("output", ["RGB", "BGR", "GRAY", "YCbCr"])
def test_pixels_are_those_of_the_formulas(output: str, rows: bool, columns: bool, left: bool) -> None:
    rng = np.random.default_rng(1)
    for height, width in SIZES:
        halves = (-(-height // 2) if rows else height), (-(-width // 2) if columns else width)
        planes = [rng.integers(0, 256, (size[0], size[1] + 3), np.uint8) for size in ((height, width), halves, halves)]
        planes[0][:, ::7], planes[1][:, ::5], planes[2][:, ::4] = 255, 255, 0  # the largest possible sums
        luma = planes[0][:, :width].astype(float)
        chroma = [plane[:, :-3].astype(float) for plane in planes[1:]]
        if columns:
            chroma = [enlarged(plane, width, left) for plane in chroma]
        if rows:
            chroma = [enlarged(plane.T, height, False).T for plane in chroma]
        for space, full in ((1, 1), (2, 2), (9, 1), (5, 1)):
            kind = DALIImageType[output]
            matrix = color_matrix(kind, space, full).astype(float)
            expected = np.stack([luma, *chroma, np.ones_like(luma)], -1) @ matrix.T
            made = np.full((height, width, len(matrix)), 77, np.uint8)
            pitches = tuple(plane.shape[1] for plane in planes)
            compiled.convert(*planes, pitches, (rows, columns), left, color_table(kind, space, full), made)
            assert np.abs(made - np.clip(expected, 0, 255)).max() < 0.6


@needs_compiled
def test_planes_must_be_large_enough() -> None:
    table = color_table(DALIImageType.RGB, 1, 1)
    luma, chroma, out = np.zeros((5, 8), np.uint8), np.zeros((3, 4), np.uint8), np.zeros((5, 7, 3), np.uint8)

    def convert(
        planes: Any = (luma, chroma, chroma), pitches: Any = (8, 4, 4), table: Any = table, out: Any = out
    ) -> None:
        compiled.convert(*planes, pitches, (True, True), False, table, out)

    convert()
    convert((luma.reshape(-1)[:-1], chroma, chroma))  # the last row needs no padding
    for planes in (
        (luma.reshape(-1)[:-2], chroma, chroma),
        (luma, chroma[:2], chroma),
        (luma, chroma, chroma.reshape(-1)[:-1]),
        (luma[:0], chroma, chroma),
    ):
        with pytest.raises(ValueError, match="a plane is smaller"):
            convert(planes)
    for pitches in ((9, 4, 4), (6, 4, 4), (8, 3, 4), (8, 4, 5), (-8, 4, 4), (0, 4, 4), (2**62, 4, 4)):
        with pytest.raises(ValueError, match="a plane is smaller"):
            convert(pitches=pitches)
    for wrong in (out[..., :2], out[..., 0], out[:, ::2], out.astype(np.int16)):
        with pytest.raises((ValueError, BufferError)):
            convert(out=wrong)
    with pytest.raises(ValueError, match="as many colors"):
        convert(table=table[:2])
    convert(out=np.zeros((0, 7, 3), np.uint8))


@needs_compiled
@pytest.mark.parametrize(("name", "most"), [("h264.mp4", 2), ("vp9.webm", 2), ("mjpeg.avi", 2), ("odd.webm", 20)])
def test_pixels_are_the_same_without_the_module(
    name: str, most: int, clips: Clips, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Test codecs whose chroma lies between columns, and in the left one; FFmpeg knows where, we know the codecs.

    For odd sizes swscale stretches chroma a little, because half of 63 columns are 32.
    """
    codec = {"h264.mp4": "h264", "mjpeg.avi": "mjpeg"}.get(name, "vp9")
    frame = decode_from_start(clips.path(name))[7]
    for output in ("RGB", "BGR", "GRAY", "YCbCr"):
        made = []
        for module in (compiled, None):
            monkeypatch.setattr(pixels, "compiled", module)
            target = Pixels(DALIImageType[output], codec)
            made.append(np.zeros((frame.height, frame.width, target.channels), np.uint8))
            target.write(frame, made[-1])
        difference = np.abs(made[0].astype(int) - made[1])
        assert difference.max() <= most
        assert difference.mean() < (0.5 if most == 2 else 1.5)
