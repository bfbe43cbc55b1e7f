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

from pipeline._cuda.launch import ADDRESS, Launch, ctype
from pipeline._kernels.dimensions import STRIDES, UNNAMED, axes_of, columns_of
from pipeline._kernels.evaluate import plan_evaluation
from pipeline._kernels.rows import as_bytes, as_rows, containing, copied, store, struct, taken, zeros
from pipeline._kernels.samples import Samples

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["LARGEST_CHANNELS", "MEMORY", "Pixels", "source_offsets"]

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
        return len(self.rows)

    def keep_templates(self) -> Self:
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

    def take(self, indices: npt.NDArray[np.int64] | slice) -> Self:
        """Return a selection of the samples."""
        return self.replaced(rows=taken(self.rows, indices), extents=self.extents[indices])

    def moved(self, offsets: npt.NDArray[np.int64]) -> Self:
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
        rows = as_rows(np.concatenate([as_bytes(part.rows) for part in parts]), kind)
        extents = np.concatenate([part.extents for part in parts])
        owners = tuple([owner for part in parts for owner in part.owners])
        return parts[0].replaced(rows=rows, extents=extents, owners=owners)

    def transposed(self, layout: str) -> Self:
        """Return the same pixels with the dimensions in a different order.

        Args:
            layout: the same letters as in `order`.
        """
        return self.replaced(layout=layout, order=layout)

    def named(self, layout: str) -> Self:
        """Return the same pixels with names for the dimensions."""
        return self if layout == self.layout == self.order else self.replaced(layout=layout, order=layout)

    def launch(self, target: Samples) -> Launch:
        """Return the launch that writes the pixels to memory.

        Args:
            target: samples of the same shapes and dtype, with any strides.
        """
        return plan_evaluation(self.kind, self.rows, self.extents, target, columns_of(self.order))

    def updated(self, **fields: npt.ArrayLike) -> Self:
        """Return the pixels with other parameters of the last node, by the names of its fields."""
        rows = copied(self.rows)
        for name, values in fields.items():
            rows[name] = values
        return self.replaced(rows=rows)

    def replaced(self, **changes: Any) -> Self:
        """Return a copy with other attributes; `dataclasses.replace` takes several times as long."""
        result = object.__new__(type(self))
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
    ) -> Self:
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
        return type(self)(
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
