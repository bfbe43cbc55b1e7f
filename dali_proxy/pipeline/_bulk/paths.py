"""The paths of many files, as columns."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._remote.urls import SCHEME_OF_FILES, join, local_path
from dali_proxy.pipeline.tensors.cpu import TensorListCPU


@dataclass(frozen=True, eq=False)
class PathTable:
    """Paths in memory without terminators; trailing zeros are ignored.

    Attributes:
        pointers: (N,) int64, address of each path's first byte.
        lengths: (N,) int64, length of each path in bytes.
        memory: object that owns the memory.
        folder: folder that paths are relative to, ending with a slash; empty for the current one.
        scheme: optional prefix of paths to remove, such as ``b"file://"``.

    Example:
        >>> PathTable.from_paths(["a.jpg", "/b.jpg"], "/data").path(0)
        '/data/a.jpg'
    """

    pointers: Int64s
    lengths: Int64s
    memory: object
    folder: bytes = b""
    scheme: bytes = b""

    @classmethod
    def from_paths(cls, paths: Sequence[str], folder: str = "") -> PathTable:
        """Return the table of a list of paths."""
        encoded = [os.fsencode(path) for path in paths]
        memory = np.frombuffer(b"".join(encoded) or b"\0", np.uint8)
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        pointers = memory.ctypes.data + np.cumsum(lengths) - lengths
        return cls(
            pointers, lengths, memory, os.fsencode(os.path.join(local_path(folder), "")), SCHEME_OF_FILES.encode()
        )

    @classmethod
    def from_samples(cls, batch: TensorListCPU, scheme: bytes = b"") -> PathTable:
        """Return the table of a batch whose samples are the bytes of paths."""
        table = batch.table()
        if not table.is_contiguous():
            batch = TensorListCPU([np.ascontiguousarray(sample) for sample in batch.samples])
            table = batch.table()
        return cls(np.ascontiguousarray(table.pointers), table.sizes, batch, scheme=scheme)

    def take(self, positions: npt.ArrayLike) -> PathTable:
        """Return the table of the paths at the given positions."""
        chosen = np.asarray(positions, np.int64)
        return PathTable(self.pointers[chosen], self.lengths[chosen], self.memory, self.folder, self.scheme)

    def path(self, position: int) -> str:
        """Return one path or URL as text; an empty string for an empty path."""
        content = ctypes.string_at(int(self.pointers[position]), int(self.lengths[position]))
        path = os.fsdecode(content.rstrip(b"\0").removeprefix(self.scheme))
        return join(os.fsdecode(self.folder), path) if path else path

    def __len__(self) -> int:
        return len(self.pointers)
