"""`rotate` and `warp_affine`: nearest pixels are exact except ties; interpolation differs by float32 positions.

Positions of tens of pixels have an error of up to 1e-5 in float32, times differences of neighbours of up to 255.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dali_proxy.pipeline._imaging import warp
from dali_proxy.pipeline.errors import OperatorError
from tests.pipeline.operators.both import RAGGED, compare, refused_by_both, run_dali, run_ours, sample_images

FLOATS = 2e-2
LAYOUTS = {"HWC": (13, 17, 3), "FHWC": (2, 13, 17, 3), "DHWC": (5, 6, 7, 2), "FDHWC": (2, 5, 6, 7, 1)}
AXIS = {"axis": [1, 2, 3]}


def matrices(ndim: int, count: int = 3, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    generator = np.random.default_rng(seed)
    transforms = generator.normal(size=(count, ndim, ndim + 1)).astype(np.float32)
    transforms[..., -1] += 5
    return list(transforms)


@pytest.mark.parity
@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_rotated_extents(data: st.DataObject) -> None:
    volume = data.draw(st.booleans())
    limit = 20 if volume else 60
    feed = [np.ones([data.draw(st.integers(1, limit)) for _ in range(2 + volume)] + [1], np.uint8) for _ in range(3)]
    angles = [np.float32(data.draw(st.one_of(st.integers(-360, 360), st.floats(-360, 360, width=32)))) for _ in feed]
    layout = "DHWC" if volume else "HWC"
    ours, theirs = (
        run(lambda fn, _, x, a: fn.rotate(x, angle=a, **(AXIS if volume else {})), feed, angles, layouts=[layout])
        for run in (run_ours, run_dali)
    )
    assert [s.shape for s in ours[0].samples] == [s.shape for s in theirs[0].samples]


@pytest.mark.parity
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "arguments", [{}, {"fill_value": 9.5}, {"keep_size": True}, {"fill_value": 300, "keep_size": True}]
)
def test_rotate(layout: str, arguments: dict[str, Any]) -> None:
    axis = AXIS if "D" in layout else {}
    for dtype, tolerance in (("uint8", 1), ("float32", FLOATS)):
        feed = sample_images(LAYOUTS[layout], dtype=dtype)
        for angle in (31.5, 200):
            compare(
                lambda fn, _, x, a=angle: fn.rotate(x, angle=a, **axis, **arguments),
                feed,
                layouts=[layout],
                tolerance=tolerance,
            )


@pytest.mark.parity
@pytest.mark.parametrize("angle", [0, 90, 180, 270, -90])
def test_quarter_turns_are_exact(angle: int) -> None:
    compare(lambda fn, _, x: fn.rotate(x, angle=angle), sample_images(*RAGGED), layouts=["HWC"])


@pytest.mark.parity
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("dtype", "tolerance"), [("uint8", 1), ("int16", 1), ("int32", 1), ("float32", FLOATS)])
def test_warp_channels_and_dtypes(channels: int, dtype: str, tolerance: float) -> None:
    feed = sample_images((17, 23, channels), (31, 12, channels), (20, 20, channels), dtype=dtype)
    for arguments in ({}, {"fill_value": 7.75}):
        compare(
            lambda fn, _, x, m, a=arguments: fn.warp_affine(x, m, size=[20, 30], **a),
            feed,
            matrices(2),
            layouts=["HWC"],
            tolerance=tolerance,
        )


@pytest.mark.parity
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("inverse", [True, False])
def test_warp_layouts(layout: str, inverse: bool) -> None:
    feed = sample_images(LAYOUTS[layout], dtype="float32")
    ndim = 3 if "D" in layout else 2
    single = (np.eye(ndim, ndim + 1) + 0.2 * matrices(ndim, 1)[0]).astype(np.float32)
    for fill in ({}, {"fill_value": 3.0}):
        arguments: dict[str, Any] = {"inverse_map": inverse, **fill}
        compare(
            lambda fn, _, x, m, a=arguments: fn.warp_affine(x, m, **a),
            feed,
            [single],
            layouts=[layout],
            tolerance=FLOATS,
        )
        compare(
            lambda fn, _, x, a=arguments: fn.warp_affine(x, matrix=single.ravel().tolist(), **a),
            feed,
            layouts=[layout],
            tolerance=FLOATS,
        )


@pytest.mark.parity
def test_matrices_of_frames_and_arguments_per_sample() -> None:
    frames = [np.stack(matrices(2, 2))]
    feed = sample_images((2, 13, 17, 3))
    compare(lambda fn, _, x, m: fn.warp_affine(x, m), feed, frames, layouts=["FHWC", "F**"], tolerance=1)
    sizes = [np.float32([9.0, 12.4]), np.float32([1, 5]), np.float32([30, 7])]
    compare(
        lambda fn, _, x, m, s: fn.warp_affine(x, matrix=m, size=s),
        sample_images(*RAGGED),
        matrices(2),
        sizes,
        layouts=["HWC"],
        tolerance=1,
    )


def test_sizes_are_rounded() -> None:
    """As DALI documents. DALI rounds constants, but truncates sizes that are given per sample."""
    sizes = [np.float32([9.5, 12.4]), np.float32([0.3, 5]), np.float32([30, 7.6])]
    (output,) = run_ours(
        lambda fn, _, x, s: fn.rotate(x, angle=3, size=s), sample_images(*RAGGED), sizes, layouts=["HWC"]
    )
    assert [sample.shape[:2] for sample in output.samples] == [(10, 12), (1, 5), (30, 8)]
    compare(
        lambda fn, _, x: fn.rotate(x, angle=3, size=[9.5, 0.4]), sample_images(*RAGGED), layouts=["HWC"], tolerance=1
    )


@pytest.mark.parity
@pytest.mark.parametrize("fill", [{}, {"fill_value": 9}])
@pytest.mark.parametrize("layout", ["HWC", "DHWC"])
def test_nearest_is_exact(layout: str, fill: dict[str, Any]) -> None:
    compare(
        lambda fn, types, x, m: fn.warp_affine(x, m, interp_type=types.INTERP_NN, **fill),
        sample_images(LAYOUTS[layout]),
        matrices(len(layout) - 1, 1),
        layouts=[layout],
    )


@pytest.mark.parity
@pytest.mark.parametrize(("source", "target"), [("uint8", "FLOAT"), ("float32", "UINT8"), ("float32", "INT16")])
def test_output_dtypes(source: str, target: str) -> None:
    compare(
        lambda fn, types, x: fn.rotate(x, angle=31, fill_value=2.7, dtype=getattr(types, target)),
        sample_images(*RAGGED, dtype=source),
        layouts=["HWC"],
        tolerance=FLOATS if target == "FLOAT" else 1,
    )


@pytest.mark.parity
def test_samples_without_layout_are_images_or_sequences() -> None:
    compare(lambda fn, _, x: fn.rotate(x, angle=33), sample_images((13, 17, 3)), tolerance=1)
    compare(lambda fn, _, x: fn.rotate(x, angle=33), sample_images((2, 13, 17, 3)), tolerance=1)


@pytest.mark.parity
@pytest.mark.parametrize(
    ("name", "arguments", "match"),
    [
        ("rotate", {}, 'specify values for arguments: "angle"'),
        ("rotate", {"angle": 1, "size": [1, 2, 3]}, "same number of dimensions as the input .*: 2"),
        ("rotate", {"angle": 1, "size": [0, 2]}, "positive"),
        ("rotate", {"angle": 1, "interp_type": 2}, "INTERP_LINEAR or INTERP_NN"),
        ("warp_affine", {}, "must have 6 elements"),
        ("warp_affine", {"matrix": [1, 2, 3]}, "must have 6 elements"),
        ("warp_affine", {"matrix": [1, 0, 0, 1, 0, 0], "inverse_map": False}, "has no inverse"),
    ],
)
def test_bad_calls_are_refused(name: str, arguments: dict[str, Any], match: str) -> None:
    if "interp_type" in arguments:
        refused_by_both(
            lambda fn, types, x: fn.rotate(x, angle=1, interp_type=types.INTERP_CUBIC),
            sample_images(*RAGGED),
            match=match,
        )
        return
    refused_by_both(
        lambda fn, _, x: getattr(fn, name)(x, **arguments), sample_images(*RAGGED), layouts=["HWC"], match=match
    )


@pytest.mark.parity
def test_layouts_that_are_refused() -> None:
    refused_by_both(
        lambda fn, _, x: fn.rotate(x, angle=1), sample_images((3, 4, 5)), layouts=["CHW"], match="layout 'CHW'"
    )
    volume = sample_images((3, 4, 5, 1))
    refused_by_both(lambda fn, _, x: fn.rotate(x, angle=1), volume, layouts=["DHWC"], match="'axis' is required")


@pytest.mark.parametrize("angle", [17.0, -50.0])
def test_volumes_turn_clockwise_about_z_and_images_counter_clockwise(angle: float) -> None:
    volume = np.random.default_rng(0).random((3, 20, 30, 1), dtype=np.float32)

    def turned(layout: str, **arguments: Any) -> Any:
        made = run_ours(lambda fn, _, x: fn.rotate(x, keep_size=True, **arguments), [volume], layouts=[layout])
        return made[0].samples[0]

    about_z = turned("DHWC", angle=angle, axis=(0, 0, 1), fill_value=0)
    np.testing.assert_allclose(about_z, turned("FHWC", angle=-angle, fill_value=0), atol=1e-4)
    opposite = turned("DHWC", angle=angle, axis=(0, 0, -1), fill_value=0)
    np.testing.assert_allclose(opposite, turned("FHWC", angle=angle, fill_value=0), atol=1e-4)


@pytest.mark.parametrize(
    ("axis", "found"),
    [((1, 0, 0), [4, 2, 1]), ((0, 1, 0), [3, 4, 2]), ((0, 0, 1), [2, 1, 0])],
    ids=["y to z", "z to x", "x to y"],
)
def test_volumes_turn_by_a_quarter_about_x_y_and_z(axis: tuple[int, ...], found: list[int]) -> None:
    volume = np.zeros((5, 5, 5, 1), np.float32)
    volume[2, 4, 1] = 1  # z, y, x
    arguments = {"angle": 90.0, "axis": axis, "keep_size": True, "fill_value": 0}
    made = run_ours(lambda fn, _, x: fn.rotate(x, **arguments), [volume], layouts=["DHWC"])[0].samples[0]
    assert np.argwhere(made[..., 0] > 0.9).tolist() == [found]


@pytest.mark.parametrize(("layout", "shape"), [("HWC", (4, 5, 3)), (None, (4, 5, 6, 1)), ("FHWC", (4, 5, 6, 1))])
def test_axis_without_volumes_is_an_error(layout: str | None, shape: tuple[int, ...]) -> None:
    data = np.zeros(shape, np.float32)
    with pytest.raises(OperatorError, match=f"samples are {layout or 'FHWC'}.*name the layout.*DHWC"):
        run_ours(lambda fn, _, x: fn.rotate(x, angle=9, axis=(0, 1, 0)), [data], layouts=[layout])


@pytest.mark.parametrize("fill", [None, 9.0])
@pytest.mark.parametrize("nearest", [False, True])
@pytest.mark.parametrize("depth", [3, 8])
@pytest.mark.parametrize("kinds", [("uint8", "uint8"), ("int16", "float32"), ("float32", "uint8")])
def test_volumes_are_warped_slice_by_slice_as_in_general(
    fill: float | None, nearest: bool, depth: int, kinds: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = (np.random.default_rng(0).random((5, 20, 30, 2)) * 200).astype(kinds[0])
    turn = np.deg2rad(25)
    rows = [[np.cos(turn), -np.sin(turn), 0, 3], [np.sin(turn), np.cos(turn), 0, -4], [0, 0, 1, -2]]
    arguments = {"nearest": nearest, "fill": fill, "dtype": np.dtype(kinds[1])}
    found = warp.warp_affine(volume, np.array(rows), (depth, 22, 28), **arguments)
    monkeypatch.setattr(warp, "_shift_of_slices", lambda _: None)
    expected = warp.warp_affine(volume, np.array(rows), (depth, 22, 28), **arguments)
    apart = np.abs(found.astype(float) - expected)
    assert apart.max() <= (0 if nearest else 1 if kinds[1] == "uint8" else 1e-2)
