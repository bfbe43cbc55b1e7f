"""Compiled loops over the samples of a batch compute the same tables as NumPy."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._imaging import GaussianWindows
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._kernels.aligned_windows import aligned_windows
from dali_proxy.pipeline._kernels.axes import axis_tables
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline._operators.geometry import gpu_windows
from dali_proxy.pipeline._operators.geometry.slice_bounds import SliceBounds
from pipeline.errors import PipelineError
from pipeline.types import DALIInterpType

pytestmark = pytest.mark.skipif(compiled is None, reason="the C module wasn't built")

MODULES = [
    *(f"dali_proxy.pipeline._kernels.{name}" for name in ("aligned_windows", "axes", "samples")),
    *(f"dali_proxy.pipeline._operators.geometry.{name}" for name in ("gpu_windows", "slice_bounds")),
    "dali_proxy.pipeline._imaging.blur",
]
RNG = np.random.default_rng(0)
SHAPES = RNG.integers(1, 200, (40, 3))


@pytest.fixture
def in_numpy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that calls a function without the C module."""

    def call(function: Any) -> Any:
        with monkeypatch.context() as patch:
            for name in MODULES:
                patch.setattr(sys.modules[name], "compiled", None)
            return function()

    return call


@pytest.mark.parametrize("shape", [(7, 3), (7, 1), (7, 0), (0, 2)])
@pytest.mark.parametrize("alignment", [1, 256])
def test_packed_samples_equal_those_of_numpy(in_numpy: Any, shape: tuple[int, int], alignment: int) -> None:
    shapes = RNG.integers(0, 50, shape)

    def pack() -> list[Any]:
        made, size = Samples.packed(1 << 40, shapes, np.float32, alignment)
        assert made.is_contiguous()
        return [made.pointers.tolist(), made.strides.tolist(), size]

    assert pack() == in_numpy(pack)


@pytest.mark.parametrize("antialias", [True, False])
def test_tables_of_axes_equal_those_of_numpy(in_numpy: Any, antialias: bool) -> None:
    count = 200
    extents, sizes = RNG.integers(1, 500, (count, 2)), RNG.integers(1, 500, (count, 2))
    low, high = RNG.uniform(-20, 300, (2, count, 2))  # many axes are flipped, and many begin outside
    low[:10], high[10:20] = np.round(low[:10]), low[10:20] + sizes[10:20]
    smaller, larger = RNG.integers(0, len(DALIInterpType), (2, count))

    def rows() -> Any:
        return axis_tables(low, high, extents, sizes, smaller, larger, antialias)

    made = rows()
    assert made.shape == (2, count)
    assert made["adds"].tolist() == [[1] * count, [0] * count]
    assert made.tobytes() == in_numpy(rows).tobytes()


def test_tables_of_invalid_axes_are_errors() -> None:
    ones = np.ones((2, 2), np.int64)
    with pytest.raises(PipelineError, match="sample 1: can't resize 1 pixels to 0"):
        axis_tables(ones * 0.0, ones * 1.0, ones, np.array([[1, 1], [0, 1]]), 1, 1, True)
    with pytest.raises(PipelineError, match=r"unknown interpolation in \[9\]"):
        axis_tables(ones * 0.0, ones * 1.0, ones, ones, 9, 9, True)


