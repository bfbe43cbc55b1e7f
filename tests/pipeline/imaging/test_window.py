from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dali_proxy.pipeline._imaging.window import extract
from tests.pipeline.imaging import oracle

dali_fn = pytest.importorskip("nvidia.dali.fn")


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_windows_agree_with_padding_by_numpy(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=4))
    axes = data.draw(st.integers(1, len(shape)))
    start = [data.draw(st.integers(-8, 8)) for _ in range(axes)]
    extent = [data.draw(st.integers(0, 8)) for _ in range(axes)]
    array = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    margin = 20
    padded = np.pad(array, [(margin, margin)] * axes + [(0, 0)] * (len(shape) - axes), constant_values=-7)
    place = tuple(slice(first + margin, first + margin + size) for first, size in zip(start, extent, strict=True))
    np.testing.assert_array_equal(extract(array, start, extent, policy="pad", fill=-7), padded[place])
    out = np.empty(padded[place].shape, np.int32)
    assert extract(array, start, extent, policy="pad", fill=-7, out=out) is out
    np.testing.assert_array_equal(out, padded[place])

    trimmed = extract(array, start, extent, policy="trim_to_shape")
    inside = tuple(
        slice(min(max(first, 0), limit), min(max(first + size, 0), limit))
        for first, size, limit in zip(start, extent, shape, strict=False)
    )
    np.testing.assert_array_equal(trimmed, array[inside])


@pytest.mark.parity
@pytest.mark.parametrize("policy", ["pad", "trim_to_shape"])
def test_slices_equal_dali(policy: str) -> None:
    image = np.arange(5 * 6 * 3, dtype=np.uint8).reshape(5, 6, 3)
    (expected,) = oracle.run(
        lambda data: dali_fn.slice(
            data, start=[-1, 3], shape=[4, 5], axes=[0, 1], out_of_bounds_policy=policy, fill_values=[9.0, 8.0, 7.0]
        ),
        [image],
        layout="HWC",
    )
    np.testing.assert_array_equal(extract(image, (-1, 3), (4, 5), policy=policy, fill=[9, 8, 7]), expected)


def test_window_inside_is_a_view() -> None:
    image = np.zeros((5, 6, 3), np.uint8)
    assert extract(image, (1, 1), (2, 2)).base is image
    assert extract(image, (1, 1), (2, 2), policy="pad").base is image


def test_fill_values_run_along_the_channels_and_are_clamped() -> None:
    image = np.zeros((2, 2, 2), np.uint8)
    assert extract(image, (2, 0), (1, 1), policy="pad", fill=[300, 2.9])[0, 0].tolist() == [255, 2]
    planes = extract(image, (0, 5, 5), (2, 1, 1), policy="pad", fill=[3, 4], channel_axis=0)
    assert planes.ravel().tolist() == [3, 4]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"start": (0, 5), "shape": (1, 3)}, "exceeds the array"),
        ({"start": (0,), "shape": (1, 3)}, "doesn't fit"),
        ({"start": (0, 0), "shape": (1, -3)}, "negative"),
        ({"start": (0, 0), "shape": (1, 1), "policy": "wrap"}, "unknown out-of-bounds policy"),
        ({"start": (0, 9), "shape": (1, 1), "policy": "pad", "fill": [1, 2]}, "2 fill values"),
    ],
)
def test_window_errors_name_the_mismatch(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        extract(np.zeros((5, 6, 3), np.uint8), **arguments)
