"""Arguments of `slice`: axes, and absolute or relative bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._declaration import Argument, Kind
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.axes import axes_by_name, check_axes
from dali_proxy.pipeline._operators.geometry.slice_bounds import SliceBounds
from dali_proxy.pipeline._operators.geometry.windows import round_half_away
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

SLICE_ARGUMENTS = (
    Argument(
        "axes", Kind.INTS, "Axes to slice, in the order of the other arguments; negative ones count from the last. By "
        "default `axis_names` defines them.", per_sample=True,
    ),
    Argument("axis_names", Kind.STRING, "Axes to slice, as letters of the layout; all axes if empty.", "WH"),
    Argument("start", Kind.INTS, "First element along each axis.", per_sample=True),
    Argument("end", Kind.INTS, "Element after the last along each axis.", per_sample=True),
    Argument("shape", Kind.INTS, "Extent along each axis.", per_sample=True),
    Argument("rel_start", Kind.FLOATS, "Like `start`, as a fraction of the extent.", per_sample=True),
    Argument("rel_end", Kind.FLOATS, "Like `end`, as a fraction of the extent.", per_sample=True),
    Argument("rel_shape", Kind.FLOATS, "Like `shape`, as a fraction of the extent.", per_sample=True),
    Argument("normalized_anchor", Kind.BOOL, "The anchor input, if float, is a fraction of the extent.", True),
    Argument("normalized_shape", Kind.BOOL, "The shape input, if float, is a fraction of the extent.", True),
)  # fmt: skip

# Meaning of an empty layout, by number of dimensions.
_IMPLIED_LAYOUTS = {2: "HW", 3: "HWC", 4: "DHWC"}


@dataclass(frozen=True)
class _Bound:
    """Bounds of slices.

    Attributes:
        name: argument with the values.
        rows: values by sample and axis, (N, values) if all samples have as many. With None, slices extend to the end
            of the axis.
        relative: whether values are fractions of the extent.
        from_start: whether values count from the start of the slice.
    """

    name: str
    rows: Array | Sequence[Array] | None
    relative: bool = False
    from_start: bool = False

    def value(self, sample: int, position: int, extent: int, *, exact: bool = False) -> float:
        """Return the bound in elements before rounding; fractions are multiplied in float32 unless `exact`."""
        assert self.rows is not None
        row = self.rows[sample]
        value: float = row[position if len(row) > 1 else 0].item()
        if not self.relative:
            return value
        return value * extent if exact else float(np.float32(value * extent))


class Positional(NamedTuple):
    """Anchor and shape inputs of one sample, by axis, and whether anchor and shape are fractions."""

    anchor: list[float]
    shape: list[float]
    fractions: tuple[bool, bool]


def positional(anchor: Array, shape: Array, normalized: tuple[bool, bool]) -> Positional:
    """Return the anchor and shape inputs of a sample."""
    floats = anchor.dtype.kind == "f", shape.dtype.kind == "f"
    fractions = floats[0] and normalized[0], floats[1] and normalized[1]
    return Positional(anchor.ravel().tolist(), shape.ravel().tolist(), fractions)


class SliceWindows:
    """The windows of a batch, by the arguments of `SLICE_ARGUMENTS`, or by anchor and shape `with_inputs`.

    Raises:
        ArgumentValueError: Arguments are mutually exclusive, or an axis doesn't exist.
    """

    def __init__(self, arguments: Arguments, batch_size: int, layout: str, ndim: int | None, with_inputs: bool) -> None:
        self.ndim = ndim if ndim is not None else len(layout) or 3
        self.layout = layout or _IMPLIED_LAYOUTS.get(self.ndim, "")
        self._axes = self._find_axes(arguments, batch_size)
        self._same_axes = not arguments.per_sample("axes")
        named = [name for name in _NAMES if arguments.given(name)]
        if with_inputs and named:
            raise ArgumentValueError(f"argument {named[0]!r} can't be used together with the anchor and shape inputs")
        if not with_inputs and not named:
            raise ArgumentValueError("the slice isn't defined: pass start, end, shape or rel_*, or two more inputs")
        self._begin = _bound(arguments, ("start", "rel_start"))
        self._end = _bound(arguments, ("end", "rel_end", "shape", "rel_shape"))
        self._check_lengths(batch_size)

    def locate(self, sample: int, shape: Sequence[int], bounds: Positional | None) -> tuple[list[int], list[int]]:
        """Return start and extents of a sample's window, along all axes. The window may exceed the sample.

        Raises:
            PipelineError: The window ends before it begins, or the number of values is wrong.
        """
        if len(shape) != self.ndim:
            raise PipelineError(f"the sample has {len(shape)} dimensions, but {self.ndim} are expected")
        axes = self._axes[sample]
        if bounds is not None and not len(bounds.anchor) == len(bounds.shape) == len(axes):
            raise PipelineError(
                f"{len(axes)} axes are sliced, but the anchor has {len(bounds.anchor)} values and the shape has "
                f"{len(bounds.shape)}"
            )
        start, extent = [0] * len(shape), list(shape)
        for position, axis in enumerate(axes):
            size = shape[axis]
            low, high = (
                self._from_arguments(sample, position, size) if bounds is None else _from_inputs(bounds, position, size)
            )
            first, last = round_half_away(low), round_half_away(high)
            if last < first:
                raise PipelineError(
                    f"end coordinates can't be before start coordinates. Got: start={first} end={last} for axis {axis}"
                )
            start[axis], extent[axis] = first, last - first
        return start, extent

    def locate_all(
        self, shapes: Array, inputs: Sequence[TensorListCPU], normalized: tuple[bool, bool]
    ) -> tuple[Array, Array] | None:
        """Return starts and extents of the windows of all samples, (N, ndim).

        Args:
            shapes: shapes of the samples, (N, ndim).
            inputs: anchors and shapes, if they are inputs.
            normalized: whether anchors and shapes are fractions if they are floats.

        Returns:
            The windows; None if `locate` must locate, or refuse, the samples one by one.
        """
        if shapes.shape[1] != self.ndim or not self._same_axes:
            return None
        axes = self._axes[0]
        bounds = self._bounds if not inputs else _input_bounds(inputs, normalized, (len(shapes), len(axes)))
        return None if bounds is None else bounds.locate(shapes, axes)

    @cached_property
    def _bounds(self) -> SliceBounds | None:
        """The bounds of all samples; None if their numbers of values differ."""
        begin, end = (_NONE if bound.rows is None else bound.rows for bound in (self._begin, self._end))
        if not (isinstance(begin, np.ndarray) and isinstance(end, np.ndarray)):
            return None
        relative = (self._begin.relative, self._end.relative)
        return SliceBounds(begin, end, relative, self._end.from_start, exact=False)

    def unsliced(self, known: Sequence[int | None]) -> list[int | None]:
        """Return the known extents of the windows: those of axes that aren't sliced."""
        sliced = {axis for axes in self._axes for axis in axes}
        return [None if axis in sliced else extent for axis, extent in enumerate(known)]

    def _from_arguments(self, sample: int, position: int, size: int) -> tuple[float, float]:
        low = 0.0 if self._begin.rows is None else self._begin.value(sample, position, size)
        if self._end.rows is None:
            return low, size
        high = self._end.value(sample, position, size)
        if not self._end.from_start:
            return low, high
        if self._begin.relative and self._end.relative and high >= 0:
            # DALI rounds the product for each bound to float32, but not the products whose sum is the end.
            end = self._begin.value(sample, position, size, exact=True)
            return low, max(low, end + self._end.value(sample, position, size, exact=True))
        return low, low + high

    def _find_axes(self, arguments: Arguments, batch_size: int) -> list[tuple[int, ...]]:
        varying = arguments.per_sample("axes")
        axes = None if varying else arguments.constant("axes")
        if (varying or axes is not None) and arguments.given("axis_names"):
            raise ArgumentValueError('"axes" and "axis_names" are mutually exclusive')
        if varying:
            rows = arguments.rows("axes", np.int64)
            return [check_axes(row.tolist(), self.ndim) for row in rows]
        if axes is None and (names := arguments.constant("axis_names")):
            axes = axes_by_name(names, self.layout)
        return [check_axes(axes or range(self.ndim), self.ndim)] * batch_size

    def _check_lengths(self, batch_size: int) -> None:
        for bound in (self._begin, self._end):
            if bound.rows is None or (isinstance(bound.rows, np.ndarray) and self._fits(bound.rows.shape[1])):
                continue
            for sample in range(batch_size):
                if len(bound.rows[sample]) not in (1, len(self._axes[sample])):
                    raise ArgumentValueError(
                        f"argument {bound.name!r} has {len(bound.rows[sample])} values for sample {sample}, but "
                        f"{len(self._axes[sample])} axes are sliced"
                    )

    def _fits(self, values: int) -> bool:
        """Return whether so many values for each sample fit its axes, without a look at each sample."""
        return values == 1 or (self._same_axes and values == len(self._axes[0]))


