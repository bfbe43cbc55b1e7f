"""Windows of JPEGs have the same pixels as the whole image."""

from __future__ import annotations

import io
import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dali_proxy.pipeline._imaging import decode, jpeg_region
from dali_proxy.pipeline._imaging.native import compiled
from pipeline.errors import DecodeError
from tests.pipeline.imaging.images import smooth

pytestmark = pytest.mark.skipif(not jpeg_region._is_loaded(), reason="nvImageCodec isn't installed")

WINDOWS = [(0, 0, 8, 8), (37, 51, 40, 60), (60, 100, 40, 49), (3, 141, 90, 8), (0, 0, 100, 149)]


def encode(**options: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(smooth(100, 149)).save(file, "JPEG", **options)
    return file.getvalue()


@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_blocks": 3}])
def test_window_equals_that_of_the_whole_image(subsampling: int, options: dict[str, Any]) -> None:
    encoded = encode(subsampling=subsampling, **options)
    whole = decode(encoded)
    for window in WINDOWS:
        y, x, height, width = window
        pixels = jpeg_region.decode_region(memoryview(encoded), window)
        assert pixels is not None
        np.testing.assert_array_equal(pixels, whole[y : y + height, x : x + width])
        np.testing.assert_array_equal(decode(encoded, region=window), pixels)


def test_tiny_window_is_left_to_the_other_decoder() -> None:
    encoded = encode()
    assert jpeg_region.decode_region(memoryview(encoded), (0, 0, 50, 1)) is None
    np.testing.assert_array_equal(decode(encoded, region=(0, 0, 50, 1)), decode(encoded)[:50, :1])


def test_truncated_image_is_an_error_wherever_the_window_is() -> None:
    encoded = encode()
    with pytest.raises(DecodeError, match="truncated"):
        decode(encoded[: len(encoded) // 2], region=(0, 0, 8, 8))


def decode_all(files: list[Any], window: tuple[int, ...]) -> tuple[Any, list[Any]]:
    """Decode a window of each file. Return which were decoded, and the pixels."""
    found = [np.zeros((*window[2:], 3), np.uint8) for _ in files]
    columns = [np.array([each.ctypes.data for each in arrays]) for arrays in (files, found)]
    lengths = np.array([file.nbytes for file in files])
    return jpeg_region.decode_regions(columns[0], lengths, np.array([window] * len(files)), columns[1]), found


def test_threads_decode_many_images_at_once() -> None:
    files = [np.frombuffer(encode(quality=quality), np.uint8) for quality in range(50, 90)]
    files[7] = np.frombuffer(b"\xff\xd8 damaged \xff\xd9", np.uint8)
    expected = [None if number == 7 else decode(file)[5:65, 20:100] for number, file in enumerate(files)]
    with ThreadPoolExecutor(8) as pool:
        for decoded, pixels in pool.map(lambda _: decode_all(files, (5, 20, 60, 80)), range(40)):
            assert decoded.tolist() == [number != 7 for number in range(40)]
            for one, other in zip(pixels, expected, strict=True):
                assert other is None or (one == other).all()


def test_forked_child_decodes() -> None:
    file = np.frombuffer(encode(), np.uint8)
    window = (0, 0, 100, 149)
    _, (expected,) = decode_all([file], window)
    with multiprocessing.get_context("fork").Pool(1) as children:
        decoded, (pixels,) = children.apply_async(decode_all, ([file], window)).get(60)
    assert decoded.all()
    np.testing.assert_array_equal(pixels, expected)


def test_columns_of_different_lengths_are_refused() -> None:
    column = np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="don't fit each other"):
        compiled.decode_jpeg_windows(column, column, column, column, np.zeros(2, np.uint8))


def test_window_without_the_package_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = encode()
    expected = decode(encoded, region=WINDOWS[1])
    monkeypatch.setattr(jpeg_region, "_is_loaded", lambda: False)
    np.testing.assert_array_equal(decode(encoded, region=WINDOWS[1]), expected)
