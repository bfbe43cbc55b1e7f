from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dali_proxy.pipeline._imaging.color import scale_shift
from dali_proxy.pipeline._imaging.convert import convert
from dali_proxy.pipeline._imaging.normalize import crop_mirror_normalize
from dali_proxy.pipeline._imaging.resample import resize
from tests.pipeline.imaging import oracle

dali_fn = pytest.importorskip("nvidia.dali.fn")
dali_types = pytest.importorskip("nvidia.dali.types")

Array = npt.NDArray[Any]

MEAN, STD = np.array([123.675, 116.28, 103.53]), np.array([58.395, 57.12, 57.375])
DALI_TYPES = {
    np.float32: dali_types.FLOAT,
    np.float16: dali_types.FLOAT16,
    np.uint8: dali_types.UINT8,
    np.int8: dali_types.INT8,
}


@pytest.mark.parity
@pytest.mark.parametrize("dtype", DALI_TYPES)
@pytest.mark.parametrize("layout", ["CHW", "HWC"])
@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("source", [np.uint8, np.int16, np.float32])
def test_normalize_equals_dali(dtype: Any, layout: str, mirror: bool, source: Any) -> None:
    image = np.random.default_rng(0).integers(0, 256, (50, 60, 3)).astype(source)
    factor = 1.0 if dtype in (np.float32, np.float16) else 30.0
    (expected,) = oracle.run(
        dali_fn.crop_mirror_normalize,
        [image],
        layout="HWC",
        dtype=DALI_TYPES[dtype],
        output_layout=layout,
        mirror=int(mirror),
        mean=MEAN.tolist(),
        std=STD.tolist(),
        scale=factor,
        shift=5.0,
        crop=[70.0, 40.0],
        out_of_bounds_policy="pad",
        fill_values=[1.0, 2.0, 3.0],
    )
    out = np.empty(expected.shape, dtype)
    gain = factor / STD
    crop_mirror_normalize(
        image,
        out,
        window=(-10, 10, 70, 40),
        mirror=mirror,
        scale=gain,
        bias=5.0 - MEAN * gain,
        fill=[1, 2, 3],
        layout=layout,
    )
    # If DALI subtracts before it multiplies, the last bit differs; in float16 that is 1/512 at these values.
    bound = {np.float32: 2e-6, np.float16: 4e-3}.get(dtype, 1)
    assert np.abs(out.astype(float) - expected).max() <= bound
    if dtype in (np.uint8, np.int8):
        assert (out != expected).mean() < 1e-3


def reference(
    image: Array, window: tuple[int, int, int, int], mirror: bool, scale: Array, bias: Array, fill: float, dtype: Any
) -> Array:
    y0, x0, height, width = window
    out = np.full((height, width, image.shape[2]), fill, np.float64)
    for y in range(height):
        for x in range(width):
            if 0 <= y0 + y < image.shape[0] and 0 <= x0 + x < image.shape[1]:
                out[y, x] = image[y0 + y, x0 + x] * scale + bias
    return convert(out[:, ::-1] if mirror else out, dtype)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_windows_agree_with_the_definition(data: st.DataObject) -> None:
    height, width, channels = (data.draw(st.integers(1, 12)) for _ in range(3))
    window = (*(data.draw(st.integers(-5, 14)) for _ in range(2)), *(data.draw(st.integers(1, 12)) for _ in range(2)))
    mirror, layout = data.draw(st.booleans()), data.draw(st.sampled_from(["CHW", "HWC"]))
    source = data.draw(st.sampled_from([np.uint8, np.float32, np.int16]))
    dtype = data.draw(st.sampled_from([np.float32, np.float16, np.uint8, np.int8, np.int16]))
    image = np.random.default_rng(height).integers(0, 200, (height, width, channels)).astype(source)
    # Quarters are exact in every type, ties included.
    scale = np.array(data.draw(st.lists(st.integers(-8, 8), min_size=channels, max_size=channels))) / 4
    bias = np.array(data.draw(st.lists(st.integers(-40, 40), min_size=channels, max_size=channels))) / 4
    expected = reference(image, window, mirror, scale, bias, 7, dtype)
    out = np.empty(expected.shape if layout == "HWC" else (channels, *window[2:]), dtype)
    found = crop_mirror_normalize(
        image, out, window=window, mirror=mirror, scale=scale, bias=bias, fill=7, layout=layout
    )
    assert found is out
    np.testing.assert_array_equal(out if layout == "HWC" else out.transpose(1, 2, 0), expected)


def test_additional_channels_are_filled() -> None:
    image = np.full((2, 3, 3), 10, np.uint8)
    out = np.empty((4, 2, 3), np.float32)
    crop_mirror_normalize(image, out, scale=[2], fill=[0, 0, 0, 9])
    assert out[:, 0, 0].tolist() == [20, 20, 20, 9]


def test_normalize_writes_into_a_slot_of_a_batch() -> None:
    image = np.random.default_rng(0).integers(0, 256, (8, 9, 3), dtype=np.uint8)
    batch = np.full((3, 3, 8, 9), -1, np.float32)
    crop_mirror_normalize(image, batch[1])
    np.testing.assert_array_equal(batch[1], image.transpose(2, 0, 1))
    assert (batch[[0, 2]] == -1).all()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"out": np.empty((3, 4, 5), np.float32)}, "doesn't fit"),
        ({"scale": [1, 2]}, "2 values of scale"),
        ({"bias": [1, 2, 3, 4]}, "4 values of bias"),
        ({"layout": "WHC"}, "unknown layout"),
        ({"window": (-1, 0, 8, 9), "fill": [1, 2]}, "2 fill values"),
    ],
)
def test_normalize_errors_name_the_mismatch(arguments: dict[str, Any], reason: str) -> None:
    out = arguments.pop("out", np.empty((3, 8, 9), np.float32))
    with pytest.raises(ValueError, match=reason):
        crop_mirror_normalize(np.zeros((8, 9, 3), np.uint8), out, **arguments)


@pytest.mark.parametrize("dtype", [np.int16, np.float32])
def test_unaligned_images_are_resized_and_normalized(dtype: Any) -> None:
    memory = np.random.default_rng(0).integers(0, 100, (9, 11, 3)).astype(dtype).tobytes()
    image = np.ndarray((9, 11, 3), dtype, b"-" + memory, 1)
    aligned = image.copy()
    assert not image.flags.aligned
    np.testing.assert_array_equal(resize(image, (4, 20)), resize(aligned, (4, 20)))
    planes = [np.empty((3, 9, 11), np.float32) for _ in range(2)]
    results = [crop_mirror_normalize(*each, scale=(0.5,)) for each in zip((image, aligned), planes, strict=True)]
    np.testing.assert_allclose(*results, rtol=1e-6)
    np.testing.assert_allclose(scale_shift(image, 2.0, 1.0, np.empty(image.shape, np.float32)), aligned * 2.0 + 1.0)
