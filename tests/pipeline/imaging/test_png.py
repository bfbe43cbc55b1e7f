"""PNGs that libdeflate inflates have the pixels of OpenCV and pillow; all others are left to them."""

from __future__ import annotations

import io
import struct
import sys
import zlib
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from dali_proxy.pipeline._imaging.decode import decode
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._imaging.png import decode_plain_png
from dali_proxy.pipeline.errors import DecodeError

Pixels = npt.NDArray[np.uint8]

pytestmark = pytest.mark.skipif(compiled is None, reason="the compiled loops aren't built")


def drawn(height: int, width: int, channels: int, smooth: bool) -> Pixels:
    rng = np.random.default_rng(height * width + channels)
    if not smooth:
        return rng.integers(0, 256, (height, width, channels), np.uint8)
    ramp = np.add.outer(np.arange(height) * 3, np.arange(width) * 2)[..., None]
    return (ramp + np.arange(channels) * 17 + rng.integers(0, 3, (height, width, channels))).astype(np.uint8)


def encoded(pixels: Pixels, mode: str | None = None, **options: Any) -> bytes:
    stream = io.BytesIO()
    image = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    (image if mode is None else image.convert(mode)).save(stream, "PNG", **options)
    return stream.getvalue()


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def filtered(pixels: Pixels, number: int) -> bytes:
    """Encode with one filter in all rows."""
    height, width, channels = pixels.shape
    raw = np.zeros((height + 1, (width + 1) * channels), np.int64)
    raw[1:, channels:] = pixels.reshape(height, -1)
    here, left = raw[1:, channels:], raw[1:, :-channels]
    up, corner = raw[:-1, channels:], raw[:-1, :-channels]
    nearest = np.abs(left + up - corner - np.stack([left, up, corner])).argmin(0)
    guess = [0, left, up, (left + up) // 2, np.choose(nearest, [left, up, corner])][number]
    rows = np.hstack([np.full((height, 1), number), (here - guess) % 256]).astype(np.uint8)
    header = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    content = zlib.compress(rows.tobytes())
    parts = [content[:5], content[5:]]
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + b"".join(chunk(b"IDAT", part) for part in parts)
        + chunk(b"IEND", b"")
    )


@pytest.mark.combinations
@pytest.mark.parametrize("number", range(5), ids=["none", "sub", "up", "average", "paeth"])
@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("size", [(1, 1), (5, 1), (1, 7), (33, 47)])
def test_filters_are_restored(number: int, channels: int, size: tuple[int, int]) -> None:
    for smooth in (False, True):
        pixels = drawn(*size, channels, smooth)
        file = filtered(pixels, number)
        found = decode_plain_png(memoryview(file))
        assert found is not None
        np.testing.assert_array_equal(found[0], pixels)
        assert found[1] is None
        np.testing.assert_array_equal(decode(file, output_type="ANY_DATA"), pixels)


@pytest.mark.parametrize("kind", ["RGB", "BGR", "GRAY", "ANY_DATA"])
@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("into", [False, True])
def test_pixels_are_those_of_opencv(kind: str, channels: int, into: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    file = encoded(drawn(20, 31, channels, smooth=True))
    out = np.empty((20, 31, {"GRAY": 1, "ANY_DATA": channels}.get(kind, 3)), np.uint8) if into else None
    found = decode(file, output_type=kind, out=out)
    assert out is None or found is out
    monkeypatch.setattr(sys.modules[decode.__module__], "decode_plain_png", lambda view, out=None: None)
    np.testing.assert_array_equal(found, decode(file, output_type=kind))


@pytest.mark.parametrize("kind", ["RGB", "ANY_DATA"])
def test_palettes_are_looked_up(kind: str) -> None:
    file = encoded(drawn(20, 31, 3, smooth=True), "P")
    assert decode_plain_png(memoryview(file)) is not None
    expected = np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))
    np.testing.assert_array_equal(decode(file, output_type=kind), expected)
    np.testing.assert_array_equal(
        decode(file, output_type=kind, palette_indices=True)[..., 0], np.asarray(Image.open(io.BytesIO(file)))
    )


