"""`fn.slice` equals DALI's exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline.operators.both import RAGGED, compare, refused_by_both, run_ours, sample_images

BORDERS = ("pad", "constant", "edge", "clamp", "reflect", "reflect_1001", "reflect_101", "wrap", "trim_to_shape")


@st.composite
def windows(draw: st.DrawFn) -> dict[str, Any]:
    """Draw named arguments for two axes: absolute and relative, with and without an end."""
    arguments: dict[str, Any] = {}
    begin = draw(st.sampled_from(["start", "rel_start", None]))
    end = draw(
        st.sampled_from(["end", "rel_end", "shape", "rel_shape", None] if begin else ["end", "rel_end", "shape"])
    )
    if begin == "start":
        arguments["start"] = [draw(st.integers(-20, 9)) for _ in range(2)]
    elif begin:
        arguments["rel_start"] = [draw(st.integers(-32, 8)) / 16 for _ in range(2)]
    if end in ("end", "shape"):
        arguments[end] = [draw(st.integers(10, 40)) for _ in range(2)]
    elif end:
        arguments[end] = [draw(st.integers(9, 32)) / 16 for _ in range(2)]
    return arguments


@pytest.mark.parity
@settings(max_examples=80, deadline=None, derandomize=True)
@given(window=windows(), policy=st.sampled_from(BORDERS), data=st.data())
def test_named_windows_and_policies(window: dict[str, Any], policy: str, data: st.DataObject) -> None:
    shapes = [(data.draw(st.integers(12, 17)), data.draw(st.integers(12, 17)), 3) for _ in range(2)]
    if "rel_end" in window and "start" in window:
        window["start"] = [min(value, 0) for value in window["start"]]
    axes: dict[str, Any] = data.draw(
        st.sampled_from([{}, {"axes": [0, 1]}, {"axes": [-2, -3]}, {"axis_names": "HW"}, {"axis_names": "WH"}])
    )
    fill = data.draw(st.sampled_from([[5.0], [1.0, 2.0, 3.0]]))
    compare(
        lambda fn, _, x: fn.slice(x, out_of_bounds_policy=policy, fill_values=fill, **window, **axes),
        sample_images(*shapes),
        layouts=["HWC"],
    )


@pytest.mark.parity
@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_fractions_are_rounded_as_in_dali(data: st.DataObject) -> None:
    """Holds for any float32, also close to halves of pixels."""
    size = data.draw(st.integers(2, 60))
    number = st.floats(0, 1, width=32)
    near_half = st.integers(0, 2 * size).map(lambda half: float(np.float32(half / 2 / size)))
    start = np.float32(data.draw(st.one_of(number, near_half)))
    # DALI refuses the window if the end equals the start in one precision and is less in the other.
    extent = np.float32(data.draw(st.one_of(number, near_half).filter(lambda value: value > 1e-3)))
    feed = [np.arange(size, dtype=np.uint8)]
    graph_of_inputs = lambda fn, _, x, a, s: fn.slice(x, a, s, axes=[0], out_of_bounds_policy="pad")  # noqa: E731
    compare(graph_of_inputs, feed, [start], [extent])
    for one, other in (("rel_start", "rel_shape"), ("start", "rel_shape"), ("rel_start", "shape")):
        values = [
            [np.int32(value * size)] if not name.startswith("rel") else [value]
            for name, value in ((one, start), (other, extent))
        ]
        compare(
            lambda fn, _, x, a, s, names=(one, other): fn.slice(
                x, axes=[0], out_of_bounds_policy="pad", **dict(zip(names, (a, s), strict=True))
            ),
            feed,
            *values,
        )


@pytest.mark.parity
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integer_inputs_are_pixels(dtype: str) -> None:
    anchor = [np.array(value, dtype) for value in ([1, 2], [3, 0], [0, 5])]
    shape = [np.array(value, dtype) for value in ([4, 5], [6, 0], [1, 3])]
    compare(lambda fn, _, x, a, s: fn.slice(x, a, s), sample_images(*RAGGED), anchor, shape, layouts=["HWC"])
    compare(
        lambda fn, _, x, a, s: fn.slice(x, a, s, axes=[0, 1]), sample_images(*RAGGED), anchor, shape, layouts=["CHW"]
    )


@pytest.mark.parity
@pytest.mark.parametrize("normalized_anchor", [True, False])
@pytest.mark.parametrize("normalized_shape", [True, False])
def test_float_inputs(normalized_anchor: bool, normalized_shape: bool) -> None:
    anchor = [np.float32([0.3, 0.2] if normalized_anchor else [2.5, 3.4])] * 3
    shape = [np.float32([0.31, 0.6] if normalized_shape else [4.5, 2.4])] * 3
    compare(
        lambda fn, _, x, a, s: fn.slice(
            x, a, s, normalized_anchor=normalized_anchor, normalized_shape=normalized_shape
        ),
        sample_images(*RAGGED),
        anchor,
        shape,
        layouts=["HWC"],
    )


@pytest.mark.parity
def test_arguments_per_sample() -> None:
    start = [np.array(value, np.int32) for value in ([1, 2], [3, 0], [0, 5])]
    shape = [np.array(value, np.float32) for value in ([0.4, 0.5], [0.6, 1], [0.1, 0.3])]
    compare(lambda fn, _, x, a: fn.slice(x, start=a), sample_images(*RAGGED), start, layouts=["HWC"])
    compare(
        lambda fn, _, x, a, s: fn.slice(x, start=a, rel_shape=s, axes=[0, 1]),
        sample_images(*RAGGED),
        start,
        shape,
        layouts=["HWC"],
    )


@pytest.mark.parity
@pytest.mark.parametrize(
    ("shape", "layout", "arguments"),
    [
        ((9,), None, {"start": 2, "axes": 0}),
        ((9, 8), None, {"start": [2, 3], "end": [7, 7]}),
        ((9, 8, 3), None, {"start": [2, 3], "end": [7, 7]}),
        ((3, 9, 8), "CHW", {"start": [2, 3], "end": [7, 7]}),
        ((2, 9, 8, 3), "FHWC", {"start": 2, "end": [7, 7]}),
        ((2, 9, 8, 3), "FHWC", {"start": [1, 2], "axis_names": "FC"}),
        ((4, 9, 8), None, {"start": [1, 2, 3], "axis_names": ""}),
        ((9, 8), None, {"start": 3, "end": 3, "axes": 1}),
    ],
)
@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32", "float64"])
def test_layouts(shape: tuple[int, ...], layout: str | None, arguments: dict[str, Any], dtype: str) -> None:
    compare(lambda fn, _, x: fn.slice(x, **arguments), sample_images(shape, shape, dtype=dtype), layouts=[layout])


@pytest.mark.parity
@pytest.mark.parametrize("target", ["UINT8", "FLOAT16", "FLOAT"])
@pytest.mark.parametrize("policy", ["pad", "edge"])
def test_output_dtypes(target: str, policy: str) -> None:
    feed = sample_images((6, 5, 3), dtype="float32", low=-400, high=400)
    compare(
        lambda fn, types, x: fn.slice(
            x, start=[-1, 2], dtype=getattr(types, target), out_of_bounds_policy=policy, fill_values=7.0
        ),
        feed,
        layouts=["HWC"],
    )


@pytest.mark.parity
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({}, "the slice isn't defined"),
        ({"start": [1, 1], "rel_start": [0.1, 0.1]}, '"start" and "rel_start" arguments are mutually exclusive'),
        ({"end": [1, 1], "shape": [1, 1]}, '"end" and "shape" arguments are mutually exclusive'),
        ({"start": [5, 5], "end": [4, 4]}, "end coordinates can't be before start coordinates. Got: start=5 end=4"),
        ({"start": [5, 5], "shape": [-1, 4]}, "end coordinates can't be before start coordinates. Got: start=5 end=4"),
        ({"start": [-1, 0]}, "can't be placed out of bounds"),
        ({"start": [1, 1], "axes": [0, 0]}, "must differ"),
        ({"start": [1, 1], "axes": [0, 3]}, "Axis 3 out of range"),
        ({"start": [1, 1], "axes": [0, 1], "axis_names": "HW"}, "mutually exclusive"),
        ({"start": [1, 1], "axis_names": "HD"}, "Axis 'D' is not present"),
        ({"start": [1, 1, 1]}, "'start' has 3 values for sample 0, but 2 axes are sliced"),
        ({"start": [-1, 0], "out_of_bounds_policy": "around"}, "'out_of_bounds_policy' must be one of"),
        ({"start": [-1, 0], "out_of_bounds_policy": "pad", "fill_values": [1.0, 2.0]}, "has 2 values"),
    ],
)
def test_bad_calls_are_refused(arguments: dict[str, Any], match: str) -> None:
    refused_by_both(lambda fn, _, x: fn.slice(x, **arguments), sample_images(*RAGGED), layouts=["HWC"], match=match)


@pytest.mark.parity
def test_incomplete_inputs_and_two_ways_of_passing_them_are_refused() -> None:
    anchor = [np.int32([1, 1])] * 3
    refused_by_both(
        lambda fn, _, x, a: fn.slice(x, a),
        sample_images(*RAGGED),
        anchor,
        layouts=["HWC"],
        match="a shape as the third",
    )
    refused_by_both(
        lambda fn, _, x, a: fn.slice(x, a, a, start=[1, 1]),
        sample_images(*RAGGED),
        anchor,
        layouts=["HWC"],
        match="'start' can't be used together with the anchor",
    )


def test_sample_with_a_wrong_window_is_named() -> None:
    anchor = [np.int32([1, 1]), np.int32([1, 1]), np.int32([1, 99])]
    with pytest.raises(RuntimeError, match="for sample 2: Slice can't be placed out of bounds") as caught:
        run_ours(lambda fn, _, x, a: fn.slice(x, a, a, axes=[0, 1]), sample_images(*RAGGED), anchor, layouts=["HWC"])
    assert [failure.sample for failure in caught.value.failures] == [2]  # type: ignore[attr-defined]
