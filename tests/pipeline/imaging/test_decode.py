from __future__ import annotations

import io
import os
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import simplejpeg
from PIL import EpsImagePlugin, Image

from dali_proxy.pipeline._codecs.encoded import read_headers
from dali_proxy.pipeline._imaging.decode import OUTPUT_TYPES, decode
from dali_proxy.pipeline._imaging.formats import FORMATS, peek
from dali_proxy.pipeline._imaging.info import MOST_SCANS
from pipeline import Pipeline, fn
from pipeline.errors import ArgumentValueError, DecodeError, PipelineError
from pipeline.types import DALIImageType
from tests.pipeline.imaging import formats, oracle
from tests.pipeline.imaging.images import encodings, pillow, smooth, with_orientation

dali_types = pytest.importorskip("nvidia.dali.types")

ENCODED = encodings()
JPEG = pillow(smooth(100, 120), "JPEG", quality=90)

# Gray computed from rounded colours.
MAY_DIFFER_BY_1 = {(name, "GRAY") for name in ("jpeg cmyk", "jpeg ycck", "tiff jpeg", "tiff planes", "tiff 16 turned")}
# DALI 2.4 ends the process for a gray JPEG as ANY_DATA.
DALI_FAILS = {
    *((name, "ANY_DATA") for name in ("jpeg gray", "jpeg cmyk", "jpeg cmyk, not adobe", "jpeg ycck")),
    *((name, "ANY_DATA") for name in ("png gray alpha", "bmp 32 bits")),
    *(("jpeg lossless gray", kind) for kind in ("RGB", "BGR", "YCbCr")),
    ("jpeg lossless", "GRAY"),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", sorted({*ENCODED} - {"ppm of 100", "pgm text"}))  # DALI ignores the maximum of a PNM
def test_decoding_equals_dali(name: str) -> None:
    for output_type in OUTPUT_TYPES:
        if (name, output_type) in DALI_FAILS:
            continue
        expected = oracle.decode(ENCODED[name], output_type=getattr(dali_types, output_type))
        found = decode(np.frombuffer(ENCODED[name], np.uint8), output_type=output_type)
        assert found.dtype == np.uint8
        assert found.shape == expected.shape, output_type
        difference = np.abs(found.astype(int) - expected).max()
        assert difference <= ((name, output_type) in MAY_DIFFER_BY_1), output_type


@pytest.mark.combinations
@pytest.mark.parity
@pytest.mark.parametrize("output_type", ["RGB", "BGR", "GRAY", "YCbCr"])
@pytest.mark.parametrize(
    "name",
    [
        *("jpeg 420", "png rgb", "png 16 rgb", "png 16 gray", "png 16 rgba", "ppm 16", "bmp rgb", "tiff 16 rgb"),
        *("tiff big-endian 16", "tiff tiles deflate 16 rgba", "tiff palette", "tiff float rgb", "tiff 16 turned"),
        "jpeg2000 16 gray",
    ],
)
def test_other_dtypes_keep_the_values_of_the_file(name: str, output_type: str) -> None:
    rounded = ("YCbCr",) if "tiff" not in name else ("YCbCr", "GRAY")
    for dtype in (np.uint16, np.int16, np.float32):
        wanted = getattr(dali_types, {"uint16": "UINT16", "int16": "INT16", "float32": "FLOAT"}[np.dtype(dtype).name])
        expected = oracle.decode(ENCODED[name], output_type=getattr(dali_types, output_type), dtype=wanted)
        found = decode(ENCODED[name], output_type=output_type, dtype=dtype)
        assert found.dtype == dtype
        atol = 4e-5 if dtype == np.float32 else 2 if output_type in rounded else 0
        np.testing.assert_allclose(found.astype(np.float64), expected, rtol=0, atol=atol)


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_equals_dali(kind: str, orientation: int) -> None:
    encoded = with_orientation(smooth(), kind, orientation)
    for adjust in (True, False):
        expected = oracle.decode(encoded, adjust_orientation=adjust)
        np.testing.assert_array_equal(decode(encoded, adjust_orientation=adjust), expected)
    info = peek(encoded)
    assert info.orientation == orientation
    assert (info.height, info.width) == (30, 40)
    assert info.shape == decode(encoded).shape


@pytest.mark.parity
@pytest.mark.parametrize("output_type", ["RGB", "GRAY"])
def test_files_of_dali_extra_equal_dali(output_type: str, dali_extra: Path | None) -> None:
    if dali_extra is None:
        pytest.skip("needs DALI_extra")
    suffixes = {suffix for each in FORMATS if each.listed for suffix in each.extensions}
    files = sorted(path for path in (dali_extra / "db" / "single").rglob("*") if path.suffix in suffixes)
    assert files
    for path in files[::4]:
        encoded = path.read_bytes()
        expected = oracle.decode(encoded, output_type=getattr(dali_types, output_type))
        found = decode(encoded, output_type=output_type)
        assert np.abs(found.astype(int) - expected).max(initial=0) <= 1, path


@pytest.mark.parity
def test_fast_idct_is_that_of_dali() -> None:
    exact, fast = decode(JPEG), decode(JPEG, fast_idct=True)
    np.testing.assert_array_equal(fast, oracle.decode(JPEG, use_fast_idct=True))
    assert (exact != fast).any()
    turned = with_orientation(smooth(), "JPEG", 6)
    for adjust in (True, False):
        expected = oracle.decode(turned, use_fast_idct=True, adjust_orientation=adjust)
        np.testing.assert_array_equal(decode(turned, fast_idct=True, adjust_orientation=adjust), expected)


@pytest.mark.parametrize("name", ENCODED)
def test_peek_agrees_with_decode(name: str) -> None:
    info = peek(ENCODED[name])
    pixels = decode(ENCODED[name], output_type="ANY_DATA")
    assert info.shape == pixels.shape
    assert info.format == {"jpeg 2000": "jpeg2000", "pgm text": "ppm", "pbm": "ppm"}.get(name, name.split()[0])


def test_gray_of_a_lossless_jpeg_is_converted() -> None:
    gray = decode(ENCODED["jpeg lossless gray"], output_type="GRAY")
    np.testing.assert_array_equal(gray, smooth()[:, :, :1])
    np.testing.assert_array_equal(decode(ENCODED["jpeg lossless gray"]), np.repeat(gray, 3, axis=2))
    np.testing.assert_array_equal(decode(ENCODED["jpeg lossless"]), smooth())


BANDS = {
    "separate": {"photometric": "rgb", "planarconfig": "separate", "extrasamples": ["unspecified"]},
    "infrared": {"photometric": "rgb", "extrasamples": ["unspecified"]},
    "bands": {"photometric": "minisblack", "planarconfig": "contig", "extrasamples": [0] * 3},
}


@pytest.mark.combinations
@pytest.mark.parametrize("name", BANDS)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rowsperstrip": 7},
        {"tile": (16, 16)},
        {"compression": "zlib"},
        {"compression": "zlib", "predictor": 2},
        {"compression": "zlib", "predictor": 2, "tile": (16, 32)},
        {"byteorder": ">", "compression": "zlib", "predictor": 2, "rowsperstrip": 7},
        {"bigtiff": True, "rowsperstrip": 7},
    ],
    ids=str,
)
def test_bands_of_a_tiff_are_those_that_were_stored(name: str, dtype: type[Any], options: dict[str, Any]) -> None:
    if dtype == np.float32 and "predictor" in options:
        pytest.skip("tifffile doesn't write differences of floats")
    top = 1 if dtype == np.float32 else np.iinfo(dtype).max
    bands = (np.random.default_rng(0).random((37, 41, 4)) * top).astype(dtype)
    stored = np.moveaxis(bands, -1, 0) if name == "separate" else bands
    encoded = formats.tiff(np.ascontiguousarray(stored), **BANDS[name], **options)
    assert peek(encoded).shape == bands.shape
    np.testing.assert_array_equal(decode(encoded, output_type="ANY_DATA", dtype=dtype), bands)
    np.testing.assert_array_equal(decode(encoded, dtype=dtype), bands[..., :3])
    np.testing.assert_array_equal(decode(encoded, dtype=dtype, output_type="BGR"), bands[..., 2::-1])
    assert decode(encoded, output_type="GRAY").shape == (37, 41, 1)
    with pytest.raises(DecodeError):
        decode(encoded[: len(encoded) // 2])


@pytest.mark.parity
@pytest.mark.parametrize("count", [3, 4, 5])
@pytest.mark.parametrize("dtype", ["UINT8", "UINT16"])
def test_bands_of_a_tiff_are_those_of_dali(count: int, dtype: str) -> None:
    kind = np.dtype(dtype.lower())
    bands = np.random.default_rng(0).integers(0, np.iinfo(kind).max, (9, 11, count)).astype(kind)
    options = {"photometric": "minisblack", "planarconfig": "contig", "extrasamples": [0] * (count - 1)}
    encoded = formats.tiff(bands, **options)
    for output_type in ("RGB", "ANY_DATA", "GRAY"):
        arguments = {"output_type": getattr(dali_types, output_type), "dtype": getattr(dali_types, dtype)}
        found, expected = decode(encoded, output_type=output_type, dtype=kind), oracle.decode(encoded, **arguments)
        assert np.abs(found.astype(int) - expected).max() <= (output_type == "GRAY")


def test_first_of_two_bands_is_gray() -> None:
    bands = np.random.default_rng(0).integers(0, 65535, (9, 11, 2)).astype(np.uint16)
    encoded = formats.tiff(bands, photometric="minisblack", planarconfig="contig", extrasamples=[0])
    np.testing.assert_array_equal(decode(encoded, output_type="ANY_DATA", dtype=np.uint16), bands)
    np.testing.assert_array_equal(decode(encoded, output_type="GRAY", dtype=np.uint16), bands[..., :1])
    np.testing.assert_array_equal(decode(encoded, dtype=np.uint16), np.repeat(bands[..., :1], 3, axis=2))


def test_bands_in_an_unsupported_form_are_refused() -> None:
    bands = np.zeros((8, 8, 4), np.float64)
    encoded = formats.tiff(bands, photometric="minisblack", planarconfig="contig", extrasamples=[0] * 3)
    with pytest.raises(DecodeError, match="the TIFF has 4 bands of 64 bits in an unsupported form"):
        decode(encoded)


def test_tiff_of_32_bits_keeps_the_upper_16() -> None:
    gray = smooth(highest=65535)[:, :, 0]
    encoded = formats.tiff(gray.astype(np.uint32) << 16 | 7)
    np.testing.assert_array_equal(decode(encoded, output_type="GRAY", dtype=np.uint16)[:, :, 0], gray)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32])