def test_metadata_is_skipped() -> None:
    pixels = drawn(9, 8, 3, smooth=False)
    found = decode_plain_png(memoryview(encoded(pixels, dpi=(72, 72))))
    assert found is not None
    np.testing.assert_array_equal(found[0], pixels)


def test_rare_forms_are_left_to_others() -> None:
    gray = drawn(16, 16, 1, smooth=True)
    wide = cv2.imencode(".png", gray.astype(np.uint16) * 257)[1].tobytes()
    transparent = encoded(gray, transparency=7)
    bits = encoded(gray, "1")
    pair = encoded(drawn(16, 16, 4, smooth=True), "LA")
    for file in (wide, transparent, bits, pair):
        assert decode_plain_png(memoryview(file)) is None
        assert decode(file).shape == (16, 16, 3)


def test_interlaced_png_is_left_to_others() -> None:
    file = bytearray(encoded(drawn(1, 1, 3, smooth=True)))
    file[28] = 1  # of one pixel, so that the data doesn't differ
    file[29:33] = struct.pack(">I", zlib.crc32(file[12:29]))
    assert decode_plain_png(memoryview(bytes(file))) is None


@pytest.mark.parametrize("part", ["header", "middle", "end", "checksum"])
def test_damaged_png_is_not_decoded(part: str) -> None:
    file = bytearray(encoded(drawn(40, 40, 3, smooth=False)))
    position = {"header": 20, "middle": len(file) // 2, "end": len(file) - 3, "checksum": len(file) - 20}[part]
    file[position] ^= 255
    assert decode_plain_png(memoryview(bytes(file))) is None


def test_truncated_png_is_an_error() -> None:
    file = encoded(drawn(40, 40, 3, smooth=False))
    for length in (len(file) - 1, len(file) // 2, 60):
        assert decode_plain_png(memoryview(file[:length])) is None
    with pytest.raises(DecodeError):
        decode(file[:60])


def test_data_of_another_size_is_left_to_others() -> None:
    file = bytearray(encoded(drawn(10, 10, 3, smooth=False)))
    for height in (9, 11):
        file[20:24] = struct.pack(">I", height)
        file[29:33] = struct.pack(">I", zlib.crc32(file[12:29]))
        assert decode_plain_png(memoryview(bytes(file))) is None


def test_index_outside_the_palette_is_left_to_others() -> None:
    header = struct.pack(">IIBBBBB", 1, 1, 8, 3, 0, 0, 0)
    parts = [
        chunk(b"IHDR", header),
        chunk(b"PLTE", bytes(6)),
        chunk(b"IDAT", zlib.compress(b"\0\2")),
        chunk(b"IEND", b""),
    ]
    assert decode_plain_png(memoryview(b"\x89PNG\r\n\x1a\n" + b"".join(parts))) is None


def test_palette_of_too_many_colors_is_an_error() -> None:
    file = encoded(drawn(20, 31, 3, smooth=True), "P")
    at = file.index(b"PLTE") - 4
    (length,) = struct.unpack_from(">I", file, at)
    too_many = file[:at] + chunk(b"PLTE", bytes(257 * 3)) + file[at + 12 + length :]
    assert decode_plain_png(memoryview(too_many)) is None
    with pytest.raises(DecodeError, match="palette"):
        decode(too_many)


def test_pixels_behind_the_end_are_not_decoded() -> None:
    file = encoded(drawn(20, 31, 3, smooth=True))
    at = file.index(b"IDAT") - 4
    ended = file[:at] + chunk(b"IEND", b"") + file[at:]
    assert decode_plain_png(memoryview(ended)) is None
    with pytest.raises(DecodeError):
        decode(ended)


def test_data_behind_the_end_is_ignored() -> None:
    pixels = drawn(20, 31, 3, smooth=True)
    for rest in (b"rest", bytes(20), chunk(b"ABCD", b"critical")):
        found = decode_plain_png(memoryview(encoded(pixels) + rest))
        assert found is not None
        np.testing.assert_array_equal(found[0], pixels)


def test_unknown_filter_is_left_to_others() -> None:
    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"\5\2")), chunk(b"IEND", b"")]
    assert decode_plain_png(memoryview(b"\x89PNG\r\n\x1a\n" + b"".join(parts))) is None
