"""`flip`, `transpose`, `cast`, `copy` and `shapes` equal DALI's exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline.operators.both import RAGGED, compare, refused_by_both, run_ours, sample_images

NUMBERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64")


@pytest.mark.parity
@pytest.mark.parametrize("layout", ["HWC", "CHW", "FHWC", "DHWC", "FCHW", "CDHW", "FDHWC", "FCDHW", None])
def test_flip_layouts(layout: str | None) -> None:
    ndim = len(layout or "HWC")
    feed = sample_images((2, 5, 7, 3, 2)[:ndim], (3, 4, 6, 2, 3)[:ndim])
    for arguments in ({}, {"vertical": 1}, {"horizontal": 0, "depthwise": 1}, {"vertical": 1, "depthwise": 1}):
        compare(lambda fn, _, x, a=arguments: fn.flip(x, **a), feed, layouts=[layout])


@pytest.mark.parity
@pytest.mark.parametrize("dtype", NUMBERS)
def test_flip_dtypes_and_arguments_per_sample(dtype: str) -> None:
    flags = [[np.int32(value) for value in values] for values in ((1, 0, -2), (0, 0, 1))]
    compare(
        lambda fn, _, x, h, v: fn.flip(x, horizontal=h, vertical=v),
        sample_images(*RAGGED, dtype=dtype, high=100),
        *flags,
        layouts=["HWC"],
    )


def test_flip_without_layout_takes_images_and_sequences() -> None:
    (image,) = run_ours(lambda fn, _, x: fn.flip(x), sample_images((4, 5, 3)))
    (sequence,) = run_ours(lambda fn, _, x: fn.flip(x), sample_images((2, 4, 5, 3)))
    assert (image.layout, sequence.layout) == ("HWC", "FHWC")


@pytest.mark.parity
def test_flip_refuses_the_layouts_that_dali_refuses() -> None:
    feed = sample_images((4, 5, 3))
    refused_by_both(lambda fn, _, x: fn.flip(x), feed, layouts=["WHC"], match="layout 'WHC'")
    refused_by_both(lambda fn, _, x: fn.flip(x), sample_images((4, 5)), layouts=["HW"], match="layout 'HW'")


@pytest.mark.parity
@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.data())
def test_transpose(data: st.DataObject) -> None:
    ndim = data.draw(st.integers(1, 5))
    dtype = data.draw(st.sampled_from((*NUMBERS, "bool", "float16")))
    perm = data.draw(st.permutations(range(ndim)))
    feed = sample_images(
        *[tuple(data.draw(st.integers(1, 5)) for _ in range(ndim)) for _ in range(2)], high=1, dtype=dtype
    )
    arguments: dict[str, Any] = {"perm": perm}
    layout = data.draw(st.sampled_from([None, "FDHWC"[:ndim]]))
    if data.draw(st.booleans()):
        arguments["transpose_layout"] = data.draw(st.booleans())
    elif data.draw(st.booleans()):
        arguments["output_layout"] = "ABCDE"[:ndim]
    compare(lambda fn, _, x: fn.transpose(x, **arguments), feed, layouts=[layout])


@pytest.mark.parity
@pytest.mark.parametrize("channels", [1, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_transpose_between_pixels_and_planes(channels: int, dtype: str) -> None:
    feed = sample_images((6, 7, channels), (9, 4, channels), dtype=dtype)
    compare(lambda fn, _, x: fn.transpose(x, perm=[2, 0, 1]), feed, layouts=["HWC"])
    planes = [np.ascontiguousarray(image.transpose(2, 0, 1)) for image in feed]
    compare(lambda fn, _, x: fn.transpose(x, perm=[1, 2, 0]), planes, layouts=["CHW"])


@pytest.mark.parity
def test_transpose_reverses_by_default_and_takes_scalars() -> None:
    compare(lambda fn, _, x: fn.transpose(x), sample_images((2, 3, 4)), layouts=["HWC"])
    compare(lambda fn, _, x: fn.transpose(x), [np.uint8(3), np.uint8(4)])


@pytest.mark.parity
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"perm": [0, 1]}, "different dimensionality .3. than the length of the permutation .2."),
        ({"perm": [0, 0, 1]}, "Invalid permutation: .* 0 to 2"),
        ({"perm": [-1, 0, 1]}, "Invalid permutation: .* 0 to 2"),
        ({"perm": [2, 0, 1], "output_layout": "AB"}, "needs 3 letters"),
    ],
)
def test_transpose_refuses_bad_calls(arguments: dict[str, Any], match: str) -> None:
    refused_by_both(
        lambda fn, _, x: fn.transpose(x, **arguments), sample_images((2, 3, 4)), layouts=["HWC"], match=match
    )


EDGES = np.array([-1e10, -300.5, -1.5, -0.5, 0, 0.25, 0.5, 1.5, 2.5, 127.5, 254.5, 255.5, 300, 70000, 1e10])


@pytest.mark.parity
@pytest.mark.parametrize("source", [*NUMBERS, "bool", "float16"])
def test_cast_between_all_dtypes(source: str) -> None:
    names = ("UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32", "UINT64", "INT64")
    with np.errstate(invalid="ignore", over="ignore"):
        values = np.clip(EDGES, *_limits(source)).astype(source)
    for name in (*names, "FLOAT16", "FLOAT", "FLOAT64", "BOOL"):
        if name == "BOOL" and source in ("float16", "float32", "float64"):
            continue  # see test_cast_to_bool_compares_the_rounded_value_with_zero
        compare(lambda fn, types, x, n=name: fn.cast(x, dtype=getattr(types, n)), [values], layouts=["W"])


@pytest.mark.parity
def test_cast_scalars() -> None:
    compare(lambda fn, types, x: fn.cast(x, dtype=types.INT32), [np.float32(2.5), np.float32(-1.5)])


def _limits(dtype: str) -> tuple[float, float]:
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return (-65504, 65504) if dtype == "float16" else (-1e10, 1e10)
    if kind.kind == "b":
        return 0, 1
    return float(np.iinfo(kind).min), min(float(np.iinfo(kind).max), 2.0**62)


def test_cast_to_bool_compares_the_rounded_value_with_zero() -> None:
    values = [np.array([0, 0.25, 0.5, -0.75, 3], np.float32)]
    (output,) = run_ours(lambda fn, types, x: fn.cast(x, dtype=types.BOOL), values)
    assert output.samples[0].tolist() == [False, False, True, True, True]


def test_cast_needs_a_dtype() -> None:
    with pytest.raises(TypeError, match='specify values for arguments: "dtype"'):
        run_ours(lambda fn, _, x: fn.cast(x), sample_images((2,)))


@pytest.mark.parity
def test_copy_keeps_data_and_layout() -> None:
    compare(lambda fn, _, x: fn.copy(x), sample_images(*RAGGED), layouts=["HWC"])


@pytest.mark.parity
@pytest.mark.parametrize("dtype", ["INT64", "INT32", "UINT32", "UINT64", "FLOAT", "FLOAT64"])
def test_shapes(dtype: str) -> None:
    compare(lambda fn, types, x: x.shape(dtype=getattr(types, dtype)), sample_images(*RAGGED), layouts=["HWC"])
    compare(lambda fn, types, x: x.shape(dtype=getattr(types, dtype)), [np.uint8(3), np.uint8(4)])


@pytest.mark.parity
def test_shapes_refuses_narrow_dtypes() -> None:
    refused_by_both(
        lambda fn, types, x: x.shape(dtype=types.UINT8), sample_images((2, 3)), match="not DALIDataType.UINT8"
    )
