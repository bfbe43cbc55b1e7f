"""Single steps of the work: no loader that does all of it can be much faster."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import torch
from torch.utils.data import DataLoader

from benchmarks.datasets import make_dataset
from benchmarks.rivals.base import Batch, Rival
from benchmarks.workload import ARRAY_SHAPES, DECODED_KINDS, Setup

COPIED_BYTES = 256 << 20
"""Bytes that are copied before the same memory is used again: more than the caches hold."""


class DecodeOnly(Rival):
    """torch's DataLoader whose workers decode images and drop them: the workers' own decode rate."""

    name = "decode-only"
    kinds = DECODED_KINDS
    devices = ("cpu", "cuda")
    yardstick = True

    def unavailable(self) -> str | None:
        """Return None: it is always available."""
        return None

    def stream(self, setup: Setup) -> Iterator[Batch]:
        """Yield the number of rows of each image in place of its pixels."""
        dataset = make_dataset(setup, len)
        yield from DataLoader(dataset, batch_size=setup.batch_size, num_workers=setup.workers)


class Memcpy(Rival):
    """One thread that copies the bytes of the arrays between blocks of memory that are larger than caches."""

    name = "memcpy"
    kinds = tuple(ARRAY_SHAPES)
    devices = ("cpu", "cuda")
    yardstick = True

    def unavailable(self) -> str | None:
        """Return None: it is always available."""
        return None

    def stream(self, setup: Setup) -> Iterator[Batch]:
        """Copy the bytes of one batch at a time."""
        size = setup.batch_size * math.prod(ARRAY_SHAPES[setup.kind])
        batches = math.ceil(COPIED_BYTES / size)
        # Filled, so that every page is resident.
        source, target = np.full((batches, size), 1, np.uint8), np.full((batches, size), 2, np.uint8)
        indices = torch.arange(setup.batch_size)
        for number in itertools.count():
            np.copyto(target[number % batches], source[number % batches])
            yield indices, indices
