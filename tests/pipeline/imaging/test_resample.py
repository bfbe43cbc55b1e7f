from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dali_proxy.pipeline._imaging import resample
from dali_proxy.pipeline._imaging.filters import filter_name
from dali_proxy.pipeline._imaging.normalize import crop_mirror_normalize
from dali_proxy.pipeline._imaging.resample import resize
from pipeline.types import DALIInterpType
from tests.pipeline.imaging import oracle

dali_fn = pytest.importorskip("nvidia.dali.fn")
dali_types = pytest.importorskip("nvidia.dali.types")

Array = npt.NDArray[Any]

DALI_TYPES = {
    "nearest": dali_types.INTERP_NN,
    "linear": dali_types.INTERP_LINEAR,
    "cubic": dali_types.INTERP_CUBIC,
    "lanczos3": dali_types.INTERP_LANCZOS3,
    "triangular": dali_types.INTERP_TRIANGULAR,
    "gaussian": dali_types.INTERP_GAUSSIAN,
}
# The largest difference from DALI for values in 0..1: rounding of float32 sums. For the Gaussian, DALI doesn't define
# whether a tap exactly at its end counts, where it is still exp(-4). With a region, DALI doesn't define which of two
# pixels is nearest to a position exactly between them: the regions below avoid this case.
BOUNDS = {"nearest": 0.0, "gaussian": 0.04}


def noise(height: int, width: int, channels: int, dtype: Any, seed: int = 0) -> Array:
    values = np.random.default_rng(seed).random((height, width, channels))
    return values.astype(dtype) if np.dtype(dtype).kind == "f" else (values * 256).astype(dtype)


def compare(found: Array, expected: Array, interp: str) -> None:
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    difference = np.abs(found.astype(float) - expected).max()
    bound = BOUNDS.get(interp, 3e-5)
    assert difference <= (bound if found.dtype.kind == "f" else np.ceil(bound * 255))


SIZES = [
    ((48, 64), (31, 20)),
    ((48, 64), (100, 111)),
    ((20, 91), (50, 17)),
    ((1, 1), (5, 3)),
    ((97, 3), (1, 1)),
    ((40, 40), (40, 40)),
    ((333, 77), (7, 76)),
]


@pytest.mark.combinations
@pytest.mark.parity
@pytest.mark.parametrize("interp", DALI_TYPES)
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.float32])
@pytest.mark.parametrize("antialias", [True, False])
def test_whole_images_are_resized_as_in_dali(interp: str, dtype: Any, antialias: bool) -> None:
    images = [noise(*source, 1 + index % 5, dtype) for index, (source, _) in enumerate(SIZES)]
    for image, (_, target) in zip(images, SIZES, strict=True):
        size = [float(extent) for extent in target]
        (expected,) = oracle.run(
            dali_fn.resize, [image], layout="HWC", size=size, interp_type=DALI_TYPES[interp], antialias=antialias
        )
        compare(resize(image, target, interp=interp, antialias=antialias), expected, interp)


@pytest.mark.parity
@pytest.mark.parametrize("interp", [name for name in DALI_TYPES if name != "triangular"])
@pytest.mark.parametrize("region", [(3.0, 5.0, 30.0, 60.0), (40.5, 2.25, 7.75, 63.5), (47.9, 63.7, 0.3, 0.2)])
def test_regions_are_resized_as_in_dali(interp: str, region: tuple[float, ...]) -> None:
    image = noise(48, 64, 3, np.float32)
    for size in ((19, 23), (70, 90), (19, 90)):
        (expected,) = oracle.run(
            dali_fn.resize,
            [image],
            layout="HWC",
            size=list(map(float, size)),
            interp_type=DALI_TYPES[interp],
            roi_start=list(region[:2]),
            roi_end=list(region[2:]),
        )
        compare(resize(image, size, region=region, interp=interp), expected, interp)


