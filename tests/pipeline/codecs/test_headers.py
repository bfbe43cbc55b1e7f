"""Headers of JPEGs as columns: the compiled parser and the one in Python agree, on valid and on damaged files."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dali_proxy.pipeline._codecs import encoded
from dali_proxy.pipeline._codecs.encoded import HEADER, read_headers

Bytes = npt.NDArray[np.uint8]


def jpeg(width: int = 33, height: int = 21, mode: str = "RGB", orientation: int = 1, **options: object) -> Bytes:
    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    image = Image.fromarray(noise).convert(mode)
    buffer = io.BytesIO()
    exif = Image.Exif()
    if orientation != 1:
        exif[0x0112] = orientation
        options["exif"] = exif
    image.save(buffer, "JPEG", **options)
    return np.frombuffer(buffer.getvalue(), np.uint8)


def read(*files: Bytes) -> list[tuple[int, ...]]:
    pointers = np.array([file.ctypes.data for file in files])
    return read_headers(pointers, np.array([file.size for file in files])).tolist()


@pytest.fixture(params=["compiled", "python"])
def walk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[int, ...]]]:
    if request.param == "python":
        monkeypatch.setattr(encoded, "compiled", None)
    elif encoded.compiled is None:
        pytest.skip("needs the C module")
    return read


def test_sizes_of_a_batch(walk: Callable[..., list[tuple[int, ...]]]) -> None:
    files = [
        jpeg(33, 21),
        jpeg(300, 200, "L"),
        jpeg(8, 9, "CMYK"),
        np.zeros(0, np.uint8),
        np.arange(99, dtype=np.uint8),
    ]
    nothing = (0, 0, 0, 1, 0, 0, 0)
    assert walk(*files) == [(21, 33, 3, 1, 1, 0, 0), (200, 300, 1, 1, 1, 0, 0), (9, 8, 4, 1, 0, 0, 0), nothing, nothing]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation(walk: Callable[..., list[tuple[int, ...]]], orientation: int) -> None:
    assert walk(jpeg(orientation=orientation)) == [(21, 33, 3, orientation, 1, 0, 0)]


@pytest.mark.parametrize(
    ("options", "simple"),
    [
        ({"subsampling": 0}, 1),
        ({"subsampling": 1}, 1),
        ({"subsampling": 2}, 1),
        ({"optimize": True}, 1),
        ({"restart_marker_rows": 1}, 1),
        ({"progressive": True}, 0),
    ],
)
def test_engine_decodes_simple_images(
    walk: Callable[..., list[tuple[int, ...]]], options: dict[str, object], simple: int
) -> None:
    assert walk(jpeg(**options))[0][-3:] == (simple, 0, 0)


def test_grey_of_unusual_sampling_is_not_for_the_engine(walk: Callable[..., list[tuple[int, ...]]]) -> None:
    odd = jpeg(mode="L").copy()
    odd[bytes(odd).index(b"\xff\xc0") + 11] = 0x22
    assert walk(jpeg(mode="L"), odd) == [(21, 33, 1, 1, 1, 0, 0), (21, 33, 1, 1, 0, 0, 0)]


@pytest.mark.parametrize(("names", "transform", "simple"), [(b"RGB", 1, 0), (b"\1\2\3", 0, 0), (b"\1\2\3", 1, 1)])
def test_red_green_and_blue_are_not_for_the_engine(
    walk: Callable[..., list[tuple[int, ...]]], names: bytes, transform: int, simple: int
) -> None:
    made = jpeg(keep_rgb=True).copy()  # Adobe's segment, and components with the names R, G and B
    frame = bytes(made).index(b"\xff\xc0")
    made[frame + 10 : frame + 19 : 3] = np.frombuffer(names, np.uint8)
    made[bytes(made).index(b"Adobe") + 11] = transform
    assert walk(made)[0] == (21, 33, 3, 1, simple, not simple, 0)


def test_truncated_images_are_not_simple(walk: Callable[..., list[tuple[int, ...]]]) -> None:
    whole = jpeg()
    assert walk(np.concatenate([whole, np.zeros(40, np.uint8)]))[0] == (21, 33, 3, 1, 1, 0, 0)
    assert walk(whole[:-2].copy())[0] == (21, 33, 3, 1, 0, 0, 1)
    assert walk(whole[: whole.size // 2].copy())[0] == (21, 33, 3, 1, 0, 0, 1)


def test_data_after_the_end_is_not_read(walk: Callable[..., list[tuple[int, ...]]]) -> None:
    file = jpeg().copy()
    file[3] = 0xD9  # replaces a segment that can be skipped
    assert walk(file) == [(0, 0, 0, 1, 0, 0, 0)]


def test_jpeg_with_two_frames_is_refused(walk: Callable[..., list[tuple[int, ...]]]) -> None:
    whole = jpeg()
    frame = bytes(whole).index(b"\xff\xc0")
    length = int(whole[frame + 2]) << 8 | int(whole[frame + 3])
    twice = np.concatenate([whole[: frame + 2 + length], whole[frame:]])
    assert walk(twice) == [(0, 0, 0, 1, 0, 0, 0)]


@given(st.data())
def test_walks_in_c_and_python_agree_on_damage(data: st.DataObject) -> None:
    if encoded.compiled is None:
        pytest.skip("needs the C module")
    damaged = jpeg(orientation=data.draw(st.sampled_from([1, 6])), keep_rgb=data.draw(st.booleans())).copy()
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, min(damaged.size, 700) - 1))] = data.draw(st.integers(0, 255))
    damaged = damaged[: data.draw(st.integers(0, damaged.size))].copy()
    expected = np.zeros(1, HEADER)
    expected[0] = encoded._read(memoryview(damaged))
    assert read(damaged) == expected.tolist()


def test_rows_must_fit() -> None:
    if encoded.compiled is None:
        pytest.skip("needs the C module")
    with pytest.raises(ValueError, match="as many lengths"):
        encoded.compiled.headers(np.zeros(2, np.int64), np.zeros(1, np.int64), np.zeros(2, HEADER))
