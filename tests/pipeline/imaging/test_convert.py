from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dali_proxy.pipeline._imaging.convert import COLOR_CHANNELS, convert, convert_color
from tests.pipeline.imaging import oracle

dali_fn = pytest.importorskip("nvidia.dali.fn")
dali_types = pytest.importorskip("nvidia.dali.types")

convert_module = importlib.import_module(
    "dali_proxy.pipeline._imaging.convert"
)  # the package has a function of this name

DALI_TYPES = {
    "bool": dali_types.BOOL,
    "uint8": dali_types.UINT8,
    "int8": dali_types.INT8,
    "uint16": dali_types.UINT16,
    "int16": dali_types.INT16,
    "uint32": dali_types.UINT32,
    "int32": dali_types.INT32,
    "uint64": dali_types.UINT64,
    "int64": dali_types.INT64,
    "float16": dali_types.FLOAT16,
    "float32": dali_types.FLOAT,
    "float64": dali_types.FLOAT64,
}
FLOATS = [0.5, 1.5, 2.5, -0.5, -1.5, 127.5, 300, -300, 1e10, -1e10, 3e38, np.inf, -np.inf, 0.49999997, 8388609, 0]


def samples(dtype: str) -> Any:
    if np.dtype(dtype).kind == "f":
        with np.errstate(over="ignore"):
            return np.array(FLOATS).astype(dtype)
    if dtype == "bool":
        return np.array([True, False])
    limits = np.iinfo(dtype)
    values = [limits.min, limits.max, 0, 1, 127, limits.max // 2, limits.max - 1]
    return np.array(values, dtype)


@pytest.mark.parity
@pytest.mark.parametrize("source", DALI_TYPES)
def test_cast_equals_dali(source: str) -> None:
    values = samples(source)
    for target, kind in DALI_TYPES.items():
        if target == source:
            continue
        (expected,) = oracle.run(dali_fn.cast, [values], dtype=kind)
        found = convert(values, target)
        assert found.dtype == np.dtype(target)
        np.testing.assert_array_equal(found, expected, err_msg=f"{source} to {target}")


def test_nan_becomes_zero() -> None:
    for target in ("uint8", "int32", "int64", "uint64"):
        assert convert(np.array([np.nan, 2.5]), target).tolist() == [0, 3]
    assert np.isnan(convert(np.array([np.nan]), "float16")).all()


@pytest.mark.skipif(convert_module.compiled is None, reason="the C modules aren't built")
@pytest.mark.parametrize("target", ["uint8", "int8", "uint16", "int16"])
def test_compiled_loop_rounds_like_numpy(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    halves = np.arange(-140_000, 140_000, dtype=np.float32) / 2
    near = [halves, np.nextafter(halves, 0), np.nextafter(halves, 1e9), samples("float32")]
    values = np.concatenate([*near, [np.nan] * 2]).astype(np.float32).reshape(2, -1)
    found = [convert(values, target), convert(values[:, ::-1], target)]
    monkeypatch.setattr(convert_module, "compiled", None)
    np.testing.assert_array_equal(found, [convert(values, target), convert(values[:, ::-1], target)])


@settings(max_examples=100, deadline=None)
@given(
    values=hnp.arrays(np.float64, hnp.array_shapes(max_dims=4, max_side=5), elements=st.floats(-400, 400)),
    target=st.sampled_from(["uint8", "int8", "int16", "uint32", "int64"]),
)
def test_cast_rounds_half_away_and_clamps(values: Any, target: str) -> None:
    limits = np.iinfo(target)
    exact = np.sign(values) * np.floor(np.abs(values) + 0.5)
    out = np.empty(values.shape, target)
    assert convert(values, target, out=out) is out
    np.testing.assert_array_equal(out, np.clip(exact, float(limits.min), float(limits.max)).astype(target))


def test_array_of_the_same_dtype_is_not_copied() -> None:
    values = np.arange(3)
    assert convert(values, values.dtype) is values
    out = np.empty_like(values)
    assert convert(values, values.dtype, out=out) is out
    assert out.tolist() == [0, 1, 2]


COLORS = np.stack(np.meshgrid(*[np.arange(0, 256, 5)] * 3, indexing="ij"), -1).reshape(52, -1, 3).astype(np.uint8)


@pytest.mark.parity
@pytest.mark.parametrize("source", COLOR_CHANNELS)
@pytest.mark.parametrize("target", COLOR_CHANNELS)
def test_color_conversion_equals_dali(source: str, target: str) -> None:
    image = np.arange(256, dtype=np.uint8).reshape(1, 256, 1) if source == "GRAY" else COLORS
    found = convert_color(image, source, target)
    if source == target:
        assert found is image
        return
    (expected,) = oracle.run(
        dali_fn.color_space_conversion,
        [image],
        layout="HWC",
        image_type=getattr(dali_types, source),
        output_type=getattr(dali_types, target),
    )
    difference = np.abs(found.astype(int) - expected)
    assert found.shape == expected.shape
    assert difference.max() <= 1
    assert (difference > 0).mean() < (1e-9 if target == "GRAY" and source != "YCbCr" else 1 / 300)


def test_color_errors_name_the_mistake() -> None:
    with pytest.raises(ValueError, match="unknown colour space"):
        convert_color(COLORS, "RGB", "HSV")
    with pytest.raises(ValueError, match="has 1 channels"):
        convert_color(COLORS, "GRAY", "RGB")


@pytest.mark.skipif(convert_module.compiled is None, reason="the C module wasn't built")
@pytest.mark.parametrize("space", ["RGB", "BGR"])
@pytest.mark.parametrize("width", [1, 3, 31, 32, 33, 34, 35, 36, 68, 100])
def test_gray_equals_that_of_opencv(space: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    image = np.random.default_rng(0).integers(0, 256, (3, width, 3), np.uint8)
    image[0] = 255
    found = []
    for loops in (convert_module.compiled, None):
        monkeypatch.setattr(convert_module, "compiled", loops)
        found.append(convert_color(image, space, "GRAY"))
    np.testing.assert_array_equal(*found)
