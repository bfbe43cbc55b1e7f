"""Operations on arrays with short last axes: the same results as NumPy's, even if rows are merged."""

from __future__ import annotations

import numpy as np
import pytest

from dali_proxy.pipeline._imaging.reductions import REDUCTIONS, reduce
from dali_proxy.pipeline._imaging.rows import combine, contiguous, reduce_leading

SHAPES = [(61, 53, 3), (700, 5), (4096, 1), (20, 30, 4, 2), (7, 2), (0, 3), (40, 60)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_combine(shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(1)
    array = rng.integers(0, 200, shape).astype(dtype)
    for axes in ((0,), tuple(range(len(shape) - 1)), (len(shape) - 1,), ()):
        values = rng.random([1 if axis in axes else extent for axis, extent in enumerate(shape)]).astype(np.float32)
        made = combine(np.subtract, array, values, np.empty(shape, np.float32))
        np.testing.assert_array_equal(made, np.subtract(array, values, dtype=np.float32))
    scalar = combine(np.multiply, array, np.float32(2).reshape(()), np.empty(shape, np.float32))
    np.testing.assert_array_equal(scalar, array * np.float32(2))
    backwards = combine(np.subtract, array[::-1], array[:1] * 0 + 1, np.empty(shape, np.float32)) if shape[0] else 0
    assert not shape[0] or (backwards == array[::-1].astype(np.float32) - 1).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_reduce_leading(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(1).integers(-99, 99, shape)
    for axes in ((0,), tuple(range(len(shape) - 1)), (len(shape) - 1,), tuple(range(len(shape)))[::-1], ()):
        for ufunc, start in ((np.add, 0), (np.fmin, 1000), (np.fmax, -1000)):
            made = reduce_leading(ufunc, array, axes, initial=start)
            np.testing.assert_array_equal(made, ufunc.reduce(array, axis=axes, keepdims=True, initial=start))
            flipped = reduce_leading(ufunc, array[::-1], axes, initial=start)
            assert flipped.shape == made.shape


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32"])
def test_large_arrays(name: str, dtype: str) -> None:
    array = np.random.default_rng(1).integers(0, 250, (61, 53, 3)).astype(dtype)
    mean = array.mean((0, 1), keepdims=True, dtype=np.float32) if REDUCTIONS[name].term == "difference" else None
    exact = array.astype(np.float64)
    expected = {
        "sum": exact.sum((0, 1)),
        "min": exact.min((0, 1)),
        "max": exact.max((0, 1)),
        "mean": exact.mean((0, 1)),
        "mean_square": (exact**2).mean((0, 1)),
        "rms": np.sqrt((exact**2).mean((0, 1))),
        "variance": exact.var((0, 1)),
        "std_dev": exact.std((0, 1)),
    }[name]
    made = reduce(array, REDUCTIONS[name], (0, 1), np.dtype(np.float32), mean=mean)
    np.testing.assert_allclose(made.reshape(-1), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("shape", [(5, 6, 3), (2, 5, 6, 4), (5, 6, 1), (5, 6), (6,), (), (0, 5, 3), (5, 2), (3, 4, 9)])
def test_contiguous_returns_the_same_values(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    reversals = [(slice(None, None, step),) * count for step in (-1, 2) for count in range(array.ndim + 1)]
    views = [array, array.T, *(array[each] for each in reversals), *(array[..., ::-1] for _ in shape[:1])]
    for view in views:
        copied = contiguous(view)
        assert copied.flags.c_contiguous
        assert copied.dtype == view.dtype
        np.testing.assert_array_equal(copied, view)