@pytest.mark.parity
def test_axes_have_their_own_filters() -> None:
    image = noise(48, 64, 3, np.uint8)
    for lower, raiser in (("linear", "cubic"), ("lanczos3", "nearest"), ("nearest", "linear")):
        (expected,) = oracle.run(
            dali_fn.resize,
            [image],
            layout="HWC",
            size=[30.0, 90.0],
            min_filter=DALI_TYPES[lower],
            mag_filter=DALI_TYPES[raiser],
        )
        compare(resize(image, (30, 90), min_filter=lower, mag_filter=raiser), expected, "linear")


@pytest.mark.parity
def test_float_results_are_neither_rounded_nor_clamped() -> None:
    image = noise(20, 20, 3, np.uint8)
    (expected,) = oracle.run(
        dali_fn.resize,
        [image],
        layout="HWC",
        size=[33.0, 33.0],
        interp_type=dali_types.INTERP_CUBIC,
        dtype=dali_types.FLOAT,
    )
    found = resize(image, (33, 33), interp="cubic", dtype=np.float32)
    np.testing.assert_allclose(found, expected, atol=2e-3)
    assert found.min() < 0 or found.max() > 255


def dense_triangle(extent: int, size: int, low: float, high: float) -> Array:
    """Return the weights of the antialiased triangle, written as in their definition."""
    scale = (high - low) / size
    stretch = max(1.0, abs(scale))
    weights = np.zeros((size, extent))
    for output in range(size):
        center = low + (output + 0.5) * scale
        taps = np.arange(int(np.floor(center - stretch)) - 1, int(np.ceil(center + stretch)) + 2)
        values = np.maximum(0, 1 - np.abs(taps + 0.5 - center) / stretch)
        np.add.at(weights[output], np.clip(taps, 0, extent - 1), values / values.sum())
    return weights


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_shapes_and_regions_agree_with_the_definition(data: st.DataObject) -> None:
    extents = st.integers(1, 90)
    height, width, channels = data.draw(extents), data.draw(extents), data.draw(st.integers(1, 6))
    size = (data.draw(extents), data.draw(extents))
    dtype = data.draw(st.sampled_from([np.uint8, np.int16, np.float32]))
    image = noise(height, width, channels, dtype, seed=height)
    edge = st.floats(-1.5, 2.5, width=32)
    ends = [data.draw(edge) * extent for extent in (height, width, height, width)]
    region = (ends[0], ends[1], ends[2], ends[3]) if data.draw(st.booleans()) else None
    y0, x0, y1, x1 = region or (0, 0, height, width)
    rows, columns = dense_triangle(height, size[0], y0, y1), dense_triangle(width, size[1], x0, x1)
    expected = np.einsum("yi,ijc,xj->yxc", rows, image.astype(float), columns, optimize=True)
    found = resize(image, size, region=region)
    assert found.dtype == dtype
    # Half a unit is rounding; OpenCV's fixed-point arithmetic, used for enlargements, needs a little more.
    np.testing.assert_allclose(found, expected, atol=1e-4 if dtype == np.float32 else 0.6 if dtype != np.uint8 else 1.0)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.float32, np.int32, np.float16])