@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 3)])
def test_signed_tiff_is_refused(dtype: type[np.signedinteger[Any]], shape: tuple[int, ...]) -> None:
    with pytest.raises(DecodeError, match="signed samples"):
        decode(formats.tiff(np.full(shape, -1, dtype)))


def test_five_channels() -> None:
    five = formats.tiff(smooth(channels=5), photometric="rgb", extrasamples=["unspecified"] * 2)
    np.testing.assert_array_equal(decode(five), smooth(channels=5)[:, :, :3])
    np.testing.assert_array_equal(decode(five, output_type="ANY_DATA"), smooth(channels=5))


def test_tiff_above_the_limit_of_pillow_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)  # pillow refuses twice as many
    with pytest.raises(DecodeError, match="exceeds limit"):
        decode(ENCODED["tiff rgb"])


def test_gif_gives_its_first_frame() -> None:
    frames = [Image.fromarray(smooth(seed=seed)).quantize(32) for seed in (1, 2)]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:])
    np.testing.assert_array_equal(decode(buffer.getvalue()), np.asarray(frames[0].convert("RGB")))


@pytest.mark.parametrize("kind", ["JPEG", "progressive", "PNG", "BMP", "WEBP", "TIFF", "PPM", "JPEG2000", "GIF"])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.95])
def test_truncated_images_are_refused(kind: str, share: float) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (64, 80, 3), dtype=np.uint8)
    options = {"format": "JPEG", "progressive": True} if kind == "progressive" else {"format": kind}
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, **options)
    encoded = buffer.getvalue()
    with pytest.raises(DecodeError):
        decode(encoded[: int(len(encoded) * share)])


