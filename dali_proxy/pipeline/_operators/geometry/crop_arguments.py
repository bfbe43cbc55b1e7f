"""Arguments that define the window to crop, and their resolution for all operators that crop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dali_proxy.pipeline._arrays import Float64s, Int64s
from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._declaration import Argument, Kind
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.output_specs import Extents
from dali_proxy.pipeline._operators.geometry.windows import round_half_away
from dali_proxy.pipeline.errors import ArgumentValueError

CROP_ARGUMENTS = (
    Argument(
        "crop",
        Kind.FLOATS,
        "Extents of the window in pixels: (height, width) or (depth, height, width). 0 means the whole axis.",
        per_sample=True,
    ),
    Argument("crop_d", Kind.FLOAT, "Depth of the window in voxels; needs crop_h and crop_w.", 0.0, per_sample=True),
    Argument("crop_h", Kind.FLOAT, "Height of the window in pixels; needs crop_w.", 0.0, per_sample=True),
    Argument("crop_w", Kind.FLOAT, "Width of the window in pixels; needs crop_h.", 0.0, per_sample=True),
    Argument(
        "crop_pos_x",
        Kind.FLOAT,
        "Horizontal position of the window, from 0 (left) to 1 (right): it starts at crop_pos_x * (W - crop_w).",
        0.5,
        per_sample=True,
    ),
    Argument(
        "crop_pos_y", Kind.FLOAT, "Vertical position of the window, from 0 (top) to 1 (bottom).", 0.5, per_sample=True
    ),
    Argument(
        "crop_pos_z", Kind.FLOAT, "Position of the window in depth, from 0 (front) to 1 (back).", 0.5, per_sample=True
    ),
    Argument(
        "rounding",
        Kind.STRING,
        "Rounding of the first pixel of the window: 'round' to nearest, halves away from zero, or 'truncate'.",
        "round",
        choices=("round", "truncate"),
        unknown="``rounding`` value {} is not supported.",
    ),
)

_LETTERS = "DHW"
_POSITIONS = {"D": "crop_pos_z", "H": "crop_pos_y", "W": "crop_pos_x"}
#: Names of the arguments that only move windows.
POSITION_ARGUMENTS = tuple(_POSITIONS.values())


class CropWindows:
    """The windows of a batch, by the arguments of `CROP_ARGUMENTS`. The layout has H and W.

    Raises:
        ArgumentValueError: Arguments are mutually exclusive, or a position isn't between 0 and 1.
    """

    def __init__(self, arguments: Arguments, batch_size: int, layout: str) -> None:
        self._axes = [(layout.index(letter), column) for column, letter in enumerate(_LETTERS) if letter in layout]
        #: By sample and letter of `_LETTERS`, and whether every window is its whole sample.
        self._sizes, self.whole = arguments.derived(_sizes, "crop", "crop_d", "crop_h", "crop_w")
        self._positions = arguments.derived(_positions, *_POSITIONS.values())
        self._truncate = arguments.constant("rounding") == "truncate"

    @cached_property
    def _rows(self) -> list[tuple[list[int], list[float]]]:
        """The sizes and positions of each sample."""
        return list(zip(self._sizes.tolist(), self._positions.tolist(), strict=True))

    def locate(self, sample: int, shape: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return start and extents of a sample's window, along all axes. The window may exceed the sample."""
        start, extent = [0] * len(shape), list(shape)
        sizes, positions = self._rows[sample]
        for axis, column in self._axes:
            if size := sizes[column]:
                # A product of two float32 is exact in float64. DALI rounds it to float32, which decides ties.
                first = float(np.float32(positions[column] * (shape[axis] - size)))
                start[axis] = int(first) if self._truncate else round_half_away(first)
                extent[axis] = size
        return start, extent

    def locate_all(self, shapes: Int64s) -> tuple[Int64s, Int64s]:
        """Return start and extents of all windows of samples with the shapes (N, ndim), each (N, ndim)."""
        starts, extents = np.zeros_like(shapes), shapes.copy()
        axes, columns = (slice(ends[0], ends[-1] + 1) for ends in zip(*self._axes, strict=True))  # adjacent in layouts
        sizes, positions, whole = self._sizes[:, columns], self._positions[:, columns], shapes[:, axes]
        first = (positions * (whole - sizes)).astype(np.float32).astype(np.float64)  # as in `locate`
        rounded = first if self._truncate else first + np.copysign(0.5, first)
        is_cut = sizes != 0
        starts[:, axes] = np.trunc(rounded) * is_cut
        np.copyto(extents[:, axes], sizes, where=is_cut)
        return starts, extents

    def extents(self, known: Extents | None) -> Extents | None:
        """Return the known extents of the windows, given the known extents of the samples."""
        if known is None:
            return None
        result = list(known)
        for axis, column in self._axes:
            sizes = set(self._sizes[:, column].tolist())
            if sizes != {0}:
                result[axis] = sizes.pop() if len(sizes) == 1 else None
        return tuple(result)


def _sizes(arguments: Arguments, batch_size: int) -> tuple[Int64s, bool]:
    """Return the sizes of windows by letter, (N, 3), and whether all are whole samples; 0 means the whole axis."""
    sizes = np.zeros((batch_size, 3))
    by_axis = [name for name in ("crop_d", "crop_h", "crop_w") if arguments.given(name)]
    if arguments.given("crop"):
        if by_axis:
            raise ArgumentValueError(
                f"`crop` argument is not compatible with `crop_h`, `crop_w`, `crop_d`, but {by_axis[0]!r} was passed, "
                "too"
            )
        crop = arguments.optional(arguments.vectors, "crop")
        if crop is None or crop.shape[1] not in (2, 3):
            count = 0 if crop is None else crop.shape[1]
            raise ArgumentValueError(
                f"`crop` argument should have 2 or 3 elements ([depth,] height, width), but has {count}"
            )
        sizes[:, 3 - crop.shape[1] :] = crop
    elif by_axis:
        for name in ("crop_h", "crop_w"):
            if name not in by_axis:
                raise ArgumentValueError(
                    f"`crop_w` and `crop_h` arguments must be provided together: {by_axis[-1]!r} also needs {name!r}"
                )
        for column, letter in enumerate(_LETTERS):
            values = arguments.optional(arguments.scalars, f"crop_{letter.lower()}")
            if values is not None:
                sizes[:, column] = values
    if not np.isfinite(sizes).all():
        sample = int(np.argmax(~np.isfinite(sizes).all(axis=1)))
        raise ArgumentValueError(f"the size of the window isn't finite for sample {sample}: {sizes[sample].tolist()}")
    return np.maximum(np.trunc(sizes), 0).astype(np.int64), not sizes.any()


def _positions(arguments: Arguments, batch_size: int) -> Float64s:
    positions = np.empty((batch_size, 3), np.float32)
    for column, letter in enumerate(_LETTERS):
        values = arguments.optional(arguments.scalars, _POSITIONS[letter], np.float32)
        positions[:, column] = 0.5 if values is None else values
    inside = (positions >= 0) & (positions <= 1)
    if not inside.all():
        column = int(np.argmin(inside.all(axis=0)))
        sample = int(np.argmin(inside[:, column]))
        raise ArgumentValueError(
            f"argument {_POSITIONS[_LETTERS[column]]!r} must be between 0 and 1, not {positions[sample, column]:g} for "
            f"sample {sample}"
        )
    return positions.astype(np.float64)
