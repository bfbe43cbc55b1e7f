"""Launches that are issued again and again: their tables are packed once, and only addresses and rows change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dali_proxy.pipeline._arrays import Array, Bytes, Int64s
from dali_proxy.pipeline._cuda.compiler import get_kernel
from dali_proxy.pipeline._cuda.launch import Launch, pack_scalars
from dali_proxy.pipeline._cuda.staging import pack_tables

Scalars = tuple[np.generic, ...]


class Rows(NamedTuple):
    """Rows that replace parts of the rows of a table.

    Attributes:
        offset: position of the first row in the packed tables, in bytes.
        step: bytes from one row to the next.
        nbytes: bytes of a row.
        values: the rows, one after another.
    """

    offset: int
    step: int
    nbytes: int
    values: Array


@dataclass(frozen=True, eq=False)
class PackedLaunches:
    """Launches with packed tables.

    Attributes:
        launches: the launches.
        tables: their tables, as `packed_tables` returns them, with offsets in place of addresses.
        places: for each address: its position in the packed tables in bytes, and the index of the address that is
            added to the offset there, int64 (n, 2). No position occurs twice.
    """

    launches: tuple[Launch, ...]
    tables: Bytes
    places: Int64s
    _items: dict[int, list[Any]] = field(default_factory=dict, init=False)

    def unpacked(
        self, addresses: Sequence[int], rows: Sequence[Rows] = (), scalars: Sequence[Scalars | None] = ()
    ) -> list[Launch]:
        """Return the launches for one batch, with other addresses and rows.

        The scalars of each launch are those of the recorded one without an entry.
        """
        tables = self.tables.copy()
        for offset, step, nbytes, values in rows:
            target = np.ndarray((values.size * values.itemsize // nbytes, nbytes), np.uint8, tables, offset, (step, 1))
            target[...] = np.ndarray(target.shape, np.uint8, np.ascontiguousarray(values))
        if len(self.places):
            words, added = tables.view(np.uint64), np.array(addresses, np.uint64)
            np.add.at(words, self.places[:, 0] // 8, added[self.places[:, 1]])
        launches = []
        for launch, offsets, own in zip(
            self.launches, table_offsets(self.launches), scalars or [None] * len(self.launches), strict=True
        ):
            parts = [tables[offset : offset + each.nbytes] for offset, each in zip(offsets, launch.tables, strict=True)]
            used = launch.scalars if own is None else own
            launches.append(Launch(launch.file, launch.kernel, launch.defines, tuple(parts), launch.grid, used))
        return launches

    def items(self, device_id: int, scalars: Sequence[Scalars | None] = ()) -> list[Any]:
        """Return the launches as `_native.repeat` takes them; empty if the driver's handle of a kernel is unknown."""
        items = self._items.get(device_id)
        if items is None:
            items = [
                (get_kernel(each.file, each.kernel, each.defines, device_id).handle, *each.grid, offsets,
                 pack_scalars(each.scalars))
                for each, offsets in zip(self.launches, table_offsets(self.launches), strict=True)
            ]  # fmt: skip
            self._items[device_id] = items = items if all(item[0] for item in items) else []
        if not (items and scalars):
            return items
        return [
            item if own is None else (*item[:-1], pack_scalars(own)) for item, own in zip(items, scalars, strict=True)
        ]


def table_offsets(launches: Sequence[Launch]) -> list[tuple[int, ...]]:
    """Return the offset of each table of each launch in the packed tables."""
    rest = iter(pack_tables([table for launch in launches for table in launch.tables])[0])
    return [tuple([next(rest) for _ in launch.tables]) for launch in launches]


def packed_tables(launches: Sequence[Launch]) -> Bytes:
    """Return the tables of launches one after another, each aligned, with zeros in between."""
    tables = [np.ascontiguousarray(table) for launch in launches for table in launch.tables]
    offsets, size = pack_tables(tables)
    packed = np.zeros(size, np.uint8)
    for offset, table in zip(offsets, tables, strict=True):
        packed[offset : offset + table.nbytes] = table.view(np.uint8).reshape(-1)
    return packed
