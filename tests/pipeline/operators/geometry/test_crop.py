"""`fn.crop` equals DALI's exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import OperatorError
from tests.pipeline.operators.both import RAGGED, compare, refused_by_both, run_ours, sample_images

# DALI accepts layouts of 5 dimensions, too, but then refuses the data; here they work.
LAYOUTS = ("HWC", "CHW", "DHWC", "CDHW", "FHWC", "FCHW", "CFHW")


def shape_of(layout: str, height: int, width: int, channels: int = 3) -> tuple[int, ...]:
    extents = {"H": height, "W": width, "C": channels, "D": 4, "F": 2}
    return tuple(extents[letter] for letter in layout)


@pytest.mark.parity
@pytest.mark.parametrize("layout", [*LAYOUTS, None])
@pytest.mark.parametrize("policy", ["error", "pad", "trim_to_shape"])
def test_layouts_and_policies(layout: str | None, policy: str) -> None:
    feed = sample_images(shape_of(layout or "HWC", 9, 7), shape_of(layout or "HWC", 8, 11))
    height = 6 if policy == "error" else 10
    arguments = {"crop": [height, 5], "crop_pos_x": 0.3, "fill_values": 7.0, "out_of_bounds_policy": policy}
    compare(lambda fn, _, x: fn.crop(x, **arguments), feed, layouts=[layout])


@pytest.mark.parity
@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_windows(data: st.DataObject) -> None:
    """Sizes, positions and rounding differ by sample, and windows may exceed the image."""
    shapes = [(data.draw(st.integers(1, 12)), data.draw(st.integers(1, 12)), 3) for _ in range(2)]
    arguments: dict[str, Any] = {
        "out_of_bounds_policy": data.draw(st.sampled_from(["pad", "constant", "trim_to_shape"])),
        "rounding": data.draw(st.sampled_from(["round", "truncate"])),
        "fill_values": data.draw(st.sampled_from([[9.0], [1.0, 2.0, 250.0]])),
    }
    sizes = [[np.float32(data.draw(st.integers(0, 30)) / 2) for _ in shapes] for _ in range(2)]
    positions = [[np.float32(data.draw(st.integers(0, 8)) / 8) for _ in shapes] for _ in range(2)]
    compare(
        lambda fn, _, x, h, w, py, px: fn.crop(x, crop_h=h, crop_w=w, crop_pos_y=py, crop_pos_x=px, **arguments),
        sample_images(*shapes),
        *sizes,
        *positions,
        layouts=["HWC"],
    )


def test_sequences_of_volumes() -> None:
    feed = sample_images(shape_of("FDHWC", 9, 7))
    (output,) = run_ours(lambda fn, _, x: fn.crop(x, crop=[2, 4, 3], crop_pos_z=1.0), feed, layouts=["FDHWC"])
    assert np.array_equal(output.samples[0], feed[0][:, 2:, 3:7, 2:5])


@pytest.mark.parity
def test_depth() -> None:
    feed = sample_images((5, 6, 7, 2), (4, 8, 9, 2))
    compare(lambda fn, _, x: fn.crop(x, crop=[2, 3, 4], crop_pos_z=1.0), feed, layouts=["DHWC"])
    compare(lambda fn, _, x: fn.crop(x, crop_d=3, crop_h=3, crop_w=2), feed, layouts=["DHWC"])
    compare(lambda fn, _, x: fn.crop(x, crop=[2, 3, 4]), sample_images((5, 6, 2)), layouts=["HWC"])


@pytest.mark.parity
@pytest.mark.parametrize("source", ["uint8", "int8", "uint16", "int16", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("target", ["UINT8", "FLOAT16", "FLOAT"])
def test_dtypes(source: str, target: str) -> None:
    """Floats are truncated to integers, and all values saturate."""
    low, high = (-400.0, 400.0) if np.dtype(source).kind in "f" or source[0] == "i" else (0.0, 255.0)
    if source == "int8":
        low, high = -128.0, 127.0
    feed = sample_images((6, 5, 3), dtype=source, low=low, high=high)
    feed[0].flat[:3] = (1.75, 2.5, 127)
    arguments = {"crop": [3, 7], "out_of_bounds_policy": "pad", "fill_values": 2.0, "crop_pos_y": 0.0}
    compare(lambda fn, types, x: fn.crop(x, dtype=getattr(types, target), **arguments), feed, layouts=["HWC"])


@pytest.mark.parity
def test_float16_saturates() -> None:
    feed = [np.array([1e5, -1e6, 65504, 3.7], np.float32).reshape(2, 2, 1)]
    compare(lambda fn, types, x: fn.crop(x, crop=[2, 2], dtype=types.FLOAT16), feed, layouts=["HWC"])


@pytest.mark.parity
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"crop": [3]}, "`crop` argument should have 2 or 3 elements"),
        ({"crop": [3, 3], "crop_w": 3}, "`crop` argument is not compatible with .*, but 'crop_w'"),
        ({"crop_w": 3}, "'crop_w' also needs 'crop_h'"),
        ({"crop_h": 3}, "'crop_h' also needs 'crop_w'"),
        ({"crop": [3, 3], "crop_pos_x": 1.5}, r"'crop_pos_x' must be between 0 and 1, not 1.5 for sample 0"),
        ({"crop": [99, 3]}, "sample 0: Slice can't be placed out of bounds .*input_shape=.17 x 23 x 3."),
        ({"crop": [3, 3], "rounding": "up"}, "'rounding' must be one of"),
        ({"crop": [99, 3], "out_of_bounds_policy": "nothing"}, "'out_of_bounds_policy' must be one of"),
        ({"crop": [3, 3], "fill_values": [1.0, 2.0], "out_of_bounds_policy": "pad"}, "has 2 values for 3 channels"),
    ],
)
def test_bad_calls_are_refused(arguments: dict[str, Any], match: str) -> None:
    refused_by_both(lambda fn, _, x: fn.crop(x, **arguments), sample_images(*RAGGED), layouts=["HWC"], match=match)


@pytest.mark.parity
def test_layouts_without_height_or_channels_are_refused() -> None:
    refused_by_both(
        lambda fn, _, x: fn.crop(x, crop=[2, 2]), sample_images((5, 5)), layouts=["HW"], match='layout "HW"'
    )
    refused_by_both(
        lambda fn, _, x: fn.crop(x, crop=[2, 2]),
        sample_images((5, 5)),
        match="number of dimensions 2 does not match any of the allowed",
    )
    with pytest.raises(OperatorError, match=r"without channels needs one: array\[\.\.\., None\]"):
        run_ours(lambda fn, _, x: fn.crop(x, crop=[2, 2]), sample_images((5, 5)))


def test_only_failing_samples_are_named() -> None:
    with pytest.raises(OperatorError, match="for sample 1") as caught:
        run_ours(lambda fn, _, x: fn.crop(x, crop=[15, 15]), sample_images(*RAGGED), layouts=["HWC"])
    assert [failure.sample for failure in caught.value.failures] == [1]


def test_window_that_lies_inside_is_a_view() -> None:
    import pipeline
    from pipeline import fn

    feed = sample_images((8, 9, 3), (7, 7, 3))
    with pipeline.Pipeline(batch_size=2, num_threads=1, device_id=None) as pipe:
        data = fn.external_source(name="x", layout="HWC", no_copy=True)
        pipe.set_outputs(fn.crop(data, crop=[4, 0]))
    (output,) = pipe.run(x=feed)
    assert all(np.shares_memory(output.at(index), image) for index, image in enumerate(feed))
    pipe.close()