_NAMES = ("start", "rel_start", "end", "rel_end", "shape", "rel_shape")


def _bound(arguments: Arguments, names: Sequence[str]) -> _Bound:
    passed = [name for name in names if arguments.given(name)]
    if len(passed) > 1:
        raise ArgumentValueError(f'"{passed[0]}" and "{passed[1]}" arguments are mutually exclusive')
    if not passed:
        return _Bound(names[0], None)
    (name,) = passed
    rows = arguments.table(name, np.float32 if name.startswith("rel_") else np.int64)
    return _Bound(name, rows, name.startswith("rel_"), name.endswith("shape"))


#: Bounds that aren't given.
_NONE = np.empty(0)


def _input_bounds(
    inputs: Sequence[TensorListCPU], normalized: tuple[bool, bool], shape: tuple[int, int]
) -> SliceBounds | None:
    """Return anchors and shapes as the bounds of (samples, axes) slices; None if their numbers of values differ."""
    anchor, extent = (values.small_array() for values in inputs)
    if anchor is None or extent is None or not anchor.size == extent.size == math.prod(shape):
        return None
    relative = anchor.dtype.kind == "f" and normalized[0], extent.dtype.kind == "f" and normalized[1]
    return SliceBounds(anchor.reshape(shape), extent.reshape(shape), relative, from_start=True, exact=True)


def _from_inputs(bounds: Positional, position: int, size: int) -> tuple[float, float]:
    low = bounds.anchor[position] * (size if bounds.fractions[0] else 1)
    return low, low + bounds.shape[position] * (size if bounds.fractions[1] else 1)
