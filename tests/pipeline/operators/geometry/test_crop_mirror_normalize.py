"""crop_mirror_normalize: integers are exact, floats within the rounding of one multiplication and addition.

DALI computes (pixel - m) * s, we compute pixel * s + b: both round to float32, so they differ by about 1e-7 of the
largest intermediate. FLOAT16 may round to the other neighbour: one unit in the last of its 11 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import OperatorError
from tests.pipeline.operators.both import RAGGED, compare, refused_by_both, run_ours, sample_images

IMAGENET = {"mean": [123.675, 116.28, 103.53], "std": [58.395, 57.12, 57.375]}
# Pixels up to 255 over deviations of about 50: values of a few units.
FLOAT32 = 2e-6
FLOAT16 = 4e-3


@pytest.mark.parity
@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "int32", "float16", "float32"])
def test_input_dtypes(dtype: str) -> None:
    feed = sample_images(*RAGGED, dtype=dtype)
    compare(lambda fn, _, x: fn.crop_mirror_normalize(x, **IMAGENET), feed, layouts=["HWC"], tolerance=FLOAT32)


@pytest.mark.parity
@pytest.mark.parametrize("source", ["uint8", "float32"])
@pytest.mark.parametrize("target", ["FLOAT", "FLOAT16", "INT8", "UINT8"])
def test_output_dtypes(source: str, target: str) -> None:
    """Integers are rounded and saturated; the image has ties at .5."""
    feed = sample_images(*RAGGED, dtype=source)
    arguments = {"mean": [100.0, 30.0, 60.0], "std": [2.0, 1.0, 0.5], "scale": 0.5, "shift": 1.5, "mirror": 1}
    tolerance = 0.25 if target == "FLOAT16" else 1e-5 if target == "FLOAT" else 0
    if target in ("INT8", "UINT8") and source == "float32":
        tolerance = 1  # a value that is a tie in one implementation may not be a tie in the other
    compare(
        lambda fn, types, x: fn.crop_mirror_normalize(x, dtype=getattr(types, target), **arguments),
        feed,
        layouts=["HWC"],
        tolerance=tolerance,
    )


@pytest.mark.parity
@pytest.mark.parametrize(
    ("layout", "output_layout"),
    [
        ("HWC", "HWC"),
        ("HWC", "CHW"),
        ("HWC", "CWH"),
        ("HWC", ""),
        ("CHW", "CHW"),
        ("CHW", "HWC"),
        ("FHWC", "FCHW"),
        ("FHWC", "CFHW"),
        ("DHWC", "CDHW"),
        ("FCHW", "FHWC"),
        ("CFHW", ""),
        (None, "CHW"),
        (None, ""),
    ],
)
@pytest.mark.parametrize("policy", ["error", "pad", "trim_to_shape"])
def test_layouts(layout: str | None, output_layout: str, policy: str) -> None:
    extents = {"H": 9, "W": 7, "C": 3, "D": 4, "F": 2}
    feed = sample_images(
        *[tuple(extents[letter] + more * (letter in "HW") for letter in layout or "HWC") for more in (0, 3)]
    )
    arguments = {"crop": [6 if policy == "error" else 11, 5], "out_of_bounds_policy": policy, "fill_values": 3.0}
    compare(
        lambda fn, _, x: fn.crop_mirror_normalize(x, output_layout=output_layout, mirror=1, **IMAGENET, **arguments),
        feed,
        layouts=[layout],
        tolerance=FLOAT32,
    )


@pytest.mark.parity
@pytest.mark.parametrize("size", [[2, 4, 3], [6, 4, 3]])
def test_depth(size: list[int]) -> None:
    arguments = {"crop": size, "crop_pos_z": 1.0, "out_of_bounds_policy": "pad", "fill_values": 5.0}
    compare(
        lambda fn, _, x: fn.crop_mirror_normalize(x, output_layout="CDHW", **arguments),
        sample_images((4, 5, 6, 2)),
        layouts=["DHWC"],
    )


@pytest.mark.parity
@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data())
def test_arguments_per_sample(data: st.DataObject) -> None:
    shapes = [(data.draw(st.integers(1, 12)), data.draw(st.integers(1, 12)), 3) for _ in range(2)]
    draw = data.draw
    mirror = [np.int32(draw(st.integers(0, 2))) for _ in shapes]
    mean = [np.array([draw(st.integers(0, 99)) for _ in range(3)], np.float32) for _ in shapes]
    std = [np.array([draw(st.integers(1, 99)) for _ in range(3)], np.float32) for _ in shapes]
    position = [np.float32(draw(st.integers(0, 8)) / 8) for _ in shapes]
    arguments: dict[str, Any] = {
        "crop_w": draw(st.integers(1, 14)),
        "crop_h": draw(st.integers(1, 14)),
        "out_of_bounds_policy": draw(st.sampled_from(["pad", "trim_to_shape"])),
        "fill_values": draw(st.sampled_from([[9.0], [1.0, 2.0, -4.5]])),
        "output_layout": draw(st.sampled_from(["CHW", "HWC"])),
    }
    compare(
        lambda fn, _, x, mirror, mean, std, position: fn.crop_mirror_normalize(
            x, mirror=mirror, mean=mean, std=std, crop_pos_x=position, **arguments
        ),
        sample_images(*shapes),
        mirror,
        mean,
        std,
        position,
        layouts=["HWC"],
        tolerance=4e-5,
    )


@pytest.mark.parity
@pytest.mark.parametrize("channels", [1, 3, 4, 5])
@pytest.mark.parametrize("policy", ["error", "pad"])
@pytest.mark.parametrize("output_layout", ["CHW", "HWC"])
def test_channels_are_padded_to_a_power_of_two(channels: int, policy: str, output_layout: str) -> None:
    arguments = {"out_of_bounds_policy": policy, "fill_values": 9.0, "output_layout": output_layout}
    compare(
        lambda fn, _, x: fn.crop_mirror_normalize(x, pad_output=True, mean=1.0, crop=[5, 5], **arguments),
        sample_images((6, 7, channels)),
        layouts=["HWC"],
    )


@pytest.mark.parity
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"mean": [1.0, 2.0]}, "'mean' or 'std' has 2 values for 3 channels"),
        ({"mean": [1.0, 2.0, 3.0], "std": [1.0, 2.0]}, "they have 3 and 2 values"),
        ({"output_layout": "CH"}, "is not a permutation of input layout: .* and 'HWC'"),
        ({"output_layout": "NCHW"}, "is not a permutation"),
        ({"dtype": 6}, "'dtype' must be FLOAT, FLOAT16, INT8 or UINT8"),
        ({"crop": [99, 99]}, "can't be placed out of bounds"),
        ({"out_of_bounds_policy": "edge"}, "'out_of_bounds_policy' must be one of"),
        (
            {"pad_output": True, "out_of_bounds_policy": "pad", "fill_values": [1.0, 2.0, 3.0]},
            "3 values for 4 channels",
        ),
    ],
)
def test_bad_calls_are_refused(arguments: dict[str, Any], match: str) -> None:
    refused_by_both(
        lambda fn, _, x: fn.crop_mirror_normalize(x, **arguments), sample_images(*RAGGED), layouts=["HWC"], match=match
    )


@pytest.mark.parity
def test_sequence_needs_an_output_layout() -> None:
    refused_by_both(
        lambda fn, _, x: fn.crop_mirror_normalize(x),
        sample_images((2, 4, 4, 3)),
        layouts=["FHWC"],
        match="is not a permutation",
    )


def test_deviation_of_zero_is_refused() -> None:
    """DALI returns infinities."""
    with pytest.raises(OperatorError, match="'std' is 0 for sample 0"):
        run_ours(lambda fn, _, x: fn.crop_mirror_normalize(x, std=0.0), sample_images((4, 4, 3)), layouts=["HWC"])


def test_output_is_one_array_when_sizes_are_known() -> None:
    import pipeline
    from pipeline import fn

    with pipeline.Pipeline(batch_size=3, num_threads=2, device_id=None) as pipe:
        pipe.set_outputs(fn.crop_mirror_normalize(fn.external_source(name="x"), crop=[8, 9], mirror=1))
    (output,) = pipe.run(x=sample_images(*RAGGED))
    assert output.dense is not None
    assert output.dense.shape == (3, 3, 8, 9)
    pipe.close()
