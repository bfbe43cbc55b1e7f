"""Packed outputs: the samples of batches one after another in one tensor, without a copy where they are adjacent."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from dali_proxy.pipeline._bulk.buffer_pool import lent_array
from dali_proxy.pipeline.errors import ArgumentValueError


def packed(values: Sequence[Any], are_batches: Sequence[bool]) -> torch.Tensor:
    """Return samples as one tensor: concatenated along their first dimension.

    Args:
        values: fetched outputs: a tensor or the list of its samples for a batch, a tensor for a single sample.
        are_batches: whether each value is that of a batch.

    Raises:
        ArgumentValueError: the samples differ in other dimensions than the first, or in dtype.

    Example:
        >>> packed([torch.ones(2, 1, 3), [torch.ones(1, 3), torch.ones(5, 3)]], [True, True]).shape
        torch.Size([8, 3])
    """
    parts: list[torch.Tensor] = []
    for value, is_batch in zip(values, are_batches, strict=True):
        if not is_batch:
            parts.append(value)
        elif isinstance(value, list):
            parts += value
        elif value.ndim < 2:
            raise ArgumentValueError("numbers can't be packed: collate them by torch.utils.data.default_collate")
        else:
            parts.append(value.reshape(-1, *value.shape[2:]))
    if len({(part.dtype, part.device, part.shape[1:]) for part in parts}) > 1 or not parts[0].ndim:
        shapes = sorted({str(tuple(part.shape)) for part in parts})
        raise ArgumentValueError(
            f"the samples can't be packed along their first dimension: their shapes are {', '.join(shapes[:5])}"
        )
    return parts[0] if len(parts) == 1 else _viewed(parts) if _are_adjacent(parts) else torch.cat(parts)


def _are_adjacent(parts: Sequence[torch.Tensor]) -> bool:
    ends = [part.data_ptr() + part.nbytes for part in parts]
    return all(part.is_contiguous() and part.nbytes for part in parts) and ends[:-1] == [
        part.data_ptr() for part in parts[1:]
    ]


def _viewed(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return one tensor over the memory of adjacent ones."""
    first, shape = parts[0], (sum([len(part) for part in parts]), *parts[0].shape[1:])
    storage = first.untyped_storage()
    nbytes = math.prod(shape) * first.itemsize
    if first.data_ptr() + nbytes <= storage.data_ptr() + storage.nbytes():
        return first.as_strided(shape, first.stride())
    if first.is_cuda:
        return torch.cat(list(parts))  # adjacent by chance
    memory = np.frombuffer((ctypes.c_uint8 * nbytes).from_address(first.data_ptr()), np.uint8)
    return torch.from_numpy(lent_array(memory, list(parts))).view(first.dtype).reshape(shape)
