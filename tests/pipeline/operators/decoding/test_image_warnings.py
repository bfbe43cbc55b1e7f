"""Warnings of image decoders name the image and the user's line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._imaging import decode
from dali_proxy.pipeline._operators.decoding.image_warnings import damaged_images
from pipeline import Pipeline, fn, types
from pipeline.errors import DecodeError
from tests.pipeline.imaging import formats
from tests.pipeline.imaging.images import encodings, pillow, smooth


def jpeg(seed: int, damaged: bool) -> bytes:
    encoded = bytearray(pillow(smooth(100, 120, seed=seed), "JPEG", quality=90))
    if damaged:
        middle = encoded.index(b"\xff\xda") + 500
        encoded[middle : middle + 8] = b"\xaa\xff\xd0\xaa" * 2  # restart markers where none may be
    return bytes(encoded)


def run(graph: Any, batches: list[list[bytes]]) -> None:
    with Pipeline(batch_size=30, num_threads=2, device_id=None) as pipe:
        pipe.set_outputs(graph())
    try:
        for batch in batches:
            if batch:
                pipe.feed_input("files", [np.frombuffer(each, np.uint8) for each in batch])
            pipe.run()
    finally:
        pipe.close()


def gray(**options: Any) -> Any:
    return fn.decoders.image(fn.external_source(name="files"), output_type=types.GRAY, **options)


def test_damaged_jpegs_are_named_and_counted(recwarn: pytest.WarningsRecorder) -> None:
    before = damaged_images()
    run(gray, [[jpeg(seed, damaged=seed in (1, 4)) for seed in range(6)]] * 2)
    found = {str(each.message).partition(": a JPEG is damaged in its middle")[0] for each in recwarn}
    assert found == {"fn.decoders.image, sample 1", "fn.decoders.image, sample 4"}
    assert {each.filename for each in recwarn} == {__file__}
    assert len(recwarn) == 2
    assert damaged_images() - before == 4


def test_damaged_jpegs_are_named_up_to_a_limit(recwarn: pytest.WarningsRecorder) -> None:
    before = damaged_images()
    run(gray, [[jpeg(0, damaged=True)] * 30])
    assert 20 <= len(recwarn) <= 21  # two threads
    assert damaged_images() - before == 30
    assert any("Further ones are only counted" in str(each.message) for each in recwarn)


def test_damaged_jpeg_of_a_reader_is_named_by_its_path(tmp_path: Path) -> None:
    for seed in range(3):
        (tmp_path / f"{seed}.jpg").write_bytes(jpeg(seed, damaged=seed == 2))

    def graph() -> Any:
        encoded, _ = fn.readers.file(files=[str(tmp_path / f"{seed}.jpg") for seed in range(3)])
        return fn.decoders.image(encoded, output_type=types.GRAY)

    with pytest.warns(UserWarning, match=rf"fn\.decoders\.image, '{tmp_path / '2.jpg'}': a JPEG is damaged"):
        run(graph, [[]])


def test_palette_is_warned_of_once(recwarn: pytest.WarningsRecorder) -> None:
    run(gray, [[encodings()["png palette"]] * 3] * 2)
    assert len(recwarn) in (1, 2)  # two threads
    assert "a PNG with a palette was decoded to the gray of its colors" in str(recwarn[0].message)


def mask(kind: str) -> bytes:
    """Return a mask with the classes 0 and 1, in one of several forms."""
    classes = np.arange(20, dtype=np.uint16).reshape(4, 5) % 2
    if kind.endswith("1"):
        return pillow(classes.astype(np.bool_), kind[:-1])
    return pillow(classes if kind.endswith("16") else classes.astype(np.uint8), kind.rstrip("168"))


@pytest.mark.parametrize("output_type", [types.GRAY, types.ANY_DATA])
@pytest.mark.parametrize(
    ("kind", "dtype", "message"),
    [
        *(
            (f"{name}16", types.UINT8, r"divided by 257, .*pass dtype=types\.UINT16")
            for name in ("PNG", "TIFF", "JPEG2000")
        ),
        *((f"{name}8", types.UINT16, r"multiplied by 257; pass dtype=types\.UINT8") for name in ("PNG", "WEBP")),
        *((f"{name}1", types.UINT8, "multiplied by 255; divide them by 255") for name in ("PNG", "TIFF", "PPM", "BMP")),
        *((f"{name}8", types.UINT8, "") for name in ("PNG", "TIFF", "PPM", "BMP")),
        *((f"{name}16", types.UINT16, "") for name in ("PNG", "TIFF", "JPEG2000")),
    ],
)
def test_scaled_classes_of_a_mask_are_warned_of(kind: str, dtype: Any, output_type: Any, message: str) -> None:
    shown: list[str] = []
    options = {"output_type": output_type, "dtype": np.dtype(dtype.name.lower())}
    decode(mask(kind), palette_indices=True, warn=shown.append, **options)
    assert len(shown) == bool(message)
    assert not message or re.search(message, shown[0])
    decode(mask(kind), warn=shown.append, **options)  # an ordinary image: as in DALI
    assert len(shown) == bool(message)


def test_classes_of_16_bits_are_kept_as_uint16() -> None:
    with pytest.warns(
        UserWarning, match=r"sample 0: a mask with values up to 65535 was decoded to uint8: .*divided by 257"
    ):
        run(lambda: gray(palette_indices=True), [[mask("PNG16")]])
    kept = decode(mask("PNG16"), output_type="GRAY", palette_indices=True, dtype=np.uint16)
    assert set(np.unique(kept)) == {0, 1}


FLOATS = np.repeat(np.array([[[0.0], [0.5], [1.0], [47.28], [-2.0]]], np.float32), 2, axis=0)


@pytest.mark.parametrize("output_type", ["GRAY", "ANY_DATA", "RGB"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_clipped_floats_are_warned_of(output_type: str, dtype: Any) -> None:
    shown: list[str] = []
    options: dict[str, Any] = {"output_type": output_type, "dtype": dtype, "warn": shown.append}
    found = decode(pillow(FLOATS, "TIFF"), **options)[0, :, 0]
    if dtype == np.float32:
        np.testing.assert_array_equal(found, FLOATS[0, :, 0])
        assert not shown
    else:
        white = np.iinfo(dtype).max
        assert found.tolist() == [0, (white + 1) // 2, white, white, 0]
        assert [each.partition(" was")[0] for each in shown] == ["an image of floats from -2 to 47.28"]
    decode(pillow(FLOATS[:, :3], "TIFF"), **options)
    assert len(shown) == (dtype != np.float32)


def test_clipped_bands_of_floats_are_warned_of() -> None:
    shown: list[str] = []
    for channels in (3, 4):
        bands = np.repeat(FLOATS, channels, axis=2)
        photometric = {"photometric": "rgb" if channels == 3 else "minisblack", "planarconfig": "contig"}
        decode(formats.tiff(bands, **photometric), warn=shown.append)
    assert len(shown) == 2


def test_openexr_is_refused_with_advice() -> None:
    with pytest.raises(DecodeError, match=r"the image is OpenEXR, which isn't decoded: convert it to TIFF or \.npy"):
        decode(b"v/1\x01\x02\0\0\0" + bytes(200))


def test_unknown_format_lists_the_known_ones() -> None:
    with pytest.raises(DecodeError, match="begin with b'unknown'; known are JPEG, PNG, BMP, TIFF, PNM, PFM, JPEG 2000"):
        decode(b"unknown")
