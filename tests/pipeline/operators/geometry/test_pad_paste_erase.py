"""`pad`, `paste` and `erase` move data, so they equal DALI's exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline.operators.both import RAGGED, compare, refused_by_both, run_ours, sample_images

ALL = (
    "uint8",
    "int8",
    "uint16",
    "int16",
    "uint32",
    "int32",
    "uint64",
    "int64",
    "float16",
    "float32",
    "float64",
    "bool",
)
SMALL = ((2, 3, 1), (1, 5, 2), (4, 2, 2))


@pytest.mark.parity
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"fill_value": 7.9},
        {"axes": [0]},
        {"axes": [-1, 0]},
        {"axes": 1, "shape": 6, "align": 4},
        {"axes": [1, 0], "shape": [9, 3]},
        {"axis_names": "WH", "shape": [7, -1], "align": [1, 3]},
        {"axis_names": "W"},
        {"shape": 1, "align": 2},
        {"shape": [0, -2, 4]},
        {"axes": [], "align": 5},
    ],
)
def test_pad(arguments: dict[str, Any]) -> None:
    compare(lambda fn, _, x: fn.pad(x, **arguments), sample_images(*SMALL), layouts=["HWC"])


@pytest.mark.parity
@settings(max_examples=20, deadline=None, derandomize=True)
@given(data=st.data())
def test_pad_with_arguments_per_sample(data: st.DataObject) -> None:
    ndim = data.draw(st.integers(1, 4))
    shapes = [tuple(data.draw(st.integers(1, 5)) for _ in range(ndim)) for _ in range(3)]
    counts = [data.draw(st.integers(1, ndim)) for _ in shapes]
    feed = sample_images(*shapes, dtype=data.draw(st.sampled_from(ALL)), high=1)
    if feed[0].dtype == np.float64:  # DALI refuses it
        feed = [sample.astype(np.float32) for sample in feed]

    def integers(low: int, high: int) -> list[np.ndarray[Any, Any]]:
        return [np.array([data.draw(st.integers(low, high)) for _ in range(n)], np.int32) for n in counts]

    axes = [np.array(data.draw(st.permutations(range(ndim)))[:n], np.int32) for n in counts]
    fill = [np.float32(data.draw(st.integers(0, 100))) for _ in counts]
    compare(
        lambda fn, _, x, a, s, m, f: fn.pad(x, axes=a, shape=s, align=m, fill_value=f),
        feed,
        axes,
        integers(-1, 7),
        integers(1, 4),
        fill,
    )


@pytest.mark.parity
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"axes": [0], "axis_names": "H"}, "mutually exclusive"),
        ({"axes": [3]}, "Axis 3 out of range"),
        ({"axes": [0, -3]}, "must differ"),
        ({"axis_names": "Q"}, "Axis 'Q' is not present"),
        ({"align": 0}, "positive"),
        ({"shape": [4, 4]}, "expected shape 3 but got 2 values"),
    ],
)
def test_pad_refuses_bad_calls(arguments: dict[str, Any], match: str) -> None:
    refused_by_both(lambda fn, _, x: fn.pad(x, **arguments), sample_images(*SMALL), layouts=["HWC"], match=match)


def test_fill_values_saturate() -> None:
    (output,) = run_ours(lambda fn, _, x: fn.pad(x, fill_value=300), sample_images((1,), (2,)))
    assert output.samples[0][1] == 255


@pytest.mark.parity
@settings(max_examples=20, deadline=None, derandomize=True)
@given(data=st.data())
def test_paste(data: st.DataObject) -> None:
    channels = data.draw(st.sampled_from([1, 3, 4]))
    feed = sample_images(*[(data.draw(st.integers(1, 30)), data.draw(st.integers(1, 30)), channels) for _ in range(3)])

    def floats(low: float, high: float) -> list[Any]:
        return [np.float32(data.draw(st.floats(low, high, width=32))) for _ in feed]

    colour = data.draw(st.sampled_from([[7], [1, 2, 3, 4][:channels]]))
    compare(
        lambda fn, _, x, r, px, py, least: fn.paste(
            x, ratio=r, paste_x=px, paste_y=py, min_canvas_size=least, fill_value=colour, n_channels=channels
        ),
        feed,
        floats(1, 3),
        floats(0, 1),
        floats(0, 1),
        floats(0, 50),
        layouts=["HWC"],
    )


@pytest.mark.parity
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"ratio": 0.5, "fill_value": 1}, "ratio of less than 1 is not supported"),
        ({"ratio": 2, "fill_value": [1, 2]}, "needs 1 or 3 values"),
        ({"ratio": 2, "fill_value": 1, "paste_x": 1.5}, "must be in range .0, 1."),
        ({"fill_value": 1}, 'specify values for arguments: "ratio"'),
        ({"ratio": 2}, 'specify values for arguments: "fill_value"'),
    ],
)
def test_paste_refuses_bad_calls(arguments: dict[str, Any], match: str) -> None:
    refused_by_both(lambda fn, _, x: fn.paste(x, **arguments), sample_images(*RAGGED), layouts=["HWC"], match=match)


def test_paste_takes_images_only() -> None:
    with pytest.raises(ValueError, match='layout "CHW"'):
        run_ours(lambda fn, _, x: fn.paste(x, ratio=2, fill_value=0), sample_images((3, 4, 5)), layouts=["CHW"])


@pytest.mark.parity
@pytest.mark.parametrize(
    "arguments",
    [
        {"anchor": [1.6, 2.5], "shape": [2.2, 3.4]},
        {"anchor": [-1.6, -2.5], "shape": [4.2, 5.4]},
        {"anchor": [0, 1, 4, 5], "shape": [1, 2, 20, 2], "fill_value": [7.5, 8, 9]},
        {"anchor": [0, 5], "shape": [1, 2], "axis_names": "W"},
        {"anchor": [0, 5], "shape": [3, 1], "axis_names": "WH"},
        {"anchor": [0, 5], "shape": [3, 1], "axes": [1, 0]},
        {"anchor": [0.15, 0.15], "shape": [0.3, 0.3], "normalized": True, "fill_value": 9},
        {"anchor": [0.3, 0.3], "shape": [2, 3], "normalized_anchor": True},
        {"anchor": [3, 3], "shape": [0.3, 0.4], "normalized_shape": True},
        {"anchor": [3, 3], "shape": [3, 4], "centered_anchor": True},
        {"anchor": [3, 4], "shape": [-2, -2]},
        {"anchor": [90, 4], "shape": [2, 2]},
        {"shape": [2, 2]},
        {},
    ],
)
def test_erase(arguments: dict[str, Any]) -> None:
    compare(lambda fn, _, x: fn.erase(x, **arguments), sample_images(*RAGGED), layouts=["HWC"])


@pytest.mark.parity
@pytest.mark.parametrize("dtype", [dtype for dtype in ALL if dtype not in ("bool", "float64")])  # DALI refuses those
def test_erase_dtypes(dtype: str) -> None:
    feed = sample_images(*RAGGED, dtype=dtype, high=100)
    compare(lambda fn, _, x: fn.erase(x, anchor=[1, 2], shape=[3, 4], fill_value=3.75), feed, layouts=["HWC"])


@pytest.mark.parity
@pytest.mark.parametrize(("layout", "axes"), [("CHW", 2), ("FHWC", 3), ("DHWC", 3), ("FDHWC", 4)])
def test_erase_layouts(layout: str, axes: int) -> None:
    shape = {"C": 3, "H": 7, "W": 8, "F": 2, "D": 5}
    feed = sample_images(tuple(shape[letter] for letter in layout))
    box: dict[str, Any] = {"anchor": [1] * axes, "shape": [2] * axes}
    compare(lambda fn, _, x: fn.erase(x, **box), feed, layouts=[layout])
    compare(lambda fn, _, x: fn.erase(x, **box, fill_value=[1, 2, 3]), feed, layouts=[layout])
    compare(lambda fn, _, x: fn.erase(x, anchor=[1, 5], shape=[2, 2], axis_names="HW"), feed, layouts=[layout])


@pytest.mark.parity
@settings(max_examples=20, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), centered=st.booleans(), anchors=st.booleans(), shapes=st.booleans())
def test_erase_with_arguments_per_sample(seed: int, centered: bool, anchors: bool, shapes: bool) -> None:
    generator = np.random.default_rng(seed)
    feed = sample_images(*[(*generator.integers(3, 30, 2).tolist(), 3) for _ in range(3)], seed=seed)
    counts = generator.integers(1, 4, 3)
    anchor = [generator.uniform(-0.3, 1.1, 2 * n).astype(np.float32) * (1 if anchors else 20) for n in counts]
    shape = [generator.uniform(0, 1, 2 * n).astype(np.float32) * (1 if shapes else 20) for n in counts]
    fill = [generator.uniform(0, 255, 3).astype(np.float32) for _ in counts]
    compare(
        lambda fn, _, x, a, s, f: fn.erase(
            x,
            anchor=a,
            shape=s,
            fill_value=f,
            centered_anchor=centered,
            normalized_anchor=anchors,
            normalized_shape=shapes,
        ),
        feed,
        anchor,
        shape,
        fill,
        layouts=["HWC"],
    )


@pytest.mark.parity
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"anchor": [1, 2]}, "2 values and 'shape' 0"),
        ({"anchor": [1, 2, 3], "shape": [1, 2, 3]}, "once for every region"),
        ({"anchor": 1, "shape": 1, "axis_names": "Q"}, "Axis 'Q' is not present"),
        ({"anchor": [1, 2], "shape": [1, 2], "fill_value": [1, 2]}, "2 values, 3 channels"),
        ({"anchor": [1, 2], "shape": [1, 2], "normalized": True, "normalized_anchor": True}, "can't be used together"),
    ],
)
def test_erase_refuses_bad_calls(arguments: dict[str, Any], match: str) -> None:
    refused_by_both(lambda fn, _, x: fn.erase(x, **arguments), sample_images(*RAGGED), layouts=["HWC"], match=match)