@pytest.mark.parametrize("missing", [3, 4, 20, 500])
@pytest.mark.parametrize("options", [{}, {"restart_marker_rows": 1}])
def test_jpeg_without_its_last_bytes_is_truncated(missing: int, options: dict[str, Any]) -> None:
    encoded = pillow(smooth(100, 120), "JPEG", quality=90, **options)
    for end in (b"", bytes(missing)):
        if missing > 4 or not end:  # the last bytes of a scan may be zeros
            with pytest.raises(DecodeError, match="truncated"):
                decode(encoded[:-missing] + end)


@pytest.mark.parametrize("end", [b"", b"\xff", b"\0\0", b"\xff\0"])
@pytest.mark.parametrize("options", [{}, {"subsampling": 0}, {"restart_marker_rows": 1}])
def test_jpeg_that_lacks_only_its_end_marker_is_decoded(end: bytes, options: dict[str, Any]) -> None:
    whole = pillow(smooth(100, 120), "JPEG", quality=90, **options)
    encoded = whole[:-2] + end
    for kind in ("RGB", "GRAY", "BGR"):
        np.testing.assert_array_equal(decode(encoded, output_type=kind), decode(whole, output_type=kind))
    np.testing.assert_array_equal(decode(encoded, region=(10, 20, 30, 40)), decode(whole)[10:40, 20:60])


