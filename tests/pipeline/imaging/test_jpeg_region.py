"""Windows of JPEGs have the same pixels as the whole image."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipeline._imaging import decode, jpeg_region
from pipeline.errors import DecodeError
from tests.pipeline.imaging.images import smooth

pytestmark = pytest.mark.skipif(jpeg_region._load_codec() is None, reason="nvImageCodec isn't installed")

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


def test_window_without_the_package_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = encode()
    expected = decode(encoded, region=WINDOWS[1])
    monkeypatch.setattr(jpeg_region, "_load_codec", lambda: None)
    np.testing.assert_array_equal(decode(encoded, region=WINDOWS[1]), expected)