@pytest.mark.parametrize("shape", [(9, 21, 17, 1), (4, 30, 11, 3), (1, 12, 9, 5)])
@pytest.mark.parametrize("interp", ["nearest", "linear", "cubic"])
def test_volumes_are_resized_along_one_axis_after_the_other(
    dtype: Any, shape: tuple[int, ...], interp: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = (np.random.default_rng(0).random(shape) * 200).astype(dtype)
    size, region = (5, 13, 22), (0.3, 20.0, -1.5, shape[0] - 0.5, 1.0, shape[2] + 0.5)
    made = resize(volume, size, region=region, interp=interp)
    between = np.stack([resize(each, size[1:], region=(20.0, -1.5, 1.0, shape[2] + 0.5), interp=interp,
                               dtype=np.float32) for each in volume])  # fmt: skip
    column = between.reshape(shape[0], 1, -1)
    depth = resize(column, (size[0], 1), region=(0.3, 0.0, shape[0] - 0.5, 1.0), interp=interp)
    tolerance = 2e-3 if np.dtype(dtype).kind == "f" else 0.501
    np.testing.assert_allclose(made, depth.reshape(made.shape), atol=0.2 if dtype == np.float16 else tolerance)
    monkeypatch.setattr(resample, "compiled", None)
    without = resize(volume, size, region=region, interp=interp)
    assert without.dtype == made.dtype
    np.testing.assert_allclose(made, without, atol=0.2 if dtype == np.float16 else 1e-4, rtol=1e-6)


@pytest.mark.parametrize("shape", [(12, 9), (12, 9, 1), (12, 9, 2, 3)])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.float16, np.float32, np.float64])
def test_trailing_axes_dtypes_and_given_memory(shape: tuple[int, ...], dtype: Any) -> None:
    image = noise(12, 9, int(np.prod(shape[2:])), np.uint8).reshape(shape).astype(dtype)
    for interp in ("linear", "nearest"):
        found = resize(image, (5, 7), interp=interp)
        assert found.shape == (5, 7, *shape[2:])
        assert found.dtype == dtype
        padded = np.empty((5, 9, *shape[2:]), dtype)
        out = padded[:, 1:8]
        assert resize(image, (5, 7), interp=interp, out=out) is out
        np.testing.assert_array_equal(out, found)


def test_views_are_read_where_they_are() -> None:
    image = noise(40, 50, 3, np.uint8)
    for view in (image[3:30, 5:41], image[::-1, ::2], image[..., ::-1], image.transpose(1, 0, 2)):
        np.testing.assert_array_equal(resize(view, (17, 60)), resize(view.copy(), (17, 60)))
        np.testing.assert_array_equal(resize(view, (60, 80)), resize(view.copy(), (60, 80)))


def test_threads_do_not_disturb_each_other() -> None:
    images = [noise(60 + 7 * index, 90, 3, np.uint8, index) for index in range(8)]
    expected = [resize(image, (50, 40)) for image in images]
    wrong: list[int] = []

    def work(index: int) -> None:
        for _ in range(30):
            if not np.array_equal(resize(images[index], (50, 40)), expected[index]):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not wrong


@pytest.mark.parametrize(("value", "stored"), [(1e10, 255), (-1e10, 0), (np.nan, 0)])
def test_floats_beyond_bytes_are_clamped(value: float, stored: int) -> None:
    image = np.full((9, 8, 3), value, np.float32)
    np.testing.assert_array_equal(resize(image, (5, 5), dtype=np.uint8), np.full((5, 5, 3), stored))


def test_names_of_filters() -> None:
    assert [filter_name(kind) for kind in DALIInterpType] == [filter_name(kind.name) for kind in DALIInterpType]
    assert filter_name("INTERP_NN") == filter_name("nearest") == "nearest"
    for unknown in ("bilinear", 9):
        with pytest.raises(ValueError, match="unknown interpolation"):
            filter_name(unknown)


@pytest.mark.parametrize(("shape", "size"), [((0, 4, 3), (2, 2)), ((4, 4, 3), (0, 2)), ((4,), (2, 2))])
def test_images_without_pixels_are_refused(shape: tuple[int, ...], size: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="can't resize"):
        resize(np.zeros(shape, np.uint8), size)


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_planes_are_the_same_pixels(channels, mirror):
    image = np.random.default_rng(5).integers(0, 256, (301, 187, channels), np.uint8)
    for size in ((224, 224), (50, 187), (7, 300), (301, 187), (333, 290)):
        plain, planar = resize(image, size), resize(image, size, planar=True)
        np.testing.assert_array_equal(planar, plain)
        elsewhere = np.empty((channels, *size), np.uint8).transpose(1, 2, 0)
        np.testing.assert_array_equal(resize(image[::-1][::-1], size, out=elsewhere), plain)
        options = {"mirror": mirror, "scale": [0.3] * channels, "bias": list(range(channels))}
        made = [
            crop_mirror_normalize(each, np.empty((channels, *size), np.float32), **options) for each in (plain, planar)
        ]
        np.testing.assert_array_equal(*made)
