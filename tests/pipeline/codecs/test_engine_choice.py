"""The choice between the JPEG engine and nvImageCodec for each image."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dali_proxy.pipeline._codecs import EncodedBatch, ImageBatchDecoder
from tests.pipeline.codecs.test_headers import Bytes, jpeg


@pytest.fixture
def decoder() -> ImageBatchDecoder:
    """Return a decoder that has an engine; these tests never call it."""
    made = object.__new__(ImageBatchDecoder)
    engine: Any = object()
    made._engine = engine
    return made


def choose(decoder: ImageBatchDecoder, files: list[Bytes], **options: Any) -> list[bool]:
    chosen: list[bool] = decoder._for_engine(
        EncodedBatch.from_arrays(files), options.get("regions"), options.get("use_exif", True)
    ).tolist()
    return chosen


def test_simple_upright_images_are_for_the_engine(decoder: ImageBatchDecoder) -> None:
    files = [jpeg(), jpeg(progressive=True), jpeg(orientation=6), np.zeros(9, np.uint8), jpeg(mode="L")]
    assert choose(decoder, files) == [True, False, False, False, True]
    assert choose(decoder, files, use_exif=False) == [True, False, True, False, True]


def test_windows_that_lie_in_their_images(decoder: ImageBatchDecoder) -> None:
    rows = [[0, 0, 21, 33], [-1] * 4, [0, 0, 22, 33], [0, 0, 21, 34], [3, 3, 3, 4], [3, 4, 4, 4], [0, -1, 3, 3]]
    regions = np.array(rows)
    assert choose(decoder, [jpeg(33, 21)] * 7, regions=regions) == [True, True, *[False] * 5]


def test_sizes_that_the_bytes_cannot_hold(decoder: ImageBatchDecoder) -> None:
    """The decoder would keep memory for such sizes as long as it lives."""
    damaged = jpeg().copy()
    frame = bytes(damaged).index(b"\xff\xc0")
    damaged[frame + 5 : frame + 9] = 0xFF
    assert EncodedBatch.from_arrays([damaged]).headers["width"].tolist() == [65535]
    black = io.BytesIO()  # the smallest possible file for its size
    Image.new("L", (2000, 3000)).save(black, "JPEG", optimize=True)
    assert len(black.getvalue()) < 2000 * 3000 / 250
    assert choose(decoder, [damaged, np.frombuffer(black.getvalue(), np.uint8)]) == [False, True]
