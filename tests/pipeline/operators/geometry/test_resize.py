"""`fn.resize`: sizes are exact, integers within 1, floats within the rounding of float32 sums.

Both implementations sum in float32, in different orders, so a sum near a half may be rounded either way. Nearest
neighbour copies pixels, and must be exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dali_proxy.pipeline._operators.geometry.resize_arguments import ResizeGeometry
from pipeline import types as our_types
from tests.pipeline.operators.both import RAGGED, compare, refused_by_both, run_dali, run_ours, sample_images

INTEGERS = 1
FLOATS = 2e-3  # of values up to 255
FILTERS = list(our_types.DALIInterpType)
LAYOUTS = ("HWC", "CHW", "FHWC", "FCHW", "CFHW")


@pytest.mark.combinations
@pytest.mark.parity
@pytest.mark.parametrize("interp", FILTERS)
@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "float32"])
@pytest.mark.parametrize("antialias", [True, False])
def test_filters(interp: our_types.DALIInterpType, dtype: str, antialias: bool) -> None:
    """Sizes are smaller, larger, and smaller along one axis only.

    Odd sizes become even, so that no tap of a filter lies exactly on its border, where rounding in DALI decides whether
    the tap counts. This matters for the Gaussian, which isn't zero there. Near its border, too, it differs by up to
    0.007.
    """
    feed = sample_images((17, 23, 3), (31, 13, 3), (21, 21, 3), dtype=dtype)
    tolerance: float = FLOATS if dtype == "float32" else INTEGERS
    if interp in (our_types.INTERP_NN, our_types.INTERP_GAUSSIAN):
        tolerance = 0 if interp == our_types.INTERP_NN else 1
    for size in ([8, 10], [40, 52], [10, 60]):
        compare(
            lambda fn, types, x, s=size: fn.resize(
                x, size=s, interp_type=types.DALIInterpType(int(interp)), antialias=antialias
            ),
            feed,
            layouts=["HWC"],
            tolerance=tolerance,
        )


@pytest.mark.parity
@pytest.mark.parametrize("layout", [*LAYOUTS, None])
def test_layouts(layout: str | None) -> None:
    extents = {"H": 9, "W": 7, "C": 3, "F": 2}
    feed = sample_images(
        *[tuple(extents[letter] + more * (letter in "HW") for letter in layout or "HWC") for more in (0, 3)]
    )
    compare(lambda fn, _, x: fn.resize(x, size=[5, 12]), feed, layouts=[layout], tolerance=INTEGERS)


@pytest.mark.parity
@pytest.mark.parametrize("layout", ["DHWC", "CDHW", "FDHWC", "FCDHW"])
def test_volumes(layout: str) -> None:
    extents = {"D": 6, "H": 9, "W": 7, "C": 2, "F": 2}
    feed = sample_images(tuple(extents[letter] for letter in layout), dtype="float32")
    for arguments in ({"size": [4, 5, 12]}, {"resize_z": 9.5}, {"size": [-8, 0, 5]}):
        compare(lambda fn, _, x, a=arguments: fn.resize(x, **a), feed, layouts=[layout], tolerance=FLOATS)


def fractions(low: int, high: int) -> st.SearchStrategy[float]:
    """Draw numbers whose ratios don't fall on halves of pixels, where DALI's float32 decides."""
    return st.integers(low * 4, high * 4).map(lambda number: number / 4.037)


@st.composite
def sizes(draw: st.DrawFn) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    modes = ["default", "stretch", "not_larger", "not_smaller"]
    kind = draw(st.sampled_from(["size", "axes", "shorter", "longer"]))
    if kind == "size":
        arguments["size"] = [draw(fractions(-60, 60)), draw(fractions(-60, 60))]
    elif kind == "axes":
        names = draw(st.sampled_from([["resize_x"], ["resize_y"], ["resize_x", "resize_y"]]))
        arguments |= {name: draw(fractions(-60, 60).filter(bool)) for name in names}
    else:
        arguments[f"resize_{kind}"] = draw(fractions(1, 60))
    if kind in ("size", "axes"):
        arguments["mode"] = draw(st.sampled_from(modes))
    if draw(st.booleans()):
        arguments["max_size"] = draw(st.sampled_from([[30.0], [25.0, 40.0], [12.5]]))
    if draw(st.booleans()):
        arguments["subpixel_scale"] = draw(st.booleans())
    return arguments


@st.composite
def regions(draw: st.DrawFn) -> dict[str, Any]:
    if draw(st.booleans()):
        return {}
    start = [draw(fractions(0, 8)), draw(fractions(0, 8))]
    end = [draw(fractions(9, 24)), draw(fractions(9, 24))]
    if draw(st.booleans()):
        start, end = end, start
    if draw(st.booleans()):
        return {
            "roi_start": [value / 24 for value in start],
            "roi_end": [value / 24 for value in end],
            "roi_relative": True,
        }
    return {"roi_start": start, "roi_end": end}


@pytest.mark.parity
@settings(max_examples=80, deadline=None, derandomize=True)
@given(arguments=sizes(), region=regions(), interp=st.sampled_from([1, 2, 3, 4]))
def test_sizes_and_regions(arguments: dict[str, Any], region: dict[str, Any], interp: int) -> None:
    # No Gaussian: rounding decides whether its outermost taps count, and they weigh 2 %.
    compare(
        lambda fn, types, x: fn.resize(x, interp_type=types.DALIInterpType(interp), **arguments, **region),
        sample_images(*RAGGED, dtype="float32"),
        layouts=["HWC"],
        tolerance=0.03,  # windows are float32 in DALI: positions differ by about 1e-6 of the image's size
    )


@pytest.mark.parity
@pytest.mark.parametrize(
    "arguments",
    [{"size": [20.5, 30.5]}, {"resize_shorter": 10.5}, {"resize_longer": 6.5}, {"size": [0.4, 3]}, {"resize_x": 0.2}],
)
def test_sizes_are_rounded_to_pixels(arguments: dict[str, Any]) -> None:
    feed = sample_images(*[(size, size + 3, 1) for size in range(5, 40, 2)], dtype="float32")
    compare(lambda fn, _, x: fn.resize(x, **arguments), feed, layouts=["HWC"], tolerance=0.03)


@pytest.mark.parity
@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data())
def test_arguments_per_sample(data: st.DataObject) -> None:
    draw = data.draw
    size = [np.array([draw(fractions(1, 50)), draw(fractions(1, 50))], np.float32) for _ in RAGGED]
    start = [np.array([draw(fractions(0, 6)), draw(fractions(0, 6))], np.float32) for _ in RAGGED]
    end = [np.array([draw(fractions(7, 12)), draw(fractions(7, 12))], np.float32) for _ in RAGGED]
    compare(
        lambda fn, types, x, size, start, end: fn.resize(
            x, size=size, roi_start=start, roi_end=end, min_filter=types.INTERP_CUBIC, mag_filter=types.INTERP_LANCZOS3
        ),
        sample_images(*RAGGED, dtype="float32"),
        size,
        start,
        end,
        layouts=["HWC"],
        tolerance=0.03,
    )


def test_filters_per_sample() -> None:
    """DALI accepts these only as tensors of a special type."""
    feed, codes = sample_images(*RAGGED), [0, 2, 5]
    (mixed,) = run_ours(
        lambda fn, _, x, code: fn.resize(x, size=[9, 40], interp_type=code), feed, [np.int32(code) for code in codes],
        layouts=["HWC"],
    )  # fmt: skip
    for sample, code in enumerate(codes):
        (alone,) = run_ours(lambda fn, _, x, c=code: fn.resize(x, size=[9, 40], interp_type=c), feed, layouts=["HWC"])
        assert np.array_equal(mixed.samples[sample], alone.samples[sample])


@pytest.mark.parity
def test_nearest_is_exact_for_many_sizes() -> None:
    feed = sample_images(*[(height, height + 5, 1) for height in range(5, 25)])
    for size in (3, 8, 17, 31, 64):
        compare(
            lambda fn, types, x, s=size: fn.resize(x, size=[s, s], interp_type=types.INTERP_NN), feed, layouts=["HWC"]
        )


@pytest.mark.parity
def test_float_output_and_attributes() -> None:
    feed = sample_images(*RAGGED)
    compare(
        lambda fn, types, x: fn.resize(x, resize_shorter=9, dtype=types.FLOAT, save_attrs=True),
        feed,
        layouts=["HWC"],
        tolerance=FLOATS,
    )


def test_output_keeps_its_place_with_attributes() -> None:
    """With a known size, the first output is allocated beforehand; the second output must not change that."""
    image, shape = run_ours(
        lambda fn, _, x: fn.resize(x, size=[6, 8], save_attrs=True), sample_images(*RAGGED), layouts=["HWC"]
    )
    (alone,) = run_ours(lambda fn, _, x: fn.resize(x, size=[6, 8]), sample_images(*RAGGED), layouts=["HWC"])
    assert all(map(np.array_equal, image.samples, alone.samples))
    assert [value.tolist() for value in shape.samples] == [list(extents[:2]) for extents in RAGGED]


@pytest.mark.parity
@pytest.mark.parametrize("arguments", [{"mode": "default"}, {"mode": "not_smaller"}, {"mode": "not_larger"}], ids=str)
@pytest.mark.parametrize("region", [False, True])
def test_sizes_and_nearest_pixels_are_computed_as_in_dali(arguments: dict[str, Any], region: bool) -> None:
    """Float32 decides how a size is rounded, how a region is adapted to it, and which pixel is nearest."""
    rng = np.random.default_rng(4)
    feed = [
        np.arange(extents.prod(), dtype=np.float32).reshape(*extents, 1) for extents in rng.integers(1, 30, (400, 2))
    ]
    sizes = [np.float32([width, 0] if turn else [0, width]) for width, turn in rng.integers([1, 0], [20, 2], (400, 2))]
    ends = [
        np.float32(row) for row in np.concatenate([rng.uniform(0, 0.4, (400, 2)), rng.uniform(0.5, 1, (400, 2))], 1)
    ]

    def graph(fn: Any, types: Any, x: Any, size: Any, *ends: Any) -> Any:
        extra = {"roi_start": ends[0][0:2], "roi_end": ends[0][2:4], "roi_relative": True} if region else {}
        return fn.resize(x, size=size, interp_type=types.INTERP_NN, **extra, **arguments)

    (ours,), (theirs,) = (
        run(graph, feed, sizes, *([ends] if region else []), layouts=["HWC"]) for run in (run_ours, run_dali)
    )
    assert [sample.shape for sample in ours.samples] == [sample.shape for sample in theirs.samples]
    others = [not np.array_equal(*pair) for pair in zip(ours.samples, theirs.samples, strict=True)]
    assert sum(others) <= (4 if region else 0)


@pytest.mark.parity
def test_crop_that_is_resized() -> None:
    """Resize reads a view with gaps between the rows."""
    compare(
        lambda fn, _, x: fn.resize(fn.crop(x, crop=[9, 10]), size=[5, 21]),
        sample_images(*RAGGED),
        layouts=["HWC"],
        tolerance=INTEGERS,
    )


@pytest.mark.parity
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({}, "Exactly one method of specifying size must be used"),
        ({"size": [3, 3], "resize_x": 3}, "Exactly one method of specifying size must be used"),
        ({"resize_shorter": 3, "resize_longer": 3}, "Exactly one method of specifying size must be used"),
        ({"size": [3, 3, 3]}, 'Argument "size" expects either a single value or a list of 2 elements'),
        ({"resize_shorter": 3, "mode": "stretch"}, "'mode' can't be used together"),
        ({"size": [3, 3], "mode": "huge"}, "'mode' must be one of"),
        ({"size": [3, 3], "roi_start": [0, 0]}, "specified together"),
        ({"size": [3, 3], "dtype": 8}, "'dtype' must be the input's, uint8, or FLOAT"),
    ],
)
def test_bad_calls_are_refused(arguments: dict[str, Any], match: str) -> None:
    refused_by_both(lambda fn, _, x: fn.resize(x, **arguments), sample_images(*RAGGED), layouts=["HWC"], match=match)


@pytest.mark.parity
def test_other_layouts_are_refused() -> None:
    refused_by_both(
        lambda fn, _, x: fn.resize(x, size=[3, 3]), sample_images((5, 5)), layouts=["HW"], match="layout 'HW'"
    )
    refused_by_both(lambda fn, _, x: fn.resize(x, size=[3, 3]), sample_images((5, 5)), match="no layout")


def test_sizes_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(RuntimeError, match="isn't a number for sample 1"):
        run_ours(
            lambda fn, _, x, s: fn.resize(x, size=s),
            sample_images(*RAGGED[:2]),
            [np.float32([3, 3]), np.float32([3, np.nan])],
            layouts=["HWC"],
        )


@pytest.mark.parity
def test_photograph_like_image_differs_in_few_pixels() -> None:
    """Pixels may differ by 1, but nearly all are equal."""
    feed = sample_images((120, 160, 3))
    graph = lambda fn, _, x: fn.resize(x, size=[51, 77])  # noqa: E731
    (ours,), (theirs,) = run_ours(graph, feed, layouts=["HWC"]), run_dali(graph, feed, layouts=["HWC"])
    assert (ours.samples[0] != theirs.samples[0]).mean() < 0.01


@pytest.mark.parametrize(
    "options",
    [
        {"size": (20, 30)},
        {"size": (0, 30)},
        {"resize_shorter": 24},
        {"size": (-20, 30)},
        {"size": (9, 9), "max_size": 5},
        {"resize_longer": 23.5, "max_size": (17, 90)},
        {"resize_shorter": 7.25, "subpixel_scale": False},
        {"size": (0, 0)},
        {"size": (11.5, 0), "mode": "stretch", "roi_start": (0.8, 0.1), "roi_end": (0.2, 0.6), "roi_relative": True},
        {"size": (11.5, 40), "mode": "not_larger", "roi_start": (1, 2), "roi_end": (1, 4)},
    ],
)
def test_geometry_of_a_batch_is_that_of_its_samples(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    samples = [np.zeros((height, width, 3), np.uint8) for height, width in ((5, 7), (60, 40), (33, 33))]
    extents = np.array([one.shape[:2] for one in samples])
    one_by_one = ResizeGeometry.solve
    compared = []

    def solve(geometry: ResizeGeometry, sample: int, lengths: Any) -> Any:
        if sample not in compared:
            compared.append(sample)
            of_all = geometry.solve_all(extents)
            resized = one_by_one(geometry, sample, lengths)
            assert [column[sample].tolist() for column in of_all] == [list(column) for column in resized[:3]]
        return one_by_one(geometry, sample, lengths)

    monkeypatch.setattr(ResizeGeometry, "solve", solve)
    run_ours(lambda fn, _, x: fn.resize(x, **options), samples)
    assert sorted(compared) == [0, 1, 2]


@pytest.mark.parity
@pytest.mark.parametrize("mode", ["not_smaller", "not_larger"])
@pytest.mark.parametrize("alignment", [{}, {"alignment": [0.5]}, {"alignment": [1.0]}])
def test_alignment_of_one_axis_does_not_centre_the_others(mode: str, alignment: dict[str, Any]) -> None:
    feed = sample_images((2, 3), dtype="float32")
    compare(
        lambda fn, _, x: fn.tensor_resize(x, axes=[0], sizes=[3.125], mode=mode, **alignment),
        feed,
        layouts=[None],
        tolerance=FLOATS,
    )


@pytest.mark.parity
@pytest.mark.parametrize("mode", ["default", "stretch", "not_larger", "not_smaller"])
def test_max_size_without_a_size_has_no_effect(mode: str) -> None:
    feed = sample_images((7, 9, 3), (4, 5, 3))
    sizes = [np.array(size, np.float32) for size in ((0, 0), (3, 0))]
    compare(lambda fn, _, x, size: fn.resize(x, size=size, max_size=[3, 4], mode=mode), feed, sizes, tolerance=INTEGERS)
    compare(
        lambda fn, _, x, size: fn.tensor_resize(x, axes=[0, 1], sizes=size, max_size=[3, 4], mode=mode),
        feed,
        sizes,
        tolerance=INTEGERS,
    )


def test_volumes_are_resampled_for_regions_of_the_same_extent() -> None:
    """DALI ignores such a region: a fraction of a pixel, of the first axis of three."""
    ramp = np.broadcast_to(np.arange(4, dtype=np.float32)[:, None, None], (4, 6, 5)).copy()
    (made,) = run_ours(
        lambda fn, _, x: fn.tensor_resize(x, sizes=[4, 9, 5], roi_start=[0.5, 0, 0], roi_end=[4.5, 6, 5]), [ramp]
    )
    np.testing.assert_allclose(made.samples[0][:, 0, 0], [0.5, 1.5, 2.5, 3], atol=1e-6)
