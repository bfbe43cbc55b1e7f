"""Images as expressions: the pixels of a batch as a function of memory, computed by one kernel when they are needed.

An operator whose output pixels depend on single input pixels, or on a few of them, doesn't launch a kernel. It adds a
node to the expression of its input. `PixelExpression.launch` evaluates a chain of such operators at once: the types of
expressions.cuh are combined to one type, and each sample has one row with the parameters of all nodes.

This module needs neither CuPy nor a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from pipeline._cuda.launch import Launch, ctype
from pipeline._kernels.aligned_windows import aligned_windows
from pipeline._kernels.axes import AXIS
from pipeline._kernels.dimensions import COLUMNS, STRIDES, UNNAMED, axes_of, columns_of
from pipeline._kernels.evaluate import plan_evaluation
from pipeline._kernels.point_maps import PointMap
from pipeline._kernels.rows import as_bytes, as_rows, containing, copied, store, struct, taken, zeros
from pipeline._kernels.samples import Samples, contiguous_strides

__all__ = ["EXACT_IN_FLOAT", "LARGEST_CHANNELS", "MEMORY", "PixelExpression", "source_offsets"]

T = TypeVar("T")

#: Maximum number of channels: a thread keeps all channels of a pixel in registers.
LARGEST_CHANNELS = 4
#: Dtypes whose values float32 represents exactly, so that sums of weighted pixels may start from them.
EXACT_IN_FLOAT = {np.dtype(name) for name in ("uint8", "int8", "uint16", "int16", "float16", "float32")}
#: The dtype of struct Memory of expressions.cuh.
MEMORY = np.dtype([("data", "i8"), ("strides", "i8", (4,))], align=True)
#: Largest windows whose pixels a thread keeps in registers to find their median.
_KEPT = (9, 25)
_GRAY = 2
_FEW_REGIONS = 8
_WIDE = {np.dtype(name) for name in ("float64", "int64", "uint64", "int32", "uint32")}


@dataclass(eq=False)
class PixelExpression:
    """The pixels of a batch of images, sequences or volumes, not computed yet. Its attributes don't change.

    Attributes:
        kind: C++ type in expressions.cuh.
        rows: parameters of the samples, (N,): the members of the C++ struct.
        extents: depth (frames or slices), height and width of each sample, (N, 3).
        channels: number of channels of all samples.
        dtype: element type.
        layout: layout of a sample; may be empty.
        order: letters of a sample's dimensions: H and W, and possibly F or D, and C.
        owners: objects that keep the memory of the sources alive.
        reads: estimated number of pixels in memory that are read for one pixel.
        is_image: whether `order` names the dimensions; otherwise it only counts up to three.
    """

    kind: str
    rows: npt.NDArray[Any]
    extents: npt.NDArray[np.int64]
    channels: int
    dtype: np.dtype[Any]
    layout: str
    order: str
    owners: tuple[Any, ...]
    reads: int = 1
    is_image: bool = True

    @classmethod
    def from_samples(cls, samples: Samples, layout: str, *owners: Any) -> PixelExpression | None:
        """Return the expression that reads samples in memory; None if expressions don't support such samples.

        Args:
            samples: the samples, with any strides.
            layout: layout of the samples; if it is empty, the dimensions are those of `UNNAMED`.
            owners: objects that keep the memory alive.
        """
        order = layout or UNNAMED.get(samples.ndim, "")
        axes = axes_of(order)
        if axes is None or axes[1] is None or axes[2] is None or not len(samples):
            return None
        shapes = samples.shapes
        channels = 1 if axes[3] is None else int(shapes[0, axes[3]])
        if not 1 <= channels <= LARGEST_CHANNELS or (axes[3] is not None and (shapes[:, axes[3]] != channels).any()):
            return None
        rows = zeros(len(samples), MEMORY)
        rows["data"] = samples.pointers
        rows["strides"][:, columns_of(order)] = samples.strides
        extents = np.ones((len(samples), 4), np.int64)
        extents[:, columns_of(order)] = shapes
        extents = extents[:, :3]
        adjacent = channels > 1 and bool((rows["strides"][:, STRIDES["C"]] == samples.dtype.itemsize).all())
        kind = f"Memory<{ctype(samples.dtype)}, {channels}{', true' if adjacent else ''}>"
        return cls(kind, rows, extents, channels, samples.dtype, layout, order, owners)

    @classmethod
    def from_elements(cls, samples: Samples, layout: str, *owners: Any) -> PixelExpression | None:
        """Return the expression that reads samples with up to three dimensions of any meaning; None for others.

        Only operators that treat all elements alike may read it.
        """
        if samples.ndim > 3 or not len(samples):
            return None
        outer = 3 - samples.ndim
        extents, rows = np.ones((len(samples), 3), np.int64), zeros(len(samples), MEMORY)
        extents[:, outer:] = samples.shapes
        rows["data"] = samples.pointers
        rows["strides"][:, outer:3] = samples.strides
        kind = f"Memory<{ctype(samples.dtype)}, 1>"
        return cls(kind, rows, extents, 1, samples.dtype, layout, "DHW"[outer:], owners, is_image=False)

    def __len__(self) -> int:
        return len(self.rows)

    def keep_templates(self) -> PixelExpression:
        """Keep what all nodes of one kind over these pixels have in common, because many are made; return itself."""
        self.__dict__.setdefault("_templates", {})
        return self

    @property
    def recurs(self) -> bool:
        """Whether later batches have the same pixels at other addresses, so that `kept` saves them work."""
        return "_templates" in self.__dict__

    def kept(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return a value that depends on nothing but these pixels and the key; it is computed once if they recur."""
        values = self.__dict__.get("_templates", {})
        if key not in values:
            values[key] = compute()
        return cast("T", values[key])

    @property
    def ndim(self) -> int:
        return len(self.order)

    @property
    def in_memory(self) -> bool:
        """Whether the pixels are in memory already, possibly with other strides."""
        return self.rows.dtype == MEMORY

    @property
    def stored(self) -> Samples | None:
        """The samples in memory; None unless `in_memory`."""
        if not self.in_memory:
            return None
        strides = self.rows["strides"][:, columns_of(self.order)]
        return Samples(self.rows["data"], self.shapes, strides, self.dtype)

    @property
    def shapes(self) -> npt.NDArray[np.int64]:
        """Shapes of the samples, (N, ndim)."""
        known: npt.NDArray[np.int64] | None = self.__dict__.get("_shapes")
        if known is not None:
            return known
        shapes = np.empty((len(self), 4), np.int64)
        shapes[:, :3], shapes[:, 3] = self.extents, self.channels
        known = self.__dict__["_shapes"] = shapes[:, columns_of(self.order)]
        return known

    def along_extents(self, values: npt.NDArray[Any], missing: int) -> npt.NDArray[np.int64]:
        """Return values for each dimension of the samples, (N, ndim), as values for depth, height and width, (N, 3).

        Args:
            values: one value per dimension; those of the channels are dropped.
            missing: value for a depth that the samples don't have.
        """
        columns = np.empty((len(self), 4), np.int64)
        columns[:] = missing
        columns[:, columns_of(self.order)] = values
        return columns[:, :3]

    def broadcast(self, like: PixelExpression) -> PixelExpression | None:
        """Return these elements with the shapes of other pixels, by NumPy's rules.

        Returns:
            The elements; None if the shapes differ too much, or if they differ and the elements aren't in memory.
        """
        if (self.order, self.channels) == (like.order, like.channels) and (self.extents == like.extents).all():
            return self
        missing, shapes = like.ndim - self.ndim, self.shapes
        if not self.in_memory or missing < 0:
            return None
        repeated = shapes == 1
        if not (repeated | (shapes == like.shapes[:, missing:])).all():
            return None
        rows = zeros(len(self), MEMORY)
        rows["data"] = self.rows["data"]
        for axis, letter in enumerate(self.order):
            strides = self.rows["strides"][:, STRIDES[letter]]
            rows["strides"][:, STRIDES[like.order[missing + axis]]] = np.where(repeated[:, axis], 0, strides)
        kind = f"Memory<{ctype(self.dtype)}, {like.channels}>"
        return like.replaced(kind=kind, rows=rows, dtype=self.dtype, owners=self.owners, reads=1)

    def take(self, indices: npt.NDArray[np.int64] | slice) -> PixelExpression:
        """Return a selection of the samples."""
        return self.replaced(rows=taken(self.rows, indices), extents=self.extents[indices])

    def moved(self, offsets: npt.NDArray[np.int64]) -> PixelExpression:
        """Return the pixels computed from memory at other addresses, given the differences in bytes, (N,)."""
        rows = copied(self.rows)
        for begin in _memory_offsets(rows.dtype):
            np.ndarray(len(rows), np.int64, rows, begin, rows.strides)[:] += offsets
        return self.replaced(rows=rows)

    @classmethod
    def concatenate(cls, parts: Sequence[PixelExpression]) -> PixelExpression:
        """Return the samples of several expressions of one kind, one after the other."""
        if len(parts) == 1:
            return parts[0]
        kind = parts[0].rows.dtype
        rows = as_rows(np.concatenate([as_bytes(part.rows) for part in parts]), kind)
        extents = np.concatenate([part.extents for part in parts])
        owners = tuple([owner for part in parts for owner in part.owners])
        return parts[0].replaced(rows=rows, extents=extents, owners=owners)

    def transposed(self, layout: str) -> PixelExpression:
        """Return the same pixels with the dimensions in a different order.

        Args:
            layout: the same letters as in `order`.
        """
        return self.replaced(layout=layout, order=layout)

    def named(self, layout: str) -> PixelExpression:
        """Return the same pixels with names for the dimensions."""
        return self if layout == self.layout == self.order else self.replaced(layout=layout, order=layout)

    def window(
        self, first: npt.NDArray[np.int64], step: npt.NDArray[np.int64] | int, extents: npt.NDArray[np.int64],
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

    def erase(self, regions: npt.NDArray[np.int64], fill: npt.ArrayLike) -> PixelExpression:
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
        seeds: npt.NDArray[np.uint64],
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
        """Return ``value * scale + bias``.

        Args:
            scale: a number, (C,), or (N, 1 or C).
            bias: as `scale`.
            dtype: element type of the result.
        """
        number = "double" if dtype in _WIDE or self.dtype in _WIDE else "float"
        shape = ("f8", (self.channels,))
        kinds, fields = {"scale": shape, "bias": shape}, {"scale": scale, "bias": bias}
        return self._node("Normalize", f"{ctype(dtype)}, {number}, ", kinds, fields, dtype=dtype)

    def matrix(self, matrix: npt.ArrayLike, offset: npt.ArrayLike, dtype: np.dtype[Any]) -> PixelExpression:
        """Return ``matrix @ pixel + offset``.

        Args:
            matrix: (K, C) or (N, K, C).
            offset: a number, (K,), or (N, 1 or K).
            dtype: element type of the result.
        """
        values = np.asarray(matrix, np.float32)
        rows, columns = values.shape[-2:]
        kinds = {"matrix": ("f4", (rows, columns)), "offset": ("f4", (rows,))}
        fields = {"matrix": values, "offset": np.asarray(offset, np.float32)}
        return self._node("Matrix", f"{ctype(dtype)}, {rows}, ", kinds, fields, dtype=dtype, channels=rows)

    def combine(self, operation: str, other: PixelExpression, dtype: np.dtype[Any]) -> PixelExpression:
        """Return ``operation(self, other)`` for each element.

        Args:
            operation: name of a struct with a function `of` in expressions.cuh.
            other: pixels of the same shapes.
            dtype: element type of the result, to which both operands are converted first.
        """
        options, fields = f"{operation}, {ctype(dtype)}, {other.kind}, ", {"other": other.rows}
        result = self._node("Combine", options, {"other": other.rows.dtype}, fields, dtype=dtype)
        return result.replaced(owners=self.owners + other.owners, reads=self.reads + other.reads)

    def lookup(self, tables: npt.NDArray[np.uint8]) -> PixelExpression:
        """Return the entries of tables, (256,) or (N, 256), for the values of uint8 pixels."""
        return self._node("Lookup", "", {"table": ("u1", (256,))}, {"table": tables})

    def lookup_stored(self, tables: npt.NDArray[np.int64], owner: Any) -> PixelExpression:
        """Return the entries of tables in memory for the values of uint8 pixels.

        Args:
            tables: addresses of the tables of each image, (N,): (channels, 256) bytes.
            owner: object that keeps their memory alive.
        """
        found = self._node("LookupStored", "", {"tables": ("i8", ())}, {"tables": tables})
        return found.replaced(owners=(*self.owners, owner))

    def convolve(
        self, letter: str, weights: npt.NDArray[np.float32], radii: npt.NDArray[np.int64], dtype: np.dtype[Any]
    ) -> PixelExpression:
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

    def resize(
        self, y: npt.NDArray[Any], x: npt.NDArray[Any], size: npt.NDArray[np.int64], dtype: np.dtype[Any]
    ) -> PixelExpression:
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
        self,
        points: PointMap,
        size: npt.NDArray[np.int64],
        dtype: np.dtype[Any],
        *,
        taps: int,
        border: int,
        fill: npt.ArrayLike = 0.0,
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

    def grid(self, parameters: npt.NDArray[np.float64]) -> PixelExpression:
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

    def extreme(
        self, sizes: npt.NDArray[Any], anchors: npt.NDArray[Any], border: int, largest: bool
    ) -> PixelExpression:
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

    def median(self, sizes: npt.NDArray[Any]) -> PixelExpression:
        """Return the medians of rectangles around the pixels, of odd heights and widths (N, 2); borders repeat."""
        fields, most = {"size": sizes, "extent": self.extents[:, 1:]}, _most_pixels(sizes)
        kept = next((limit for limit in _KEPT if most <= limit), 0)
        return self._node("Median", f"{kept}, ", dict.fromkeys(fields, ("i4", (2,))), fields, reads=most)

    def debayer(self, blue: npt.NDArray[Any], algorithm: int) -> PixelExpression:
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

    def lightness(self) -> PixelExpression:
        """Return RGB images of bytes as CIE L*a*b* in bytes, as OpenCV does."""
        return self._node("ToLab", "", {}, {})

    def colors(self) -> PixelExpression:
        """Return images of `lightness` as RGB; values may differ from OpenCV's by 2."""
        return self._node("FromLab", "", {}, {})

    def tiles(
        self, tables: npt.NDArray[np.int64], tiles: npt.ArrayLike, sizes: npt.NDArray[np.int64], channels: int
    ) -> PixelExpression:
        """Return the entries of tables of bytes that belong to tiles, interpolated between the centers of tiles.

        Args:
            tables: addresses of the tables of each image, (N,): (rows, columns, channels, 256) bytes.
            tiles: number of tiles along height and width.
            sizes: height and width of the tiles of each image, (N, 2).
            channels: number of channels with tables; the others stay the same.
        """
        inverse = 1 / np.maximum(1, sizes).astype(np.float32)
        kinds = {"tables": "i8", "tiles": ("i4", (2,)), "inverse": ("f4", (2,))}
        return self._node("Tiles", f"{channels}, ", kinds, {"tables": tables, "tiles": tiles, "inverse": inverse})

    def launch(self, target: Samples) -> Launch:
        """Return the launch that writes the pixels to memory.

        Args:
            target: samples of the same shapes and dtype, with any strides.
        """
        return plan_evaluation(self.kind, self.rows, self.extents, target, columns_of(self.order))

    def updated(self, **fields: npt.ArrayLike) -> PixelExpression:
        """Return the pixels with other parameters of the last node, by the names of its fields."""
        rows = copied(self.rows)
        for name, values in fields.items():
            rows[name] = values
        return self.replaced(rows=rows)

    def replaced(self, **changes: Any) -> PixelExpression:
        """Return a copy with other attributes; `dataclasses.replace` takes several times as long."""
        result = object.__new__(PixelExpression)
        result.__dict__.update(self.__dict__)
        result.__dict__.pop("_shapes", None)
        result.__dict__.pop("_templates", None)
        result.__dict__.update(changes)
        return result

    def _node(
        self,
        name: str,
        options: str,
        kinds: dict[str, Any],
        fields: dict[str, Any],
        *,
        dtype: np.dtype[Any] | None = None,
        extents: npt.NDArray[np.int64] | None = None,
        channels: int | None = None,
        reads: int = 1,
    ) -> PixelExpression:
        templates = self.__dict__.get("_templates", {})
        if (name, options) not in templates:
            rows = containing(self.rows, "in", struct(self.rows.dtype, tuple(kinds.items())))
            templates[name, options] = f"{name}<{options}{self.kind}>", rows
        kind, template = templates[name, options]
        rows = copied(template)
        for field, values in fields.items():
            if isinstance(kinds[field], np.dtype):
                store(values, field, rows)
            else:
                rows[field] = values
        return PixelExpression(
            kind,
            rows,
            self.extents if extents is None else extents,
            self.channels if channels is None else channels,
            self.dtype if dtype is None else dtype,
            self.layout,
            self.order,
            self.owners,
            self.reads * reads,
            self.is_image,
        )


def source_offsets(table: np.dtype[Any]) -> tuple[int, ...]:
    """Return the offsets of the source's addresses in a row of a launch's table; that of the target is 0."""
    assert table.fields is not None
    value, begin = table.fields["value"][:2]
    return tuple(begin + offset for offset in _memory_offsets(value))


@cache
def _memory_offsets(kind: np.dtype[Any]) -> tuple[int, ...]:
    """Return the offsets of all memory that an expression reads: an expression that combines two may read it twice."""
    if kind == MEMORY:
        return (0,)
    assert kind.fields is not None
    inner = [kind.fields[name][:2] for name in ("in", "other") if name in kind.fields]
    return tuple(begin + offset for member, begin in inner for offset in _memory_offsets(member))


def _most_pixels(sizes: npt.NDArray[Any]) -> int:
    """Return the number of pixels of the largest window."""
    return int(np.prod(sizes, axis=1, dtype=np.int64).max())