def test_progressive_jpeg_without_its_end_marker_is_truncated() -> None:
    """Scans may be missing, too: then the image has all rows, but is blurred."""
    with pytest.raises(DecodeError, match="truncated"):
        decode(pillow(smooth(100, 120), "JPEG", progressive=True)[:-2])


def with_scans(count: int) -> bytes:
    """Return a progressive JPEG whose last scan is repeated."""
    encoded = pillow(smooth(100, 120), "JPEG", progressive=True)
    last = encoded.rindex(b"\xff\xda")
    return encoded[:last] + encoded[last:-2] * (count - encoded.count(b"\xff\xda") + 1) + b"\xff\xd9"


def test_jpeg_with_too_many_scans_is_refused() -> None:
    decode(with_scans(MOST_SCANS))
    for options in ({}, {"region": (0, 0, 40, 40)}, {"output_type": "GRAY"}):
        with pytest.raises(DecodeError, match="more than 200 scans"):
            decode(with_scans(MOST_SCANS + 1), **options)
    pipe = Pipeline(batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=1)
    with pipe:
        data = [np.frombuffer(with_scans(MOST_SCANS + 1), np.uint8)]
        pipe.set_outputs(fn.decoders.image(fn.external_source(source=lambda: data)))
    with pytest.raises(PipelineError, match="more than 200 scans"):
        pipe.run()
    pipe.close()


def test_jpeg_with_a_warning_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = bytearray(JPEG)
    middle = JPEG.index(b"\xff\xda") + 500
    damaged[middle : middle + 8] = b"\xaa\xff\xd0\xaa" * 2  # restart markers where none may be
    calls = []
    inner = simplejpeg.decode_jpeg
    monkeypatch.setattr(simplejpeg, "decode_jpeg", lambda *given, **named: calls.append(1) or inner(*given, **named))
    found = decode(bytes(damaged))
    assert calls == [1]
    np.testing.assert_array_equal(found, inner(bytes(damaged), "RGB", strict=False))
    assert (found != decode(JPEG)).any()


