"""`resize_crop_mirror` equals `resize`, `crop` and `flip` in sequence. tests/parity compares it with DALI."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.pipeline.operators.both import difference, refused_by_both, run_ours, sample_images

EXTENTS = {"C": 3, "F": 2, "H": 11, "W": 14, "D": 9}


@pytest.mark.parametrize("layout", ["HWC", "CHW", "FCHW", "CFHW"])
@pytest.mark.parametrize("mirror", [0, 1, 2, 3])
def test_result_equals_that_of_single_operators(layout: str, mirror: int) -> None:
    """In layouts that don't begin with H, DALI doesn't flip the axes that it documents."""

    def graph(fn: Any, types: Any, x: Any) -> Any:
        arguments = {"size": [8, -9], "dtype": types.FLOAT, "interp_type": types.INTERP_CUBIC}
        both = fn.crop(fn.resize(x, **arguments), crop=[5, 6], crop_pos_x=0.2)
        return fn.resize_crop_mirror(x, crop=[5, 6], crop_pos_x=0.2, mirror=mirror, **arguments), both

    feed = sample_images(tuple(EXTENTS[letter] for letter in layout))
    one, both = (output.samples[0] for output in run_ours(graph, feed, layouts=[layout]))
    for bit, letter in ((1, "W"), (2, "H")):
        both = np.flip(both, layout.index(letter)) if mirror & bit else both
    assert difference(one, both) < 1e-3


def test_windows_of_known_size_are_one_array() -> None:
    from pipeline import Pipeline, fn

    with Pipeline(batch_size=2, num_threads=1, device_id=None) as pipe:
        data = fn.external_source(name="x", layout="HWC")
        pipe.set_outputs(fn.resize_crop_mirror(data, resize_shorter=9, crop=[5, 6]))
    pipe.build()
    pipe.feed_input("x", sample_images((11, 14, 3), (20, 9, 3)))
    (output,) = pipe.run()
    assert output.as_tensor().shape() == [2, 5, 6, 3]
    pipe.close()


@pytest.mark.parity
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"crop": [3, 3]}, "Exactly one method of specifying size must be used"),
        ({"size": [8, 8], "crop_w": 3}, "needs 'crop_h'"),
        ({"size": [8, 8], "crop": [3, 3], "crop_pos_x": 1.5}, "between 0 and 1"),
    ],
)
def test_calls_refused_by_both(arguments: dict[str, Any], match: str) -> None:
    refused_by_both(
        lambda fn, _, x: fn.resize_crop_mirror(x, **arguments), sample_images((9, 9, 3)), layouts=["HWC"], match=match
    )


@pytest.mark.parity
@pytest.mark.parametrize(
    ("name", "match"), [("jpeg_compression_distortion", 'layout "CHW"'), ("resize_crop_mirror", "size")]
)
def test_distortion_needs_images(name: str, match: str) -> None:
    refused_by_both(lambda fn, _, x: getattr(fn, name)(x), sample_images((3, 9, 9)), layouts=["CHW"], match=match)
