"""Merges of adjacent dimensions, which save kernels a division per element and dimension."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from dali_proxy.pipeline._arrays import Int64s


def groups_of(extents: Int64s, *strides: Int64s, apart: Collection[int] = ()) -> list[list[int]]:
    """Return groups of adjacent dimensions that a kernel can merge in all samples.

    Args:
        extents: (N, ndim), extents of the samples.
        strides: tables of the same shape; all of them must allow the merge.
        apart: dimensions to keep separate.

    Example:
        >>> groups_of(np.array([[4, 5, 3]]), np.array([[60, 3, 1]]))
        [[0], [1, 2]]
    """
    groups: list[list[int]] = []
    for inner in range(extents.shape[1]):
        outer = inner - 1
        joins = inner > 0 and inner not in apart and outer not in apart
        if joins and all((table[:, outer] == table[:, inner] * extents[:, inner]).all() for table in strides):
            groups[-1].append(inner)
        else:
            groups.append([inner])
    return groups


def merged_extents(extents: Int64s, groups: Sequence[Sequence[int]]) -> Int64s:
    """Return the extents of groups of dimensions: (N, groups)."""
    columns = [np.prod(extents[:, group], axis=1, dtype=np.int64) for group in groups]
    return np.stack(columns, axis=1) if columns else np.ones((len(extents), 0), np.int64)