@pytest.mark.combinations
@pytest.mark.parametrize("relative", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("from_start", [False, True])
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("values", [(2, 2), (2, 1), (0, 2), (2, 0)])
def test_slices_equal_those_of_numpy(
    in_numpy: Any, relative: tuple[bool, bool], from_start: bool, exact: bool, values: tuple[int, int]
) -> None:
    scales = [1 if fraction else 100 for fraction in relative]
    begin, end = (
        scale * RNG.uniform(-0.2, 1.2, (len(SHAPES), each)) for scale, each in zip(scales, values, strict=True)
    )
    begin, end = (column.astype(np.float32).astype(np.float64) for column in (begin, end))
    begin[:2], end[:1] = np.nan, 1e30

    def locate(sample: int) -> Any:
        own = slice(sample, sample + 1)
        windows = SliceBounds(begin[own], end[own], relative, from_start, exact).locate(SHAPES[own], (2, 0))
        return None if windows is None else [each.tolist() for each in windows]

    made = [locate(sample) for sample in range(len(SHAPES))]
    assert made == in_numpy(lambda: [locate(sample) for sample in range(len(SHAPES))])
    valid = [sample for sample, each in enumerate(made) if each is not None]
    assert 0 < len(valid) < len(SHAPES)
    together = SliceBounds(begin[valid], end[valid], relative, from_start, exact).locate(SHAPES[valid], (2, 0))
    assert together is not None
    assert [[[row] for row in each] for each in zip(*(each.tolist() for each in together), strict=True)] == [
        made[sample] for sample in valid
    ]


def test_no_slices_are_located() -> None:
    bounds = SliceBounds(np.zeros((0, 2)), np.zeros((0, 2)), (True, False), from_start=True, exact=False)
    located = bounds.locate(np.zeros((0, 3), np.int64), (2, 0))
    assert located is not None
    assert [windows.shape for windows in located] == [(0, 3), (0, 3)]


def test_windows_inside_equal_those_of_numpy(in_numpy: Any) -> None:
    shape = np.array([[10, 20]])
    for start, extent in [
        ((0, 0), (10, 20)),
        ((1, 0), (10, 20)),
        ((-1, 0), (3, 3)),
        ((9, 19), (1, 1)),
        ((9, 19), (1, 2)),
    ]:
        columns = np.array([start]), np.array([extent]), shape
        assert gpu_windows._lie_inside(*columns) == in_numpy(lambda columns=columns: gpu_windows._lie_inside(*columns))
        assert gpu_windows._lie_inside(*columns) == (start in ((0, 0), (9, 19)) and extent != (1, 2))


def test_gaussian_windows_equal_those_of_numpy(in_numpy: Any) -> None:
    sigmas, sizes = RNG.uniform(0.1, 9, (50, 2)), 2 * RNG.integers(0, 20, (50, 2)) + 1
    sigmas[::3], sizes[1::3] = 0, 0

    def windows_of(sigmas: Any) -> list[Any]:
        made = GaussianWindows.from_arguments(sigmas, sizes)
        return [
            made.weights.tobytes(),
            made.radii.tolist(),
            {sample: str(error) for sample, error in made.errors.items()},
        ]

    assert windows_of(sigmas) == in_numpy(lambda: windows_of(sigmas))
    wrong = np.concatenate([sigmas[:48], [[-1.0, 1.0], [1.0, np.nan]]])
    made, expected = windows_of(wrong), in_numpy(lambda: windows_of(wrong))
    assert made[1:] == expected[1:]
    assert sorted(made[2]) == [48, 49]


def test_aligned_windows_equal_those_of_numpy(in_numpy: Any) -> None:
    windows_made = GaussianWindows.from_arguments(RNG.uniform(0.1, 3, (50, 1)), np.zeros((50, 1), np.int64))
    weights, radii = windows_made.weights[:, 0], windows_made.radii[:, 0]
    made = aligned_windows(weights, radii, 32)
    assert made.tobytes() == in_numpy(lambda: aligned_windows(weights, radii, 32)).tobytes()
    assert (made[:, 0] > 0).all()


def test_stacked_samples_have_one_shape_and_are_contiguous() -> None:
    assert compiled is not None
    arrays = list(RNG.integers(0, 9, (3, 2, 5)))
    assert compiled.stack_samples(arrays) == np.stack(arrays).tobytes()
    assert compiled.stack_samples([np.float32(2), np.float32(3)]) == np.float32([2, 3]).tobytes()
    for others in ([*arrays, arrays[0].T], [*arrays, arrays[0].reshape(5, 2)], [arrays[0][:, ::2]], [7], []):
        assert compiled.stack_samples(others) is None


def test_compiled_loops_refuse_tables_that_do_not_fit() -> None:
    assert compiled is not None
    rows, columns, floats = np.zeros((3, 2), np.int64), np.zeros(3, np.int64), np.zeros((3, 2))
    weights, four = np.zeros((3, 5), np.float32), np.zeros(4, np.int64)
    samples, filters = (floats, floats, rows, rows, columns), (np.zeros(2, np.int32), floats[0])
    wrong: list[tuple[Any, ...]] = [
        (compiled.place_samples, rows, 0, 4, 1, four, rows.copy()),
        (compiled.place_samples, rows, 0, 4, 0, columns, rows.copy()),
        (compiled.lie_inside, rows, rows, columns),
        (compiled.locate_slices, rows, 3, (0, 2), floats, floats, (0, 0, 0, 0), rows.copy(), rows.copy()),
        (compiled.locate_slices, rows, 3, (0,), floats, floats, (0, 0, 0, 0), rows.copy(), rows.copy()),
        (compiled.locate_slices, rows, 3, (0, 1), floats, floats, (0, 0, 0, 0), columns.copy(), rows.copy()),
        (compiled.map_axes, *samples, four, *filters, True, bytearray(240)),
        (compiled.map_axes, *samples, columns, *filters, True, bytearray(8)),
        (compiled.measure_gaussians, floats, rows, columns.copy(), floats.copy()),
        (compiled.normalize_windows, np.zeros((3, 4)), columns, np.zeros((3, 4), np.float32)),
        (compiled.align_windows, weights, columns + 3, np.zeros((3, 8), np.float32)),
        (compiled.align_windows, weights, columns, np.zeros((3, 4), np.float32)),
    ]
    for function, *arguments in wrong:
        with pytest.raises(ValueError, match="fit each other"):
            function(*arguments)
