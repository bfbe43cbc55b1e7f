"""Arguments for sizes and regions of resizing, for any number of spatial axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

import numpy as np

from dali_proxy.pipeline._arrays import Float64s, Int64s
from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._declaration import Argument, Kind
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.gpu_operator import each_sample
from dali_proxy.pipeline._operators.geometry.windows import round_half_away
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError

if TYPE_CHECKING:
    from dali_proxy.pipeline._graph.graph import GraphNode
    from dali_proxy.pipeline._operator_api.batch import Batch

# The modes, by their numbers in headers/tables.h.
_MODES = ("default", "stretch", "not_larger", "not_smaller")
_AXIS_ARGUMENTS = {"D": "resize_z", "H": "resize_y", "W": "resize_x"}

RESIZE_ARGUMENTS = (
    Argument(
        "size",
        Kind.FLOATS,
        "Size of the output in pixels, (height, width) or (depth, height, width). For an axis of size 0, `mode` sets "
        "the size. A negative number flips the axis.",
        per_sample=True,
    ),
    Argument("resize_x", Kind.FLOAT, "Width of the output in pixels; if 0, `mode` sets it.", 0.0, per_sample=True),
    Argument("resize_y", Kind.FLOAT, "Height of the output in pixels; if 0, `mode` sets it.", 0.0, per_sample=True),
    Argument("resize_z", Kind.FLOAT, "Depth of the output in voxels; if 0, `mode` sets it.", 0.0, per_sample=True),
    Argument(
        "resize_shorter", Kind.FLOAT, "Shorter side of the output in pixels; keeps the aspect ratio.", 0.0,
        per_sample=True,
    ),
    Argument(
        "resize_longer", Kind.FLOAT, "Longer side of the output in pixels; keeps the aspect ratio.", 0.0,
        per_sample=True,
    ),
    Argument("max_size", Kind.FLOATS, "Largest size of the output in pixels: one for all axes, or one per axis."),
    Argument(
        "mode",
        Kind.STRING,
        "'default' scales axes without a size by the geometric mean of the other axes' factors; 'stretch' keeps their "
        "size; 'not_larger' and 'not_smaller' keep the aspect ratio and use the smallest or the largest factor.",
        "default",
        choices=_MODES,
        unknown="Invalid resize mode: {}.",
    ),
    Argument(
        "subpixel_scale",
        Kind.BOOL,
        "If the output's size was rounded, adapt the region of the input so that the scale stays exact.",
        True,
    ),
    Argument(
        "roi_start", Kind.FLOATS, "Start of the region to resize, in pixels, in the order of `size`.",
        per_sample=True,
    ),
    Argument("roi_end", Kind.FLOATS, "End of the region; an end before the start flips the axis.", per_sample=True),
    Argument("roi_relative", Kind.BOOL, "`roi_start` and `roi_end` are fractions of the input's extents.", False),
)  # fmt: skip


# A region is adapted to a rounded size as if the unrounded size were at least this many pixels, as in DALI.
_MIN_SIZE = 0.1


class Resized(NamedTuple):
    """Size and region to resize one sample, by spatial axis.

    Attributes:
        size: size of the output.
        low: start of the input's region in pixels. A start behind the end flips the axis.
        high: end of the region.
        whole: whether the region is exactly the whole input.
    """

    size: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    whole: bool


class ResizedBatch(NamedTuple):
    """Sizes and regions to resize the samples of a batch: the columns of `Resized`.

    Attributes:
        size: sizes of the outputs, (N, axes) int64.
        low: starts of the regions, (N, axes) float64.
        high: ends of the regions, (N, axes) float64.
    """

    size: Int64s
    low: Float64s
    high: Float64s


class Geometry(Protocol):
    """Computes sizes and regions of a batch. Immutable, so that other batches can reuse it."""

    #: Whether the geometry depends on random numbers.
    drawn: ClassVar[bool]

    @classmethod
    def from_batch(cls, node: GraphNode, batch: Batch, axes: str) -> Geometry:
        """Return the geometry of a batch whose spatial axes are "HW" or "DHW"."""

    @property
    def fixed_size(self) -> tuple[int, ...] | None:
        """The size of all outputs, or None if it depends on the inputs."""

    def solve(self, sample: int, extents: Sequence[int]) -> Resized:
        """Return size and region of a sample, given the extents of its spatial axes.

        Raises:
            PipelineError: the sample can't be resized: it is empty, for example.
        """

    def solve_all(self, extents: Int64s) -> ResizedBatch:
        """Return sizes and regions of all samples, given (N, axes) extents, as `solve` returns them.

        Raises:
            OperatorError: Samples can't be resized; the error lists them.
        """


def solve_each(solve: Callable[[int, Sequence[int]], Resized], extents: Int64s) -> ResizedBatch:
    """Return sizes and regions of all samples, (N, axes) extents, by `Geometry.solve` of one after the other.

    Raises:
        OperatorError: Samples can't be resized; the error lists them.
    """
    size, low, high, _ = zip(*each_sample(solve, range(len(extents)), extents.tolist()), strict=True)
    return ResizedBatch(np.array(size, np.int64), np.array(low, np.float64), np.array(high, np.float64))


class ResizeGeometry(Geometry):
    """Sizes and regions of a batch along the axes "HW" or "DHW", by the arguments of `RESIZE_ARGUMENTS`.

    As in DALI, arguments are float32. This precision matters when a size like 0.9 * 45 is rounded.

    Raises:
        ArgumentValueError: Arguments are mutually exclusive, are missing, or aren't finite.
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
        self._requested = np.ascontiguousarray(sizes, np.float64)
        self._sizes: list[list[float]] = sizes.tolist()
        self._largest = self._read_largest(arguments)
        self._region = self._read_region(arguments)
        #: By sample: the size of the output if no computation is needed, which is the most frequent case.
        self._plain: list[tuple[int, ...] | None] = [None] * batch_size
        #: The same as a table, if no sample needs a computation.
        self._plain_sizes: Int64s | None = None
        if self._mode in ("default", "stretch") and self._largest is None and self._region is None:
            plain = (sizes >= 1).all(axis=1) & (sizes == np.trunc(sizes)).all(axis=1)
            self._plain = [
                tuple(map(int, size)) if is_plain else None
                for size, is_plain in zip(self._sizes, plain.tolist(), strict=True)
            ]
            if plain.all():
                self._plain_sizes = sizes.astype(np.int64)

    @classmethod
    def from_batch(cls, node: GraphNode, batch: Batch, axes: str) -> ResizeGeometry:
        return cls(batch.arguments(node), batch.size, axes)

    @cached_property
    def fixed_size(self) -> tuple[int, ...] | None:
        first = self._sizes[0]
        if self._mode not in ("default", "stretch") or 0 in first or any(size != first for size in self._sizes):
            return None
        return tuple(map(_to_pixels, self._limited([abs(size) for size in first])))

    def solve(self, sample: int, extents: Sequence[int]) -> Resized:
        if 0 in extents:
            raise PipelineError(f"can't resize an empty image of {' x '.join(map(str, extents))}")
        plain = self._plain[sample]
        if plain is not None:
            return Resized(plain, (0.0,) * len(plain), tuple(map(float, extents)), True)
        requested = self._sizes[sample]
        if self._region is None:
            low, high = [0.0] * len(extents), [float(extent) for extent in extents]
            lengths = high
        else:
            starts, ends = self._region
            factors = extents if self._relative else [1] * len(extents)
            low = [_single(start * factor) for start, factor in zip(starts[sample], factors, strict=True)]
            high = [_single(end * factor) for end, factor in zip(ends[sample], factors, strict=True)]
            lengths = [_single(abs(end - start)) for start, end in zip(low, high, strict=True)]
        exact = self._scaled([abs(size) for size in requested], lengths)
        size = tuple(map(_to_pixels, exact))
        whole = self._region is None
        for axis, (unrounded, count) in enumerate(zip(exact, size, strict=True)):
            if self._subpixel and unrounded != count and unrounded > 0:
                centre = (low[axis] + high[axis]) / 2
                half = (high[axis] - low[axis]) / 2 * count / max(unrounded, _MIN_SIZE)
                low[axis], high[axis] = centre - half, centre + half
                whole = False
            # In DALI, a region whose start is behind its end doesn't flip an axis without a size.
            unspecified = requested[axis] == 0 and (self._mode in ("default", "stretch") or not any(requested))
            if requested[axis] < 0 or (unspecified and low[axis] > high[axis]):
                low[axis], high[axis] = high[axis], low[axis]
                whole = False
        return Resized(size, tuple(low), tuple(high), whole)

    def solve_all(self, extents: Int64s) -> ResizedBatch:
        solved = self._solve_together(extents) if extents.all() else None
        return solve_each(partial(ResizeGeometry.solve, self), extents) if solved is None else solved

    def _solve_together(self, extents: Int64s) -> ResizedBatch | None:
        """Return `solve` of all samples, with the same bits; None for samples that `solve` must solve."""
        requested, lengths = self._requested, np.array(extents, np.float64, order="C")
        low, high = np.zeros_like(lengths), lengths
        if self._plain_sizes is not None:
            return ResizedBatch(self._plain_sizes, low, high)
        if compiled is None:
            return None
        if self._region is None:
            high = lengths.copy()
        else:
            factors = lengths if self._relative else 1.0
            low, high = (_singles(np.array(ends) * factors) for ends in self._region)
            lengths = _singles(np.abs(high - low))
        largest, size = np.array(self._largest or (), np.float64), np.empty(extents.shape, np.int64)
        mode = _MODES.index(self._mode)
        if not compiled.solve_sizes(
            len(self._axes), requested, lengths, largest, mode, self._subpixel, low, high, size
        ):
            return None
        return ResizedBatch(size, low, high)

    def _scaled(self, requested: list[float], lengths: Sequence[float]) -> list[float]:
        """Return the size before rounding; `requested` is 0 for axes that the mode scales."""
        if not any(requested):
            return list(lengths)  # as in DALI, whatever `max_size` is
        scales = [_single(size / length) for size, length in zip(requested, lengths, strict=True) if size and length]
        if self._mode in ("not_larger", "not_smaller"):
            scale = (min if self._mode == "not_larger" else max)(scales, default=1.0)
            sizes = requested
            if self._largest is not None:
                limits = [
                    _single(limit / length) for limit, length in zip(self._largest, lengths, strict=True) if length
                ]
                if min(limits, default=scale) < scale:
                    scale, sizes = min(limits), list(self._largest)
            # The axis that determines the scale gets exactly the requested size, without rounding errors.
            return [
                size if length and _single(size / length) == scale else _single(length * scale)
                for size, length in zip(sizes, lengths, strict=True)
            ]
        # The geometric mean, as in DALI. If only one axis has a size, the mean keeps the aspect ratio.
        scale = _single(math.prod(scales) ** (1 / len(scales))) if scales and self._mode == "default" else 1.0
        return self._limited([size or _single(length * scale) for size, length in zip(requested, lengths, strict=True)])

    def _limited(self, sizes: list[float]) -> list[float]:
        if self._largest is None:
            return sizes
        return [min(size, limit) for size, limit in zip(sizes, self._largest, strict=True)]

    def _read_sizes(self, arguments: Arguments, batch_size: int) -> np.ndarray:
        names = [name for name in ("size", "resize_shorter", "resize_longer") if arguments.given(name)]
        by_axis = [name for name in _AXIS_ARGUMENTS.values() if arguments.given(name)]
        if len(names) + bool(by_axis) != 1:
            passed = ", ".join(map(repr, names + by_axis)) or "none of them"
            raise ArgumentValueError(
                "Exactly one method of specifying size must be used: 'size', 'resize_shorter', 'resize_longer', or "
                f"'resize_x', 'resize_y' and 'resize_z', but the arguments are: {passed}"
            )
        if names == ["size"]:
            sizes = arguments.vectors("size", len(self._axes), np.float32)
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
        optional, count = arguments.optional, len(self._axes)
        start, end = (optional(arguments.vectors, name, count, np.float32) for name in ("roi_start", "roi_end"))
        if start is None and end is None:
            return None
        if start is None or end is None:
            raise ArgumentValueError("``roi_start`` and ``roi_end`` must be specified together")
        if not (np.isfinite(start).all() and np.isfinite(end).all()):
            raise ArgumentValueError("arguments 'roi_start' and 'roi_end' must be finite numbers")
        return start.tolist(), end.tolist()


def _single(value: float) -> float:
    """Round to float32, in which DALI computes sizes; this affects how a region is adapted to the rounded size."""
    return float(np.float32(value))


def _singles(values: Float64s) -> Float64s:
    """Return `_single` of all values."""
    return values.astype(np.float32).astype(np.float64)


def _to_pixels(size: float) -> int:
    return max(1, round_half_away(size))
