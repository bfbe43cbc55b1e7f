"""The compiled loops over bytes return the same bits as NumPy and OpenCV, and refuse unsupported arguments."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from dali_proxy.pipeline._imaging import native, resize
from dali_proxy.pipeline._imaging.byte_map import histograms, look_up
from dali_proxy.pipeline._imaging.color import scale_shift
from dali_proxy.pipeline._imaging.warp import warp_affine

compiled = native.compiled
pytestmark = pytest.mark.skipif(compiled is None, reason="the package was installed without a C compiler")
MODULES = ("byte_map", "color", "resample", "warp")
SHAPES = [(37, 53, 3), (5, 7, 1), (8, 6, 4), (9, 4, 2), (1, 1, 3), (0, 4, 3)]


def sample_image(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(0, 256, shape, np.uint8)


@pytest.fixture
def without() -> Iterator[pytest.MonkeyPatch]:
    """Disable the compiled loops until `undo`."""
    with pytest.MonkeyPatch.context() as patch:
        for module in MODULES:
            patch.setattr(sys.modules[f"dali_proxy.pipeline._imaging.{module}"], "compiled", None)
        yield patch


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_scale_shift_gives_the_same(shape: tuple[int, ...], without: pytest.MonkeyPatch) -> None:
    image = sample_image(*shape)
    gains, offsets = [0.0, 0.5, 1.0, 1.37, -2.0, 1e30, float("nan")], [0.0, 0.5, -12.75, 300.0, -1e30]
    results = {each: scale_shift(image, *each, np.empty_like(image)) for each in itertools.product(gains, offsets)}
    without.undo()
    half = image[:, ::2]
    for each, expected in results.items():
        np.testing.assert_array_equal(scale_shift(image, *each, np.empty_like(image)), expected, err_msg=str(each))
        np.testing.assert_array_equal(scale_shift(half, *each, np.empty_like(half)), expected[:, ::2])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_look_up_and_histograms_give_the_same(shape: tuple[int, int, int], without: pytest.MonkeyPatch) -> None:
    image, tables = sample_image(*shape), sample_image(shape[2], 256)
    expected = look_up(image, tables, np.empty_like(image)), look_up(image, tables[0], np.empty_like(image))
    counts = histograms(image)
    without.undo()
    np.testing.assert_array_equal(look_up(image, tables, np.empty_like(image)), expected[0])
    np.testing.assert_array_equal(look_up(image, tables[0], np.empty_like(image)), expected[1])
    np.testing.assert_array_equal(histograms(image), counts)
    np.testing.assert_array_equal(histograms(image[::-1]), counts)


@pytest.mark.parametrize("shape", SHAPES[:-1], ids=str)
@pytest.mark.parametrize("size", [(24, 31), (1, 1), (3, 100)], ids=str)
def test_nearest_pixels_are_the_same(
    shape: tuple[int, ...], size: tuple[int, int], without: pytest.MonkeyPatch
) -> None:
    image = sample_image(*shape)
    region = (0.3, 0.2, shape[0] - 0.4, shape[1] * 1.3)
    expected = resize(image, size, region=region, interp="nearest")
    without.undo()
    np.testing.assert_array_equal(resize(image, size, region=region, interp="nearest"), expected)


@pytest.mark.parametrize("shape", SHAPES[:-1], ids=str)
@pytest.mark.parametrize("dtype", [np.uint8, np.float64], ids=str)
@pytest.mark.parametrize("fill", [None, 7.0])
def test_nearest_warps_are_the_same(
    shape: tuple[int, ...], dtype: type[np.generic], fill: float | None, without: pytest.MonkeyPatch
) -> None:
    image = sample_image(*shape).astype(dtype)[:, ::-1]
    matrices = [[[0.7, 0.4, -3], [-0.4, 0.8, 9]], [[1, 0, 0], [0, 1, 0]], [[0, 0, np.nan], [0, 0, 1e30]]]
    expected = [warp_affine(image, np.array(each), (20, 300), nearest=True, fill=fill) for each in matrices]
    without.undo()
    for matrix, each in zip(matrices, expected, strict=True):
        np.testing.assert_array_equal(warp_affine(image, np.array(matrix), (20, 300), nearest=True, fill=fill), each)


@pytest.mark.parametrize("fill", [None, 7.0])
def test_nearest_warps_of_one_slice_are_the_same(fill: float | None, without: pytest.MonkeyPatch) -> None:
    volume = sample_image(1, 5, 4, 1)
    matrices = [np.hstack([np.eye(3), [[0.2], [0.1], [shift]]]) for shift in (0.25, 5.25, -3.5)]
    expected = [warp_affine(volume, matrix, (1, 5, 4), nearest=True, fill=fill) for matrix in matrices]
    assert fill is None or (expected[1] == fill).all()
    without.undo()
    for matrix, each in zip(matrices, expected, strict=True):
        np.testing.assert_array_equal(warp_affine(volume, matrix, (1, 5, 4), nearest=True, fill=fill), each)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("map_bytes", (bytes(6), bytearray(5), bytes(256), 0.0, 0.0)),
        ("map_bytes", (bytes(6), bytearray(6), bytes(100), 0.0, 0.0)),
        ("map_bytes", (bytes(7), bytearray(7), bytes(512), 0.0, 0.0)),
        ("map_bytes", (bytes(10), bytearray(10), bytes(5 * 256), 0.0, 0.0)),
        ("count_bytes", (bytes(7), bytearray(2 * 256 * 8))),
        ("count_bytes", (bytes(7), bytearray(8))),
        ("warp_nearest", (np.zeros((1, 2, 2, 3), np.uint8), np.zeros((1, 2, 2, 3), np.uint8), bytes(95), b"")),
        ("warp_nearest", (np.zeros((1, 2, 2, 3), np.uint8), np.zeros((1, 2, 2, 3), np.uint8), bytes(96), bytes(2))),
        ("warp_nearest", (np.zeros((1, 2, 2, 3), np.uint8), np.zeros((1, 2, 2, 2), np.uint8), bytes(96), b"")),
        (
            "take",
            (
                np.zeros((1, 2, 2, 3), np.uint8),
                np.zeros((1, 1, 1, 3), np.uint8),
                bytes(4),
                bytes([2, 0, 0, 0]),
                bytes(4),
            ),
        ),
        ("take", (np.zeros((1, 2, 2, 3), np.uint8), np.zeros((1, 1, 1, 3), np.uint8), bytes(4), bytes(4), b"\xff" * 4)),
        ("take", (np.zeros((1, 2, 2, 3), np.uint8), np.zeros((1, 1, 2, 3), np.uint8), bytes(4), bytes(4), bytes(4))),
        ("take", (np.zeros((1, 2, 2, 3), np.uint8), np.zeros((1, 1, 1, 1), np.uint8), bytes(4), bytes(4), bytes(4))),
        ("take", (np.zeros((2, 2, 3), np.uint8), np.zeros((1, 1, 1, 3), np.uint8), *[bytes(4)] * 3)),
        ("resample_floats", (np.zeros((1, 2, 2, 3), np.int32), np.zeros((1, 1, 1, 3), np.uint8), *[bytes(4)] * 6)),
        (
            "resample_floats",
            (np.zeros((2, 2, 2, 3), np.uint8), np.zeros((1, 1, 1, 3), np.uint8), b"", b"", *[bytes(4)] * 4),
        ),
        ("resample_floats", (np.zeros((1, 2, 2, 3), np.uint8), np.zeros((1, 1, 1, 2), np.uint8), *[bytes(4)] * 6)),
        (
            "resample_floats",
            (
                np.zeros((1, 2, 2, 3), np.uint8),
                np.zeros((1, 1, 1, 3), np.uint8),
                *[bytes(4)] * 4,
                bytes([2, 0, 0, 0]),
                bytes(4),
            ),
        ),
    ],
)
def test_arguments_that_do_not_fit_are_errors(name: str, arguments: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match=r"fit|adjacent"):
        getattr(compiled, name)(*arguments)
