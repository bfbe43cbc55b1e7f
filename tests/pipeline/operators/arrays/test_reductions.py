"""Reductions along axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.pipeline.operators.both import compare, refused_by_both, run_ours, sample_images

SMALL = ((2, 3, 4), (1, 2, 3), (5, 1, 2))
PLAIN = ("sum", "min", "max", "mean", "mean_square", "rms")


@pytest.mark.parity
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint32", "int64", "float32"])
def test_dtypes(dtype: str) -> None:
    feed = sample_images(*SMALL, dtype=dtype, low=0 if dtype.startswith("u") else -100, high=100)

    def graph(fn: Any, _: Any, x: Any) -> Any:
        return tuple(getattr(fn.reductions, name)(x, axes=[0, 2]) for name in PLAIN)

    compare(graph, feed, layouts=["HWC"], tolerance=2e-3)


@pytest.mark.parity
@pytest.mark.parametrize("name", ["variance", "std_dev"])
@pytest.mark.parametrize("keep", [False, True])
def test_deviations(name: str, keep: bool) -> None:
    def graph(fn: Any, _: Any, x: Any) -> Any:
        deviation = getattr(fn.reductions, name)
        return (
            deviation(x, 3.5, keep_dims=keep),
            deviation(x, fn.reductions.mean(x, axes=[0, 1]), axis_names="HW", keep_dims=keep),
            deviation(x, fn.reductions.mean(x, axes=-1, keep_dims=True), axes=[2], keep_dims=keep),
            deviation(x, fn.reductions.mean(x), ddof=1, keep_dims=keep),
        )

    for dtype in ("uint8", "float32"):
        compare(graph, sample_images(*SMALL, dtype=dtype, high=9), layouts=["HWC"], tolerance=1e-4)


@pytest.mark.parity
@pytest.mark.parametrize(
    "arguments", [{}, {"axes": 0}, {"axes": [-1, 0]}, {"axes": []}, {"axis_names": "CH"}, {"axis_names": ""}]
)
@pytest.mark.parametrize("keep", [False, True])
def test_axes_and_layouts(arguments: dict[str, Any], keep: bool) -> None:
    compare(
        lambda fn, _, x: fn.reductions.sum(x, keep_dims=keep, **arguments),
        sample_images(*SMALL, high=9),
        layouts=["HWC"],
    )


@pytest.mark.parity
def test_integers_wrap_around_and_divide_without_a_fraction() -> None:
    def graph(fn: Any, types: Any, x: Any, y: Any) -> Any:
        reductions = fn.reductions
        return (
            reductions.sum(x, dtype=types.UINT8),
            reductions.sum(x, dtype=types.FLOAT),
            reductions.mean(x, dtype=types.UINT8),
            reductions.mean_square(x, dtype=types.UINT64),
            reductions.rms(x, dtype=types.UINT8),
            reductions.mean(y, dtype=types.INT8),
            reductions.rms(y, dtype=types.INT8),
        )

    unsigned = [np.array(values, np.uint8) for values in ([2, 3], [200, 201], [1] * 300)]
    signed = [np.array(values, np.int8) for values in ([-2, -3], [5, -6, 5], [-1] * 300)]
    compare(graph, unsigned, signed)


@pytest.mark.parametrize("count", [9, 400])
def test_sums_of_floats_for_integer_results_round_each_term(count: int) -> None:
    values = np.full(count, 0.75, np.float32)
    (result,) = run_ours(lambda fn, types, x: fn.reductions.sum(x, dtype=types.INT32), [values])
    assert result.samples[0] == count


@pytest.mark.parity
def test_nan_is_ignored_by_extremes() -> None:
    feed = [np.float32([[np.nan, 1], [3, np.nan]])]
    compare(lambda fn, _, x: (fn.reductions.min(x, axes=0), fn.reductions.max(x)), feed)


def test_empty_axes_reduce_to_neutral_values() -> None:
    def graph(fn: Any, _: Any, x: Any) -> Any:
        return fn.reductions.sum(x), fn.reductions.mean(x), fn.reductions.min(x), fn.reductions.max(x, axes=1)

    total, mean, least, most = run_ours(graph, [np.zeros((0, 2), np.float32)])
    assert (total.samples[0], least.samples[0], most.samples[0].shape) == (0, np.inf, (0,))
    assert np.isnan(mean.samples[0])


def test_dtypes_that_dali_refuses() -> None:
    def graph(fn: Any, _: Any, x: Any) -> Any:
        return tuple(getattr(fn.reductions, name)(x) for name in PLAIN)

    for dtype, mean in (("float16", "float32"), ("float64", "float64"), ("bool", "float32")):
        made = run_ours(graph, [np.array([0, 1, 1, 0]).astype(dtype)])
        assert [float(output.samples[0]) for output in made] == [2, 0, 1, 0.5, 0.5, pytest.approx(0.5**0.5)]
        assert made[3].samples[0].dtype == mean


@pytest.mark.parity
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"axes": [0, 0]}, "must differ"),
        ({"axes": [0, -3]}, "must differ"),
        ({"axes": 3}, "Axis 3 out of range"),
        ({"axis_names": "Q"}, "Axis 'Q' is not present"),
        ({"axis_names": "H", "axes": 0}, "mutually exclusive"),
    ],
)
def test_bad_calls_are_refused(arguments: dict[str, Any], match: str) -> None:
    try:
        refused_by_both(
            lambda fn, _, x: fn.reductions.sum(x, **arguments), sample_images(*SMALL), layouts=["HWC"], match=match
        )
    except IndexError:  # DALI raises it for an axis that doesn't exist
        with pytest.raises(ValueError, match=match):
            run_ours(lambda fn, _, x: fn.reductions.sum(x, **arguments), sample_images(*SMALL), layouts=["HWC"])


def test_means_of_a_wrong_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"the means have the shape \(4,\).*\(2, 1, 1\)"):
        run_ours(lambda fn, _, x, m: fn.reductions.variance(x, m, axes=[1, 2]), sample_images((2, 3, 4)), [np.zeros(4)])
