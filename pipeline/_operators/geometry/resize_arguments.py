"""The arguments of resizing: which size and which region, in DALI's terms, for any number of spatial axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from pipeline._declaration.schema import Argument, Kind
from pipeline._operator_api.arguments import Arguments
from pipeline._operator_api.gpu_operator import fail
from pipeline._operators.geometry.windows import round_half_away
from pipeline.errors import ArgumentValueError, PipelineError

if TYPE_CHECKING:
    from pipeline._graph.graph import GraphNode
    from pipeline._operator_api.batch import Batch

__all__ = ["RESIZE_ARGUMENTS", "Geometry", "ResizeGeometry", "Resized", "ResizedBatch", "solve_each"]

_AXIS_ARGUMENTS = {"D": "resize_z", "H": "resize_y", "W": "resize_x"}

RESIZE_ARGUMENTS = (
    Argument(
        "size",
        Kind.FLOATS,
        "Size of the output in pixels, (height, width) or (depth, height, width); 0 leaves an axis to `mode`, a "
        "negative number flips it.",
        per_sample=True,
    ),
    Argument("resize_x", Kind.FLOAT, "Width of the output in pixels; 0 leaves it to `mode`.", 0.0, per_sample=True),
    Argument("resize_y", Kind.FLOAT, "Height of the output in pixels; 0 leaves it to `mode`.", 0.0, per_sample=True),
    Argument("resize_z", Kind.FLOAT, "Depth of the output in voxels; 0 leaves it to `mode`.", 0.0, per_sample=True),
    Argument(
        "resize_shorter", Kind.FLOAT, "Length of the output's shorter side in pixels; keeps the aspect ratio.", 0.0,
        per_sample=True,
    ),
    Argument(
        "resize_longer", Kind.FLOAT, "Length of the output's longer side in pixels; keeps the aspect ratio.", 0.0,
        per_sample=True,
    ),
    Argument("max_size", Kind.FLOATS, "Largest size of the output in pixels: one for all axes, or one each."),
    Argument(
        "mode",
        Kind.STRING,
        "'default' scales axes without a size by the geometric mean of the others' factors, 'stretch' keeps them; "
        "'not_larger' and 'not_smaller' keep the aspect ratio and take the smallest or the largest factor.",
        "default",
        choices=("default", "stretch", "not_larger", "not_smaller"),
    ),
    Argument(
        "subpixel_scale",
        Kind.BOOL,
        "Where the output's size was rounded, shift the borders of the input's region so that the scale stays exact.",
        True,
    ),
    Argument(
        "roi_start", Kind.FLOATS, "Where the region to resize begins, in pixels, in the order of `size`.",
        per_sample=True,
    ),
    Argument("roi_end", Kind.FLOATS, "Where the region ends; before its start flips the axis.", per_sample=True),
    Argument("roi_relative", Kind.BOOL, "The region is given in fractions of the input's extents.", False),
)  # fmt: skip


# A size below this counts as this where the region is adapted to the rounded size, as in DALI.
_LEAST = 0.1


class Resized(NamedTuple):
    """How to resize one sample, by spatial axis.

    Attributes:
        size: of the output.
        low: where the input's region begins, in pixels; after `high` flips.
        high: where it ends.
        whole: whether the region is just the whole input.
    """

    size: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    whole: bool


class ResizedBatch(NamedTuple):
    """How to resize the samples of a batch: the columns of `Resized`.

    Attributes:
        size: (N, axes) int64.
        low: (N, axes) float64.
        high: (N, axes) float64.
    """

    size: npt.NDArray[np.int64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


class Geometry(Protocol):
    """Computes sizes and regions of a batch. Nothing changes it, so that it may serve further batches."""

    #: Whether it depends on random numbers.
    drawn: ClassVar[bool]

    @classmethod
    def of(cls, node: GraphNode, batch: Batch, axes: str) -> Geometry:
        """Make that of a batch of a node, whose spatial axes are "HW" or "DHW"."""

    @property
    def fixed_size(self) -> tuple[int, ...] | None:
        """The size of all outputs, where it depends on no input."""

    def solve(self, sample: int, extents: Sequence[int]) -> Resized:
        """Return size and region of a sample, given the extents of its spatial axes."""

    def solve_all(self, extents: npt.NDArray[np.int64]) -> ResizedBatch:
        """Return sizes and regions of all samples, given (N, axes) extents: what `solve` returns for each.

        Raises:
            OperatorError: with the samples that can't be resized.
        """


def solve_each(geometry: Geometry, extents: npt.NDArray[np.int64]) -> ResizedBatch:
    """Solve for one sample after the other.

    Raises:
        OperatorError: with the samples that can't be resized.
    """
    solved: list[Resized] = []
    failures: list[tuple[int, PipelineError]] = []
    for sample, lengths in enumerate(extents.tolist()):
        try:
            solved.append(geometry.solve(sample, lengths))
        except PipelineError as error:
            failures.append((sample, error))
    fail(failures)
    size, low, high, _ = zip(*solved, strict=True)
    return ResizedBatch(np.array(size, np.int64), np.array(low, np.float64), np.array(high, np.float64))


class ResizeGeometry:
    """Sizes and regions of a batch, by the arguments of `RESIZE_ARGUMENTS`.

    As in DALI, arguments are float32: that decides where a size like 0.9 * 45 is rounded to.

    Args:
        arguments: of the operator for this batch.
        batch_size: number of samples.
        axes: letters of the spatial axes, "HW" or "DHW".

    Raises:
        ArgumentValueError: for arguments that exclude or miss each other, or are no numbers.
    """

    drawn: ClassVar[bool] = False

    def __init__(self, arguments: Arguments, batch_size: int, axes: str) -> None:
        self._axes = axes
        self._mode: str = arguments.constant("mode")
        self._subpixel: bool = arguments.constant("subpixel_scale")
        self._relative: bool = arguments.constant("roi_relative")
        sizes = self._read_sizes(arguments, batch_size)
        if not np.isfinite(sizes).all():
            sample = int(np.argmax(~np.isfinite(sizes).all(axis=1)))
            raise ArgumentValueError(f"the size isn't a number for sample {sample}: {sizes[sample].tolist()}")
        self._sizes: list[list[float]] = sizes.tolist()
        self._largest = self._read_largest(arguments)
        self._region = self._read_region(arguments)
        #: Sizes that are the outputs' as they are, by sample: most often all are, and one sample more costs nothing.
        self._plain: list[tuple[int, ...] | None] = [None] * batch_size
        #: The same as a table, where all are.
        self._plain_sizes: npt.NDArray[np.int64] | None = None
        if self._mode in ("default", "stretch") and self._largest is None and self._region is None:
            plain = (sizes >= 1).all(axis=1) & (sizes == np.trunc(sizes)).all(axis=1)
            self._plain = [
                tuple(map(int, size)) if whole else None
                for size, whole in zip(self._sizes, plain.tolist(), strict=True)
            ]
            if plain.all():
                self._plain_sizes = sizes.astype(np.int64)

    @classmethod
    def of(cls, node: GraphNode, batch: Batch, axes: str) -> ResizeGeometry:
        """Make that of a batch of a node."""
        return cls(batch.arguments(node), batch.size, axes)

    @cached_property
    def fixed_size(self) -> tuple[int, ...] | None:
        """The size of all outputs, where it depends on no input."""
        first = self._sizes[0]
        if self._mode not in ("default", "stretch") or 0 in first or any(size != first for size in self._sizes):
            return None
        return tuple(map(_whole, self._limited([abs(size) for size in first])))

    def solve(self, sample: int, extents: Sequence[int]) -> Resized:
        """Return size and region of a sample, given the extents of its spatial axes.

        Raises:
            PipelineError: when the sample is empty.
        """
        if 0 in extents:
            raise PipelineError(f"can't resize an empty image, of {' x '.join(map(str, extents))}")
        plain = self._plain[sample]
        if plain is not None:
            return Resized(plain, (0.0,) * len(plain), tuple(map(float, extents)), True)
        asked = self._sizes[sample]
        if self._region is None:
            low, high = [0.0] * len(extents), [float(extent) for extent in extents]
            lengths = high
        else:
            starts, ends = self._region
            factors = extents if self._relative else [1] * len(extents)
            low = [_single(start * factor) for start, factor in zip(starts[sample], factors, strict=True)]
            high = [_single(end * factor) for end, factor in zip(ends[sample], factors, strict=True)]
            lengths = [_single(abs(end - start)) for start, end in zip(low, high, strict=True)]
        exact = self._scaled([abs(size) for size in asked], lengths)
        size = tuple(map(_whole, exact))
        whole = self._region is None
        for axis, (wanted, count) in enumerate(zip(exact, size, strict=True)):
            if self._subpixel and wanted != count and wanted > 0:
                centre, half = (low[axis] + high[axis]) / 2, (high[axis] - low[axis]) / 2 * count / max(wanted, _LEAST)
                low[axis], high[axis] = centre - half, centre + half
                whole = False
            # In DALI, a region that runs backwards doesn't flip an axis of which no size was asked for.
            unasked = asked[axis] == 0 and (self._mode in ("default", "stretch") or not any(asked))
            if asked[axis] < 0 or (unasked and low[axis] > high[axis]):
                low[axis], high[axis] = high[axis], low[axis]
                whole = False
        return Resized(size, tuple(low), tuple(high), whole)

    def solve_all(self, extents: npt.NDArray[np.int64]) -> ResizedBatch:
        """Return sizes and regions of all samples, given (N, axes) extents.

        Raises:
            OperatorError: with the samples that are empty.
        """
        if self._plain_sizes is None or not extents.all():
            return solve_each(self, extents)
        high = extents.astype(np.float64)
        return ResizedBatch(self._plain_sizes, np.zeros_like(high), high)

    def _scaled(self, asked: list[float], lengths: Sequence[float]) -> list[float]:
        """Return the size before rounding; `asked` is 0 where the mode decides."""
        scales = [_single(size / length) for size, length in zip(asked, lengths, strict=True) if size and length]
        if self._mode in ("not_larger", "not_smaller"):
            scale = (min if self._mode == "not_larger" else max)(scales, default=1.0)
            wanted = asked
            if self._largest is not None:
                limits = [
                    _single(limit / length) for limit, length in zip(self._largest, lengths, strict=True) if length
                ]
                if min(limits, default=scale) < scale:
                    scale, wanted = min(limits), list(self._largest)
            # The axis that decides gets exactly what was asked for, whatever division and multiplication make of it.
            return [
                size if length and _single(size / length) == scale else _single(length * scale)
                for size, length in zip(wanted, lengths, strict=True)
            ]
        # The geometric mean, as in DALI; for one axis given, it keeps the aspect ratio.
        scale = _single(math.prod(scales) ** (1 / len(scales))) if scales and self._mode == "default" else 1.0
        return self._limited([size or _single(length * scale) for size, length in zip(asked, lengths, strict=True)])

    def _limited(self, sizes: list[float]) -> list[float]:
        if self._largest is None:
            return sizes
        return [min(size, limit) for size, limit in zip(sizes, self._largest, strict=True)]

    def _read_sizes(self, arguments: Arguments, batch_size: int) -> np.ndarray:
        names = [name for name in ("size", "resize_shorter", "resize_longer") if arguments.given(name)]
        by_axis = [name for name in _AXIS_ARGUMENTS.values() if arguments.given(name)]
        if len(names) + bool(by_axis) != 1:
            given = ", ".join(map(repr, names + by_axis)) or "none of them"
            raise ArgumentValueError(
                f"exactly one of 'size', 'resize_shorter', 'resize_longer' and 'resize_x', 'resize_y', 'resize_z' "
                f"must define the size; given: {given}"
            )
        if names == ["size"]:
            sizes = arguments.vectors("size", len(self._axes), np.float32)
            assert sizes is not None
            return sizes
        result = np.zeros((batch_size, len(self._axes)))
        if by_axis:
            for column, letter in enumerate(self._axes):
                result[:, column] = arguments.scalars(_AXIS_ARGUMENTS[letter], np.float32)
            return result
        if arguments.given("mode"):
            raise ArgumentValueError(f"arguments {names[0]!r} and 'mode' can't be used together")
        self._mode = "not_smaller" if names == ["resize_shorter"] else "not_larger"
        result[:] = arguments.vectors(names[0], 1, np.float32)
        return result

    def _read_largest(self, arguments: Arguments) -> tuple[float, ...] | None:
        largest: tuple[float, ...] | None = arguments.constant("max_size")
        if largest is None:
            return None
        if len(largest) not in (1, len(self._axes)) or not all(limit > 0 for limit in largest):
            raise ArgumentValueError(
                f"argument 'max_size' must be 1 or {len(self._axes)} positive numbers, not {list(largest)}"
            )
        return largest * len(self._axes) if len(largest) == 1 else largest

    def _read_region(self, arguments: Arguments) -> tuple[list[list[float]], list[list[float]]] | None:
        start, end = (arguments.vectors(name, len(self._axes), np.float32) for name in ("roi_start", "roi_end"))
        if start is None and end is None:
            return None
        if start is None or end is None:
            raise ArgumentValueError("arguments 'roi_start' and 'roi_end' must be given together")
        if not (np.isfinite(start).all() and np.isfinite(end).all()):
            raise ArgumentValueError("arguments 'roi_start' and 'roi_end' must be finite numbers")
        return start.tolist(), end.tolist()


def _single(value: float) -> float:
    """Round to float32, in which DALI computes sizes: it decides how much a region is adapted to the rounded size."""
    return float(np.float32(value))


def _whole(size: float) -> int:
    return max(1, round_half_away(size))
