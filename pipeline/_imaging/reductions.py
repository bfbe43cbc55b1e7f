"""Sums, means, extremes and deviations along axes of an array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._imaging.convert import convert
from pipeline._imaging.rows import combine, reduce_leading

__all__ = ["REDUCTIONS", "Reduction", "reduce", "result_dtype"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Reduction:
    """The computation on the elements along axes.

    Attributes:
        term: what is combined: the "value", its "square", or the square of its "difference" from a mean.
        combine: "sum", "min" or "max".
        finish: what becomes of the sum: "none", "divide" by the number of elements, and then the "root".
    """

    term: str = "value"
    combine: str = "sum"
    finish: str = "none"


#: By the names of DALI's operators.
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

    Extremes keep the source's; sums of integers have 64 bits; all else is float32, or float64 of float64.

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
    """Reduce an array along axes, which stay with an extent of 1.

    Sums for a real result are made in float64. A whole-number result is made in its own dtype, as DALI documents: it
    wraps around, and a division cuts off the fraction. NaN is ignored where anything else stands beside it in a
    minimum or maximum.

    Args:
        array: of any shape and dtype.
        reduction: what to do.
        axes: different ones, none negative; none at all leaves the shape.
        dtype: of the result.
        mean: for reductions of differences: what broadcasts to the array.
        ddof: subtracted from the number of elements in a division.

    Example:
        >>> reduce(np.array([[1, 2], [3, 6]], np.uint8), REDUCTIONS["mean"], (0,), np.dtype(np.float32))
        array([[2., 4.]], dtype=float32)
    """
    along = tuple(axes)
    if reduction.combine != "sum":
        smallest = reduction.combine == "min"
        ufunc, start = (np.fmin, _largest(array.dtype)) if smallest else (np.fmax, _lowest(array.dtype))
        extreme = reduce_leading(ufunc, array, along, initial=start)
        return convert(np.asarray(extreme, array.dtype), dtype)
    total = _sum(array, reduction, along, dtype, mean)
    if reduction.finish == "none":
        return total.astype(dtype)
    count = int(np.prod([array.shape[axis] for axis in along], dtype=np.int64)) - ddof
    with np.errstate(divide="ignore", invalid="ignore"):
        if dtype.kind == "f":
            made: Array = np.divide(total, np.float64(count))
        else:  # toward zero, as C divides: NumPy's own division of integers goes down
            made = np.sign(total) * (np.abs(total) // total.dtype.type(max(1, count)))
            made = np.maximum(made, 0) if reduction.finish == "root" else made
        return np.asarray(np.sqrt(made) if reduction.finish == "root" else made, dtype)


def _sum(array: Array, reduction: Reduction, axes: tuple[int, ...], dtype: np.dtype[Any], mean: Array | None) -> Array:
    """Return the sum of terms, in 64 bits; those for a whole-number result have wrapped around as that dtype does."""
    if dtype.kind != "f":
        wide = np.dtype(np.int64 if dtype.kind == "i" else np.uint64)
        terms = convert(array, wide)
        terms = np.square(terms) if reduction.term == "square" else terms
        total = reduce_leading(np.add, terms, axes, dtype=wide)
        return total.astype(dtype).astype(wide)  # the same as if every partial sum had wrapped around
    precise = np.float64 if np.float64 in (array.dtype, dtype) else np.float32
    if reduction.term == "difference":
        assert mean is not None
        terms = combine(np.subtract, array, mean, np.empty(array.shape, precise))
        np.square(terms, out=terms)
    elif reduction.term == "square":
        terms = np.square(array, dtype=precise)
    elif array.dtype.kind != "f" and array.dtype.itemsize <= 4:  # exact, and faster
        return reduce_leading(np.add, array, axes, dtype=np.int64).astype(np.float64)
    else:
        terms = array
    return reduce_leading(np.add, terms, axes, dtype=np.float64)


def _largest(dtype: np.dtype[Any]) -> Any:
    return np.inf if dtype.kind == "f" else True if dtype.kind == "b" else np.iinfo(dtype).max


def _lowest(dtype: np.dtype[Any]) -> Any:
    return -np.inf if dtype.kind == "f" else False if dtype.kind == "b" else np.iinfo(dtype).min
