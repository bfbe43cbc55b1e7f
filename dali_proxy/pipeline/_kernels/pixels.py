"""The pixels of a batch that aren't computed yet: their shapes and dtype, and the parameters of the kernel that does.

This module needs neither CuPy nor a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Array, Int64s
from dali_proxy.pipeline._cuda.launch import ADDRESS, Launch, ctype
from dali_proxy.pipeline._imaging.patches import PatchLayout
from dali_proxy.pipeline._kernels.dimensions import STRIDES, UNNAMED, axes_of, columns_of
from dali_proxy.pipeline._kernels.evaluate import plan_evaluation
from dali_proxy.pipeline._kernels.rows import as_bytes, as_rows, copied, opaque, store, struct, taken, zeros
from dali_proxy.pipeline._kernels.samples import Samples, native

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

#: Maximum number of channels: a thread keeps all channels of a pixel in registers.
LARGEST_CHANNELS = 4
#: The dtype of struct Memory of expressions.cuh.
MEMORY = np.dtype([("data", ADDRESS), ("strides", "i8", (4,))], align=True)


@dataclass(eq=False)
class Pixels:
    """The pixels of a batch of images, sequences or volumes, not computed yet. The attributes don't change.

    Attributes:
        kind: C++ type in expressions.cuh.
        rows: parameters of the samples, (N,): the members of the C++ struct. A node only has its own ones; the rows are
            put together when they are read.
        extents: depth (frames or slices), height and width of each sample, (N, 3).
        channels: number of channels of all samples.
        dtype: element type.
        layout: layout of a sample; may be empty.
        order: letters of a sample's dimensions: H and W, and possibly F or D, and C.
        owners: objects that keep the memory of the sources alive.
        reads: estimated number of pixels in memory that are read for one pixel.
        is_image: whether `order` names the dimensions; otherwise it only counts up to three.
        grid: the patches in which the pixels are stored, row by row; None if they are stored as images.
    """

    kind: str
    rows: Array
    extents: Int64s
    channels: int
    dtype: np.dtype[Any]
    layout: str
    order: str
    owners: tuple[Any, ...]
    reads: int = 1
    is_image: bool = True
    grid: PatchLayout | None = None

    @classmethod
    def from_samples(cls, samples: Samples, layout: str, *owners: Any) -> Self | None:
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
        rows, extents = zeros(len(samples), MEMORY), np.empty((len(samples), 3), np.int64)
        channels, step = _place_images(samples, order, rows, extents)
        if not 1 <= channels <= LARGEST_CHANNELS:
            return None
        adjacent = channels > 1 and step == samples.dtype.itemsize
        kind = f"Memory<{ctype(samples.dtype)}, {channels}{', true' if adjacent else ''}>"
        return cls(kind, rows, extents, channels, samples.dtype, layout, order, owners)

    @classmethod
    def from_elements(cls, samples: Samples, layout: str, *owners: Any) -> Self | None:
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
        return len(self.extents)

    def __getattr__(self, name: str) -> Any:
        if name != "rows" or "_parts" not in self.__dict__:
            raise AttributeError(name)
        rows = zeros(len(self), self.row_kind)
        for begin, own in self.parts:
            opaque(rows, begin, own.dtype.itemsize)[:] = opaque(own)
        self.__dict__["rows"] = rows
        return rows

    @property
    def row_kind(self) -> np.dtype[Any]:
        """The dtype of `rows`."""
        kind: np.dtype[Any] | None = self.__dict__.get("_row_kind")
        return self.rows.dtype if kind is None else kind

    @property
    def parts(self) -> tuple[tuple[int, Array], ...]:
        """The parts of `rows`: the source's, then those of each node, with their offsets."""
        parts: tuple[tuple[int, Array], ...] | None = self.__dict__.get("_parts")
        return ((0, self.rows),) if parts is None else parts

    def with_parts(self, parts: tuple[tuple[int, Array], ...], owners: tuple[Any, ...]) -> Self:
        """Return the same nodes with other parameters."""
        result = self.replaced(_parts=parts, _row_kind=self.row_kind, owners=owners)
        result.__dict__.pop("rows", None)
        return result

    def over(self, pixels: Self) -> Self:
        """Return the same nodes over other pixels, which differ from those below them in nothing but parameters."""
        below = pixels.parts
        return self.with_parts(below + self.parts[len(below) :], pixels.owners)

    def keep_values(self, like: Self | None = None) -> Self:
        """Keep what `kept` computes, for later batches, and use what pixels like these kept; return itself."""
        self.__dict__["_kept"] = {} if like is None else like.__dict__["_kept"]
        return self

    @property
    def recurs(self) -> bool:
        """Whether later batches have the same pixels with other addresses or parameters, so that `kept` saves work."""
        return "_kept" in self.__dict__

    def kept(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return a value that depends on nothing but the key and the pixels' shapes; it is computed once if they recur.

        For pixels in memory, the value may depend on their strides and relative addresses, too.
        """
        values = self.__dict__.get("_kept", {})
        if key not in values:
            values[key] = compute()
        return cast("T", values[key])

    @property
    def ndim(self) -> int:
        return len(self.order)

    @property
    def combines(self) -> bool:
        """Whether it reads memory in several places, so that nodes have parameters of the source, too."""
        return len(_memory_offsets(self.row_kind)) > 1

    @property
    def in_memory(self) -> bool:
        """Whether the pixels are in memory already, possibly with other strides."""
        return self.row_kind is MEMORY or self.row_kind == MEMORY

    def may_be_read(self, *, elements: bool = False) -> bool:
        """Return whether expressions may read these pixels; only those of elements read what isn't an image."""
        return self.grid is None and (elements or self.is_image)

    @property
    def stored(self) -> Samples | None:
        """The samples in memory; None unless `in_memory`."""
        if not self.in_memory:
            return None
        strides = self.rows["strides"][:, columns_of(self.order)]
        return Samples(self.rows["data"], self.shapes, strides, self.dtype)

    @property
    def shapes(self) -> Int64s:
        """Shapes of the samples, (N, ndim)."""
        known: Int64s | None = self.__dict__.get("_shapes")
        if known is not None:
            return known
        if self.grid is not None:
            known = self.__dict__["_shapes"] = self.grid.shapes(self.extents, self.channels)
            return known
        shapes = np.empty((len(self), 4), np.int64)
        shapes[:, :3], shapes[:, 3] = self.extents, self.channels
        known = self.__dict__["_shapes"] = shapes[:, columns_of(self.order)]
        return known

    def along_extents(self, values: Array, missing: int) -> Int64s:
        """Return values for each dimension, (N, ndim), as values for depth, height and width, (N, 3); no channels.

        `missing` is the value for a depth that the samples don't have.
        """
        columns = np.empty((len(self), 4), np.int64)
        columns[:] = missing
        columns[:, columns_of(self.order)] = values
        return columns[:, :3]

    def broadcast(self, like: Self) -> Self | None:
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

    def take(self, indices: Int64s | slice) -> Self:
        """Return a selection of the samples."""
        return self.replaced(rows=taken(self.rows, indices), extents=self.extents[indices])

    def moved(self, offsets: Int64s) -> Self:
        """Return the pixels computed from memory at other addresses, given the differences in bytes, (N,)."""
        rows = copied(self.rows)
        for begin in _memory_offsets(rows.dtype):
            np.ndarray(len(rows), np.int64, rows, begin, rows.strides)[:] += offsets
        return self.replaced(rows=rows)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Return the samples of several expressions of one kind, one after the other."""
        if len(parts) == 1:
            return parts[0]
        kind = parts[0].rows.dtype
        rows = as_rows(np.concatenate([opaque(part.rows) for part in parts]), kind)
        extents = np.concatenate([part.extents for part in parts])
        owners = tuple([owner for part in parts for owner in part.owners])
        return parts[0].replaced(rows=rows, extents=extents, owners=owners)

    def transposed(self, layout: str) -> Self:
        """Return the same pixels with the dimensions in a different order, given by the letters of `order`."""
        return self.replaced(layout=layout, order=layout)

    def named(self, layout: str) -> Self:
        """Return the same pixels with names for the dimensions."""
        return self if layout == self.layout == self.order else self.replaced(layout=layout, order=layout)

    def launch(self, target: Samples) -> Launch:
        """Return the launch that writes the pixels to samples of the same shapes and dtype, with any strides."""
        return plan_evaluation(self.kind, self.rows, self.extents, target, columns_of(self.order))

    def updated(self, **fields: npt.ArrayLike) -> Self:
        """Return the pixels with other parameters of the last node, by the names of its fields."""
        *below, (begin, last) = self.parts
        own = copied(last)
        for name, values in fields.items():
            own[name] = values
        return self.with_parts((*below, (begin, own)), self.owners)

    def replaced(self, **changes: Any) -> Self:
        """Return a copy with other attributes; `dataclasses.replace` takes several times as long."""
        result = object.__new__(type(self))
        result.__dict__.update(self.__dict__)
        result.__dict__.pop("_shapes", None)
        result.__dict__.pop("_kept", None)
        if "rows" in changes:
            result.__dict__.pop("_parts", None)
            result.__dict__.pop("_row_kind", None)
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
        extents: Int64s | None = None,
        channels: int | None = None,
        reads: int = 1,
    ) -> Self:
        row_kind, own_kind = struct(self.row_kind, tuple(kinds.items()))
        parts = self.parts
        if own_kind is not None:
            own = zeros(len(self), own_kind)
            for field, values in fields.items():
                if isinstance(kinds[field], np.dtype) and kinds[field].fields is not None:
                    store(values, field, own)
                else:
                    own[field] = values
            parts = (*parts, (self.row_kind.itemsize, own))
        changes: dict[str, Any] = {"kind": f"{name}<{options}{self.kind}>", "reads": self.reads * reads}
        given = {"extents": extents, "dtype": dtype, "channels": channels}
        changes.update([(name, value) for name, value in given.items() if value is not None])
        result = self.replaced(**changes, _parts=parts, _row_kind=row_kind)
        result.__dict__.pop("rows", None)
        return result


@cache
def _memory_offsets(kind: np.dtype[Any]) -> tuple[int, ...]:
    """Return the offsets of all memory that an expression reads: an expression that combines two may read it twice."""
    if kind == MEMORY:
        return (0,)
    assert kind.fields is not None
    inner = [kind.fields[name][:2] for name in ("in", "other") if name in kind.fields]
    return tuple(begin + offset for member, begin in inner for offset in _memory_offsets(member))


def _place_images(samples: Samples, order: str, rows: Array, extents: Int64s) -> tuple[int, int]:
    """Write where images lie in memory.

    Args:
        samples: the images.
        order: letters of their dimensions.
        rows: written, rows of `MEMORY` that are 0.
        extents: written, depth, height and width, (N, 3).

    Returns:
        The number of channels of all images, or -1 if they differ; and the stride of the channels, or -1.
    """
    if native is not None:
        given = [np.ascontiguousarray(each) for each in (samples.pointers, samples.shapes, samples.strides)]
        channels, step = native.place_images(*given, _column_bytes(order), as_bytes(rows), extents)
        return channels, step
    rows["data"] = samples.pointers
    rows["strides"][:, columns_of(order)] = samples.strides
    columns = np.ones((len(samples), 4), np.int64)
    columns[:, columns_of(order)] = samples.shapes
    extents[:] = columns[:, :3]
    channels, step = columns[0, 3], rows["strides"][0, 3]
    same_step = (rows["strides"][:, 3] == step).all()
    return int(channels) if (columns[:, 3] == channels).all() else -1, int(step) if same_step else -1


@cache
def _column_bytes(order: str) -> bytes:
    return bytes([STRIDES[letter] for letter in order])
