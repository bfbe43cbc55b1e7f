"""Images as expressions: the pixels of a batch as a function of memory, computed by one kernel when they are needed.

An operator whose output pixels depend on single input pixels, or on a few of them, doesn't launch a kernel. It adds a
node to the expression of its input. `PixelExpression.launch` evaluates a chain of such operators at once: the types of
expressions.cuh are combined to one type, and each sample has one row with the parameters of all nodes.

This module needs neither CuPy nor a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Array, Bytes, Float32s, Float64s, Int64s, UInt64s
from dali_proxy.pipeline._cuda.launch import ADDRESS, ctype
from dali_proxy.pipeline._imaging.patches import PatchLayout
from dali_proxy.pipeline._kernels.aligned_windows import aligned_windows
from dali_proxy.pipeline._kernels.axes import AXIS
from dali_proxy.pipeline._kernels.dimensions import COLUMNS, columns_of
from dali_proxy.pipeline._kernels.pixels import Pixels
from dali_proxy.pipeline._kernels.point_maps import PointMap
from dali_proxy.pipeline._kernels.rows import copied
from dali_proxy.pipeline._kernels.samples import contiguous_strides

#: Dtypes whose values float32 represents exactly, so that sums of weighted pixels may start from them.
EXACT_IN_FLOAT = {np.dtype(name) for name in ("uint8", "int8", "uint16", "int16", "float16", "float32")}
#: Largest windows whose pixels a thread keeps in registers to find their median.
_KEPT = (9, 25)
_GRAY = 2
_FEW_REGIONS = 8
_WIDE = {np.dtype(name) for name in ("float64", "int64", "uint64", "int32", "uint32")}


class PixelExpression(Pixels):
    """The pixels of a batch, to which an operator adds a node; see `Pixels`."""

    def window(
        self, first: Int64s, step: Int64s | int, extents: Int64s,
        fill: npt.ArrayLike | None = None,
    ) -> PixelExpression:  # fmt: skip
        """Return windows: position p along an axis shows position ``first + p * step``.

        Args:
            first: (N, 3) for depth, height and width.
            step: (N, 3), or one number.
            extents: extents of the windows, (N, 3).
            fill: values outside of the image, converted to its dtype; a number or one per channel. None if all windows
                lie inside.
        """
        if fill is None and self.in_memory:
            rows = copied(self.rows)
            data, strides = rows["data"], rows["strides"][:, :3]
            data += np.einsum("nd,nd->n", first, strides)
            strides *= step
            return self.replaced(rows=rows, extents=extents)
        fields = {"fill": 0.0 if fill is None else fill, "first": first, "step": step}
        kinds = {"fill": ("f8", (self.channels,)), "first": ("i4", (3,)), "step": ("i4", (3,)), "extent": ("i4", (3,))}
        return self._node("Window", "", kinds, {**fields, "extent": self.extents}, extents=extents)

    def erase(self, regions: Int64s, fill: npt.ArrayLike) -> PixelExpression:
        """Return the pixels with fill values in regions.

        Args:
            regions: first element of each region along all dimensions, and the element after the last, (N, R, 2, ndim).
            fill: values, (N, 1 or C), converted to the dtype.
        """
        number = regions.shape[1]
        count = max(1, 1 << (number - 1).bit_length())  # few kernels are compiled
        bounds = np.zeros((2, len(self), count, 4), np.int32)  # regions behind the last are empty
        bounds[1, :, :number] = 1  # of dimensions that the samples don't have
        bounds[:, :, :number, columns_of(self.order)] = regions.transpose(2, 0, 1, 3)
        shape = ("i4", (count, 4))
        kinds = {"fill": ("f8", (self.channels,)), "begin": shape, "end": shape}
        fields = {"fill": fill, "begin": bounds[0], "end": bounds[1]}
        # Many regions take time.
        return self._node("Erase", f"{count}, ", kinds, fields, reads=1 if count <= _FEW_REGIONS else 2)

    def noise(
        self,
        kind: int,
        seeds: UInt64s,
        parameters: tuple[npt.ArrayLike, npt.ArrayLike],
        replacements: tuple[npt.ArrayLike, npt.ArrayLike],
        axis: int | None = None,
    ) -> PixelExpression:
        """Return the pixels with noise, which depends only on the seeds and the positions of the elements.

        Args:
            kind: value of a `noise.Noise`.
            seeds: seeds of the samples, (N,).
            parameters: mean and standard deviation, probability of salt and of either, or factor of shot noise and 0.
            replacements: values of salt and pepper, in the dtype of the pixels.
            axis: dimension whose elements share a draw, if there is one.
        """
        columns, shapes = columns_of(self.order), self.shapes
        if axis is not None:
            shapes = shapes.copy()
            shapes[:, axis] = 1
        distances = contiguous_strides(shapes, 1)
        if axis is not None:
            distances[:, axis] = 0
        steps = np.zeros((len(self), 4), np.int64)
        steps[:, columns] = distances
        kinds: dict[str, Any] = {"steps": ("i8", (4,)), "seed": ("u8", ()), "first": ("f8", ()), "second": ("f8", ())}
        kinds |= {"salt": (self.dtype, ()), "pepper": (self.dtype, ())}
        fields = dict(zip(kinds, (steps, seeds, *parameters, *replacements), strict=True))
        number = "double" if self.dtype in _WIDE else "float"
        return self._node("Noise", f"{kind}, {number}, ", kinds, fields, reads=2)  # drawing takes time

    def cast(self, dtype: np.dtype[Any]) -> PixelExpression:
        """Return the pixels with another element type."""
        return self if dtype == self.dtype else self._node("Cast", f"{ctype(dtype)}, ", {}, {}, dtype=dtype)

    def normalize(self, scale: npt.ArrayLike, bias: npt.ArrayLike, dtype: np.dtype[Any]) -> PixelExpression:
        """Return ``value * scale + bias``, which are numbers, (C,), or (N, 1 or C)."""
        number = "double" if dtype in _WIDE or self.dtype in _WIDE else "float"
        shape = ("f8", (self.channels,))
        kinds, fields = {"scale": shape, "bias": shape}, {"scale": scale, "bias": bias}
        return self._node("Normalize", f"{ctype(dtype)}, {number}, ", kinds, fields, dtype=dtype)

    def matrix(self, matrix: npt.ArrayLike, offset: npt.ArrayLike, dtype: np.dtype[Any]) -> PixelExpression:
        """Return ``matrix @ pixel + offset``: (K, C) or (N, K, C), and a number, (K,), or (N, 1 or K)."""
        values = np.asarray(matrix, np.float32)
        rows, columns = values.shape[-2:]
        kinds = {"matrix": ("f4", (rows, columns)), "offset": ("f4", (rows,))}
        fields = {"matrix": values, "offset": np.asarray(offset, np.float32)}
        return self._node("Matrix", f"{ctype(dtype)}, {rows}, ", kinds, fields, dtype=dtype, channels=rows)

    def with_channels(self, fill: Float64s) -> PixelExpression:
        """Return the pixels with further channels that have fill values, (K,), converted to the dtype."""
        channels = self.channels + len(fill)
        kinds, fields = {"fill": ("f8", (len(fill),))}, {"fill": fill}
        return self._node("Channels", f"{channels}, ", kinds, fields, channels=channels) if len(fill) else self

    def combine(self, operation: str, other: PixelExpression, dtype: np.dtype[Any]) -> PixelExpression:
        """Return ``operation(self, other)`` for each element.

        Args:
            operation: name of a struct with a function `of` in expressions.cuh.
            other: pixels of the same shapes.
            dtype: element type of the result, to which both operands are converted first.
        """
        options, fields = f"{operation}, {ctype(dtype)}, {other.kind}, ", {"other": other.rows}
        result = self._node("Combine", options, {"other": other.row_kind}, fields, dtype=dtype)
        return result.replaced(owners=self.owners + other.owners, reads=self.reads + other.reads)

    def lookup(self, tables: Bytes) -> PixelExpression:
        """Return the entries of tables, (256,) or (N, 256), for the values of uint8 pixels."""
        return self._node("Lookup", "", {"table": ("u1", (256,))}, {"table": tables})

    def lookup_stored(self, tables: Int64s, owner: Any) -> PixelExpression:
        """Return entries of the tables (channels, 256) of each image, at addresses (N,), for values of uint8 pixels."""
        found = self._node("LookupStored", "", {"tables": ADDRESS}, {"tables": tables})
        return found.replaced(owners=(*self.owners, owner))

    def convolve(self, letter: str, weights: Float32s, radii: Int64s, dtype: np.dtype[Any]) -> PixelExpression:
        """Return weighted sums of neighbours along a dimension. Borders reflect without repeating the outermost value.

        Args:
            letter: the dimension.
            weights: (N, odd length); narrower windows are in the middle.
            radii: number of weights on each side, (N,).
            dtype: element type of the result.
        """
        column = COLUMNS[letter]
        # The width is rounded up, so that few kernels are compiled.
        width = max(16, 1 << (weights.shape[1] - 1).bit_length())
        padded = aligned_windows(weights, radii, width)
        fields = {"radius": radii, "extent": self.extents[:, column], "weights": padded}
        kinds = {"radius": ("i4", ()), "extent": ("i4", ()), "weights": ("f4", (width,))}
        number = "double" if self.dtype == np.float64 else "float"
        options = f"{ctype(dtype)}, {number}, {column}, {width}, "
        return self._node("Convolve", options, kinds, fields, dtype=dtype, reads=weights.shape[1])

    def cached(self) -> PixelExpression:
        """Return the same pixels, which a block computes once: for an operator that reads each of them several times.

        That operator must be a `convolve` along height or width, possibly with others behind it that don't move pixels.
        """
        return self._node("Cached", "", {}, {})

    def resize(self, y: Array, x: Array, size: Int64s, dtype: np.dtype[Any]) -> PixelExpression:
        """Return resized images.

        Args:
            y: tables of the rows, (N,) of `axes.AXIS`.
            x: tables of the columns.
            size: height and width, (N, 2).
            dtype: element type of the result.
        """
        extents = self.extents.copy()
        extents[:, 1:] = size
        fields = {"y": y, "x": x}
        return self._node(
            "Resize", f"{ctype(dtype)}, ", {"y": AXIS, "x": AXIS}, fields, dtype=dtype, extents=extents, reads=16
        )

    def warp(
        self, points: PointMap, size: Int64s, dtype: np.dtype[Any], *, taps: int, border: int, fill: npt.ArrayLike = 0.0
    ) -> PixelExpression:
        """Return images that show the source, which isn't empty, at other positions.

        Args:
            points: positions in the source.
            size: height and width of the results, (N, 2).
            dtype: element type of the result.
            taps: 1 for the nearest pixel, 2 to interpolate linearly, 4 and 8 for OpenCV's cubic and Lanczos filters.
            border: a `pipeline._imaging.filter2d.Border`.
            fill: values outside of the source for a constant border, one or one for each channel; in the dtype of the
                result for the nearest pixel, otherwise in that of the source.
        """
        extents = self.extents.copy()
        extents[:, 1:] = size
        kinds = {"points": points.rows.dtype, "fill": ("f8", (self.channels,)), "extent": ("i4", (2,))}
        fields = {"points": points.rows, "fill": fill, "extent": self.extents[:, 1:]}
        options = f"{ctype(dtype)}, {taps}, {int(border)}, {points.kind}, "
        warped = self._node("Warp", options, kinds, fields, dtype=dtype, extents=extents, reads=taps * taps)
        return warped.replaced(owners=(*self.owners, *points.owners))

    def without_grid(self, parameters: Float64s) -> PixelExpression:
        """Return the pixels without those in the first corner of each tile of a grid, which become 0.

        Args:
            parameters: width of a tile, a whole number, fraction of it that a corner covers, sine and cosine of the
                angle, shift along y and x, (N, 6).
        """
        names = ("tile", "ratio", "sine", "cosine")
        fields = {name: parameters[:, column] for column, name in enumerate(names)} | {"shift": parameters[:, 4:]}
        fields["inverse"] = 1 / fields["tile"]
        kinds = dict.fromkeys(("tile", "inverse", "ratio", "sine", "cosine"), "f8")
        return self._node("Grid", "", {**kinds, "shift": ("f8", (2,))}, fields)

    def extreme(self, sizes: Array, anchors: Array, border: int, largest: bool) -> PixelExpression:
        """Return the largest or smallest values of rectangles around the pixels.

        Args:
            sizes: height and width of each sample's rectangle, (N, 2).
            anchors: row and column of the rectangle that are aligned with the pixel, (N, 2).
            border: a `pipeline._imaging.filter2d.Border`; a constant border ignores pixels outside.
            largest: whether to return the largest values.
        """
        pair = ("i4", (2,))
        fields = {"size": sizes, "anchor": anchors, "extent": self.extents[:, 1:]}
        kinds = dict.fromkeys(fields, pair)
        return self._node("Extreme", f"{int(largest)}, {int(border)}, ", kinds, fields, reads=_most_pixels(sizes))

    def median(self, sizes: Array) -> PixelExpression:
        """Return the medians of rectangles around the pixels, of odd heights and widths (N, 2); borders repeat."""
        fields, most = {"size": sizes, "extent": self.extents[:, 1:]}, _most_pixels(sizes)
        kept = next((limit for limit in _KEPT if most <= limit), 0)
        return self._node("Median", f"{kept}, ", dict.fromkeys(fields, ("i4", (2,))), fields, reads=most)

    def debayer(self, blue: Array, algorithm: int) -> PixelExpression:
        """Return the colours of mosaics.

        Args:
            blue: row and column of the blue pixels, modulo 2, (N, 2).
            algorithm: enum Debayering of neighborhoods.cuh; the last one returns grey images.
        """
        fields = {"blue": blue, "extent": self.extents[:, 1:]}
        channels = 1 if algorithm == _GRAY else 3
        kinds = dict.fromkeys(fields, ("i4", (2,)))
        colors = self._node("Debayer", f"{algorithm}, ", kinds, fields, channels=channels, reads=9)
        return colors if "C" in self.order else colors.named(self.order + "C")

    def patches(self, layout: PatchLayout) -> PixelExpression:
        """Return the patches of images whose height and width are multiples of its factor; nothing can follow."""
        numbers = (layout.patch_size, layout.merge_size, layout.temporal_patch_size, int(layout.channels_last))
        options = "".join(f"{number}, " for number in numbers)
        return self._node("Patches", options, {}, {}).replaced(grid=layout, layout="", order="HW")

    def lightness(self) -> PixelExpression:
        """Return RGB images of bytes as CIE L*a*b* in bytes, as OpenCV does."""
        return self._node("ToLab", "", {}, {})

    def colors(self) -> PixelExpression:
        """Return images of `lightness` as RGB; values may differ from OpenCV's by 2."""
        return self._node("FromLab", "", {}, {})

    def tiles(self, tables: Int64s, tiles: npt.ArrayLike, sizes: Int64s, channels: int) -> PixelExpression:
        """Return the entries of tables of bytes that belong to tiles, interpolated between the centers of tiles.

        Args:
            tables: addresses of the tables of each image, (N,): (rows, columns, channels, 256) bytes.
            tiles: number of tiles along height and width.
            sizes: height and width of the tiles of each image, (N, 2).
            channels: number of channels with tables; the others stay the same.
        """
        inverse = 1 / np.maximum(1, sizes).astype(np.float32)
        kinds = {"tables": ADDRESS, "tiles": ("i4", (2,)), "inverse": ("f4", (2,))}
        return self._node("Tiles", f"{channels}, ", kinds, {"tables": tables, "tiles": tiles, "inverse": inverse})


def _most_pixels(sizes: Array) -> int:
    """Return the number of pixels of the largest window."""
    return int(np.prod(sizes, axis=1, dtype=np.int64).max())
