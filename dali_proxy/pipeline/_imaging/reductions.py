"""Sums, means, extremes and deviations along axes of an array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._imaging.convert import convert
from dali_proxy.pipeline._imaging.rows import combine, reduce_leading, sum_small, sum_trailing
from dali_proxy.pipeline._imaging.scratch import scratch


@dataclass(frozen=True)
class Reduction:
    """Computation on the elements along axes.

    Attributes:
        term: operand: the "value", its "square", or the square of its "difference" from a mean.
        combine: combination of operands: "sum", "min" or "max".
        finish: final step: "none", "divide" by the number of elements, or "root": divide and take the square root.
    """

    term: str = "value"
    combine: str = "sum"
    finish: str = "none"


#: Reductions by the names of DALI's operators.
REDUCTIONS = {
    "sum": Reduction(),
    "min": Reduction(combine="min"),
    "max": Reduction(combine="max"),
    "mean": Reduction(finish="divide"),
    "mean_square": Reduction("square", finish="divide"),
    "rms": Reduction("square", finish="root"),
    "variance": Reduction("difference", finish="divide"),
    "std_dev": Reduction("difference", finish="root"),
}


def result_dtype(reduction: Reduction, source: npt.DTypeLike) -> np.dtype[Any]:
    """Return the default dtype of a result.

    Extremes keep the source's dtype; sums of integers have 64 bits; other results are float32, or float64 for float64.

    Example:
        >>> result_dtype(REDUCTIONS["sum"], np.uint8), result_dtype(REDUCTIONS["mean"], np.uint8)
        (dtype('uint64'), dtype('float32'))
    """
    dtype = np.dtype(source)
    if reduction.combine != "sum":
        return dtype
    if reduction == REDUCTIONS["sum"] and dtype.kind != "f":
        return np.dtype(np.int64 if dtype.kind == "i" else np.uint64)
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def reduce(
    array: Array,
    reduction: Reduction,
    axes: Sequence[int],
    dtype: np.dtype[Any],
    *,
    mean: Array | None = None,
    ddof: int = 0,
) -> Array:
    """Reduce an array along axes, which remain with an extent of 1.

    Sums for float results are computed in float64. Integer results are computed in their dtype, as DALI documents: they
    wrap around, and divisions truncate. Minimum and maximum ignore NaN if there are other elements.

    Args:
        array: array of any shape and dtype.
        reduction: the computation.
        axes: axes to reduce; distinct and not negative; may be empty.
        dtype: dtype of the result.
        mean: means for reductions of differences; they broadcast to the array.
        ddof: delta degrees of freedom: divisors are the number of elements minus `ddof`.

    Example:
        >>> reduce(np.array([[1, 2], [3, 6]], np.uint8), REDUCTIONS["mean"], (0,), np.dtype(np.float32))
        array([[2., 4.]], dtype=float32)
    """
    along = tuple(axes)
    if reduction.combine != "sum":
        smallest = reduction.combine == "min"
        start = _largest(array.dtype) if smallest else _lowest(array.dtype)
        ufunc: np.ufunc = np.fmin if smallest else np.fmax
        if array.dtype.kind != "f":  # these are vectorised, and there is no NaN
            ufunc = np.minimum if smallest else np.maximum
        extreme = reduce_leading(ufunc, array, along, initial=start)
        return convert(np.asarray(extreme, array.dtype), dtype)
    total = _sum(array, reduction, along, dtype, mean)
    if reduction.finish == "none":
        return total.astype(dtype)
    count = int(np.prod([array.shape[axis] for axis in along], dtype=np.int64)) - ddof
    with np.errstate(divide="ignore", invalid="ignore"):
        if dtype.kind == "f":
            result: Array = np.divide(total, np.float64(count))
        else:  # toward zero as in C: NumPy's integer division rounds down
            result = np.sign(total) * (np.abs(total) // total.dtype.type(max(1, count)))
            result = np.maximum(result, 0) if reduction.finish == "root" else result
        return np.asarray(np.sqrt(result) if reduction.finish == "root" else result, dtype)


def _sum(array: Array, reduction: Reduction, axes: tuple[int, ...], dtype: np.dtype[Any], mean: Array | None) -> Array:
    """Return the sum of terms in 64 bits. Sums for integer results wrap around in the dtype of the result."""
    if dtype.kind != "f":
        wide = np.dtype(np.int64 if dtype.kind == "i" else np.uint64)
        exact = reduction.term == "value" and array.dtype.kind != "f"  # else each term is rounded
        if exact and (sums := sum_small(array, axes)) is not None:
            return sums.astype(np.int64).astype(wide).astype(dtype).astype(wide)
        terms = convert(array, wide)
        terms = np.square(terms) if reduction.term == "square" else terms
        total = reduce_leading(np.add, terms, axes, dtype=wide)
        return total.astype(dtype).astype(wide)  # the same as wrapping every partial sum
    precise = np.dtype(np.float64 if np.float64 in (array.dtype, dtype) else np.float32)
    sums = sum_trailing(array, axes, mean, squared=reduction.term != "value", wide=precise == np.float64)
    if sums is not None:
        return sums
    if reduction.term == "difference":
        assert mean is not None
        terms = combine(np.subtract, array, mean, _terms(array, axes, precise))
        np.square(terms, out=terms)
    elif reduction.term == "square":
        terms = np.square(array, dtype=precise, out=_terms(array, axes, precise))
    elif (small := sum_small(array, axes)) is not None:
        return small
    elif array.dtype.kind != "f" and array.dtype.itemsize <= 4:  # exact, and faster
        return reduce_leading(np.add, array, axes, dtype=np.int64).astype(np.float64)
    else:
        terms = array
    return reduce_leading(np.add, terms, axes, dtype=np.float64)


def _terms(array: Array, axes: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return memory for the terms of a sum. A sum along no axes may be a view of its terms."""
    return scratch("terms", array.shape, dtype) if axes else np.empty(array.shape, dtype)


def _largest(dtype: np.dtype[Any]) -> Any:
    return np.inf if dtype.kind == "f" else True if dtype.kind == "b" else np.iinfo(dtype).max


def _lowest(dtype: np.dtype[Any]) -> Any:
    return -np.inf if dtype.kind == "f" else False if dtype.kind == "b" else np.iinfo(dtype).min