def png(*chunks: tuple[bytes, bytes, bool], color: int = 2) -> bytes:
    """Return a PNG of 3 x 4 pixels with further chunks: name, body, and whether the checksum is right."""

    def chunk(name: bytes, body: bytes, right: bool = True) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body) ^ (not right))

    channels = {2: 3, 3: 1}[color]
    rows = b"".join(b"\0" + bytes(range(4 * channels * row, 4 * channels * (row + 1))) for row in range(3))
    header = struct.pack(">IIBBBBB", 4, 3, 8, color, 0, 0, 0)
    palette = [chunk(b"PLTE", bytes(range(36)))] if color == 3 else []
    parts = [chunk(b"IHDR", header), *palette, *(chunk(*each) for each in chunks)]
    return b"\x89PNG\r\n\x1a\n" + b"".join([*parts, chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")])


LARGE = zlib.compress(bytes(2 << 20))
UNNEEDED_CHUNKS = {
    "compressed text": (b"zTXt", b"workflow\0\0" + LARGE, True),
    "international text": (b"iTXt", b"workflow\0\1\0\0\0" + LARGE, True),
    "color profile": (b"iCCP", b"profile\0\0" + LARGE, True),
    "wrong checksum": (b"pHYs", struct.pack(">IIB", 2835, 2835, 1), False),
    "empty sRGB": (b"sRGB", b"", True),
    "short gAMA": (b"gAMA", b"\0", True),
    "short cHRM": (b"cHRM", b"\0", True),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", UNNEEDED_CHUNKS)
def test_png_is_decoded_whatever_the_chunks_contain_that_are_not_needed(name: str) -> None:
    encoded, plain = png(UNNEEDED_CHUNKS[name]), png()
    assert peek(encoded) == peek(plain)
    for kind in ("RGB", "GRAY", "ANY_DATA"):
        np.testing.assert_array_equal(decode(encoded, output_type=kind), decode(plain, output_type=kind))
    np.testing.assert_array_equal(decode(encoded), oracle.decode(encoded))
    indices = decode(png(UNNEEDED_CHUNKS[name], color=3), palette_indices=True)
    np.testing.assert_array_equal(indices.ravel(), range(12))


def exif_jpeg(kind: int, count: int, value: bytes, order: str = "<") -> bytes:
    """Return a JPEG of 40 x 30 pixels with an entry for the orientation."""
    start = b"II*\0" if order == "<" else b"MM\0*"
    body = b"Exif\0\0" + start + struct.pack(order + "IHHHI", 8, 1, 0x112, kind, count) + value + bytes(12)
    encoded = pillow(smooth(), "JPEG")
    return encoded[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + encoded[2:]


@pytest.mark.parity
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("kind", "letter"), [(3, "HH"), (4, "I"), (1, "BBBB"), (8, "hh"), (9, "i"), (16, "I")])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_orientation_has_one_meaning_for_each_type(order: str, kind: int, letter: str, count: int) -> None:
    """DALI reads the first two bytes, whatever the type is."""
    encoded = exif_jpeg(kind, count, struct.pack(order + letter, 6, *[0] * (len(letter) - 1)), order)
    turns = kind in (3, 4, 8, 9)
    expected = np.rot90(decode(pillow(smooth(), "JPEG")), -1 if turns else 0)
    assert peek(encoded).shape == expected.shape
    if turns and (order == "<" or kind in (3, 8)):
        np.testing.assert_array_equal(oracle.decode(encoded), expected)
    for options in ({}, {"output_type": "GRAY"}, {"output_type": "ANY_DATA"}, {"dtype": np.float32}):
        assert decode(encoded, **options).shape[:2] == expected.shape[:2]
    data = np.frombuffer(encoded, np.uint8)
    (header,) = read_headers(np.array([data.ctypes.data]), np.array([data.size]))
    assert header["orientation"] == peek(encoded).orientation
    assert np.array_equal(decode(encoded), expected)


@pytest.mark.parametrize("kind", [1, 3, 4, 6, 8, 9])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_orientation_of_a_tiff_of_any_type(kind: int, dtype: type[Any]) -> None:
    image = smooth(highest=np.iinfo(dtype).max)
    encoded = bytearray(formats.tiff(image, extratags=[(274, 3, 1, 6, True)]))
    entry = encoded.index(struct.pack("<HHI", 274, 3, 1))
    encoded[entry + 2 : entry + 4] = struct.pack("<H", kind)
    upright = decode(bytes(encoded), adjust_orientation=False, dtype=dtype)
    np.testing.assert_array_equal(upright, image)
    np.testing.assert_array_equal(decode(bytes(encoded), dtype=dtype), np.rot90(image, -1))
    assert peek(bytes(encoded)).shape == (40, 30, 3)


def test_float_map_has_the_channels_of_the_output_type() -> None:
    gray = b"Pf\n4 3\n-1.0\n" + np.linspace(0, 1, 12, dtype="<f4").tobytes()
    colored = b"PF\n4 3\n-1.0\n" + np.linspace(0, 1, 36, dtype="<f4").tobytes()
    for encoded, channels in ((gray, 1), (colored, 3)):
        assert peek(encoded).shape == (3, 4, channels)
        for kind, expected in (("RGB", 3), ("BGR", 3), ("YCbCr", 3), ("GRAY", 1), ("ANY_DATA", channels)):
            assert decode(encoded, output_type=kind).shape == (3, 4, expected)
        assert decode(encoded, region=(0, 0, 2, 2)).shape == (2, 2, 3)


@pytest.mark.parametrize("maximum", [1, 15, 100, 254, 255, 256, 1023, 4095, 65535])
@pytest.mark.parametrize("kind", ["P2", "P3", "P5", "P6"])
def test_white_of_a_pnm_is_its_maximum(maximum: int, kind: str) -> None:
    """As in the specification and in pillow; OpenCV and DALI ignore the maximum."""
    colors = 3 if kind in ("P3", "P6") else 1
    values = np.array([maximum, 0, maximum // 2, maximum] * colors)
    text = " ".join(map(str, values)).encode()
    pixels = text if kind in ("P2", "P3") else values.astype(">u2" if maximum > 255 else "u1").tobytes()
    encoded = b"%s\n# a comment\n2 2 # another\n%d\n" % (kind.encode(), maximum) + pixels
    for dtype, white in ((np.uint8, 255), (np.uint16, 65535), (np.float32, 1)):
        found = decode(encoded, output_type="RGB" if colors == 3 else "GRAY", dtype=dtype).ravel()
        np.testing.assert_allclose(found, values / maximum * white, atol=white / 255 * 0.51)


@pytest.mark.parametrize(
    ("encoded", "reason"),
    [
        (b"", "empty"),
        (b"hello world" * 9, "not an image"),
        (b"\xff\xd8\xff" + b"x" * 500, "before its size"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", "before its size"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 60, "PNG|image"),
    ],
)
def test_data_errors_name_the_mistake(encoded: bytes, reason: str) -> None:
    for function in (peek, decode):
        with pytest.raises(DecodeError, match=reason):
            function(encoded)
    assert issubclass(DecodeError, PipelineError)


def test_arrays_that_do_not_hold_bytes_are_refused() -> None:
    with pytest.raises(DecodeError, match="1-D uint8"):
        decode(np.zeros((4, 4), np.uint8))
    with pytest.raises(DecodeError, match="1-D uint8"):
        decode(np.zeros(9, np.float32))  # type: ignore[arg-type]


@pytest.mark.parity
def test_damage_that_dali_tolerates_is_tolerated() -> None:
    damaged = bytearray(JPEG)
    middle = len(damaged) // 2
    damaged[middle : middle + 2] = b"\xff\xd5"
    np.testing.assert_array_equal(decode(bytes(damaged)), oracle.decode(bytes(damaged)))
    np.testing.assert_array_equal(decode(JPEG + b"trailing"), decode(JPEG))


def test_bytes_between_the_segments_of_a_jpeg_are_skipped() -> None:
    start = JPEG.index(b"\xff\xda")
    np.testing.assert_array_equal(decode(JPEG[:start] + b"\0\0\0" + JPEG[start:]), decode(JPEG))


@pytest.mark.parametrize("damage", [b"\xff\x05" * 20, b"\xff\xd5", b"\xff\xd9"])
def test_jpeg_that_is_damaged_in_its_middle_is_decoded_with_a_warning(damage: bytes) -> None:
    middle = (JPEG.index(b"\xff\xda") + len(JPEG)) // 2
    with pytest.warns(UserWarning, match="damaged in its middle"):
        assert decode(JPEG[:middle] + damage + JPEG[middle + len(damage) :]).shape == decode(JPEG).shape


def test_buffers_of_every_kind() -> None:
    expected = decode(JPEG)
    spaced = np.repeat(np.frombuffer(JPEG, np.uint8), 2)[::2]
    for encoded in (bytearray(JPEG), memoryview(JPEG), np.frombuffer(JPEG, np.uint8), spaced):
        np.testing.assert_array_equal(decode(encoded), expected)


@pytest.mark.parametrize("name", ["jpeg 420", "jpeg gray", "jpeg cmyk", "png rgb"])
@pytest.mark.parametrize("output_type", OUTPUT_TYPES)
def test_decode_writes_into_the_given_memory(name: str, output_type: str) -> None:
    expected = decode(ENCODED[name], output_type=output_type)
    out = np.empty_like(expected)
    assert decode(ENCODED[name], output_type=output_type, out=out) is out
    np.testing.assert_array_equal(out, expected)
    with pytest.raises(ValueError, match="out has shape"):
        decode(ENCODED[name], output_type=output_type, out=np.empty((3, 3, 3), np.uint8))


@pytest.mark.parametrize("orientation", [1, 6])
def test_region_lies_in_the_upright_image(orientation: int) -> None:
    encoded = with_orientation(smooth(), "JPEG", orientation)
    whole = decode(encoded)
    np.testing.assert_array_equal(decode(encoded, region=(5, 7, 11, 13)), whole[5:16, 7:20])
    out = np.empty((11, 13, 3), np.uint8)
    np.testing.assert_array_equal(decode(encoded, region=(5, 7, 11, 13), out=out), whole[5:16, 7:20])
    for region in ((0, 0, 41, 5), (-1, 0, 5, 5), (0, 0, 0, 5)):
        with pytest.raises(ValueError, match="exceeds the image"):
            decode(encoded, region=region)


@pytest.mark.parametrize(
    ("min_size", "shape"),
    [((100, 120), (100, 120)), ((51, 10), (100, 120)), ((50, 60), (50, 60)), ((10, 30), (25, 30)), ((1, 1), (13, 15))],
)
def test_min_size_scales_by_powers_of_two(min_size: tuple[int, int], shape: tuple[int, int]) -> None:
    pixels = decode(JPEG, min_size=min_size)
    assert pixels.shape == (*shape, 3)
    out = np.empty_like(pixels)
    np.testing.assert_array_equal(decode(JPEG, min_size=min_size, out=out), pixels)
    # A pixel covers a square of `factor` pixels; the last one covers a square that reaches beyond the image.
    factor = round(100 / shape[0])
    rows, columns = 100 // factor, 120 // factor
    full = decode(JPEG)[: rows * factor, : columns * factor].astype(float)
    means = full.reshape(rows, factor, columns, factor, 3).mean(axis=(1, 3))
    assert np.abs(means - pixels[:rows, :columns]).mean() < 2


def test_fancy_upsampling_is_the_default() -> None:
    np.testing.assert_array_equal(decode(JPEG), simplejpeg.decode_jpeg(JPEG))
    np.testing.assert_array_equal(decode(JPEG, fancy_upsampling=False), simplejpeg.decode_jpeg(JPEG, fastupsample=True))


def test_output_type_may_be_an_enum_member() -> None:
    for kind in OUTPUT_TYPES:
        np.testing.assert_array_equal(decode(JPEG, output_type=DALIImageType[kind]), decode(JPEG, output_type=kind))
    with pytest.raises(ValueError, match="unknown output_type"):
        decode(JPEG, output_type="HSV")
    with pytest.raises(ValueError, match="mutually exclusive"):
        decode(JPEG, region=(0, 0, 1, 1), min_size=(1, 1))


def test_masks_with_a_palette_are_reported() -> None:
    """Indices become the gray of colors, which looks like classes and is wrong."""
    mask = Image.fromarray(np.arange(6, dtype=np.uint8).reshape(2, 3)).convert("P")
    file = io.BytesIO()
    mask.save(file, "PNG")
    with pytest.warns(UserWarning, match=r"its classes are the indices.*palette_indices=True.*PIL\.Image\.open"):
        decode(file.getvalue(), output_type="GRAY")


def test_postscript_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)  # looked for again
    text = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"
    for content in (
        text,
        struct.pack("<4sIIIIIIH", b"\xc5\xd0\xd3\xc6", 32, len(text), 0, 0, 0, 0, 0) + bytes(2) + text,
    ):
        with pytest.raises(DecodeError):
            decode(content)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("form", ["PNG", "BMP", "TIFF"])
@pytest.mark.parametrize("colors", [2, 16, 256])
def test_indices_of_a_palette(form: str, colors: int) -> None:
    classes = np.random.default_rng(0).integers(0, colors, (5, 7), np.uint8)
    mask = Image.fromarray(classes)
    mask.putpalette(np.random.default_rng(1).integers(0, 256, 3 * colors, np.uint8).tobytes())
    file = io.BytesIO()
    mask.save(file, form, **({"bits": colors.bit_length() - 1} if form == "PNG" else {}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for dtype in (np.uint8, np.int32):
            found = decode(file.getvalue(), output_type="GRAY", palette_indices=True, dtype=dtype)
            assert found.dtype == dtype
            assert np.array_equal(found[..., 0], classes)
        window = decode(file.getvalue(), output_type="GRAY", palette_indices=True, region=(1, 2, 3, 4))
    assert np.array_equal(window[..., 0], classes[1:4, 2:6])


def test_indices_are_only_of_palettes() -> None:
    for encoded in (JPEG, cv2.imencode(".png", np.arange(6, dtype=np.uint8).reshape(2, 3))[1].tobytes()):
        plain = decode(encoded, output_type="GRAY")
        assert np.array_equal(decode(encoded, output_type="GRAY", palette_indices=True), plain)
    with Pipeline(batch_size=1, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.decoders.image(fn.external_source(name="x"), palette_indices=True))
    with pytest.raises(ArgumentValueError, match=r"output_type=types\.GRAY"):
        pipe.build()


def test_image_that_pillow_cannot_open_has_no_palette() -> None:
    pixels = np.linspace(0, 1, 60, dtype=np.float32).reshape(4, 5, 3)
    encoded = cv2.imencode(".tiff", pixels)[1].reshape(-1)
    expected = decode(encoded, output_type="ANY_DATA")
    np.testing.assert_array_equal(decode(encoded, output_type="ANY_DATA", palette_indices=True), expected, strict=True)


def test_gray_that_is_multiplied_by_alpha() -> None:
    gray = smooth(20, 30)[:, :, :1]
    data = formats.tiff(np.concatenate([gray, np.full_like(gray, 200)], axis=2), extrasamples=["assocalpha"])
    assert (decode(data, output_type="GRAY") == gray).all()
    assert (decode(data, output_type="RGB") == gray).all()


def test_gif_with_a_frame_that_is_too_large_is_refused() -> None:
    gif = b"GIF89a" + struct.pack("<HHBBB", 10, 10, 0x80, 0, 0) + bytes(6)
    gif += b"," + struct.pack("<HHHHB", 0, 0, 65535, 65535, 0) + b"\x02\x02\x44\x01\x00;"
    with pytest.raises(DecodeError, match="is too large: Image size"):
        peek(gif)
