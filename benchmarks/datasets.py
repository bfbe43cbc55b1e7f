"""Plain torch Datasets, one for each kind of sample. All rivals use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import simplejpeg
from torch.utils.data import Dataset

from benchmarks.workload import ARRAY_SHAPES, EPOCH, Setup

Transform = Callable[[np.ndarray], Any]

DISTINCT_ARRAYS = 16


class ImageDataset(Dataset[tuple[Any, int]]):
    """``EPOCH`` pairs of an image and its index, from few files, which fit into the page cache.

    Args:
        setup: Its kind selects the input of the transform: a path as uint8 ``[characters]``, an encoded image as uint8
            ``[bytes]``, or a decoded one as uint8 ``[H, W, 3]``, which libjpeg-turbo decodes in the worker.
        transform: Function that creates the sample.
    """

    def __init__(self, setup: Setup, transform: Transform) -> None:
        self.kind = setup.kind
        self.transform = transform
        part, parts = setup.shard
        self.files = setup.files[part::parts]

    def __len__(self) -> int:
        return EPOCH

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.transform(self.read(self.files[index % len(self.files)])), index

    def read(self, path: str) -> np.ndarray:
        """Return the input of the transform."""
        if self.kind == "paths":
            return np.frombuffer(path.encode(), np.uint8)
        encoded = np.fromfile(path, np.uint8)
        if self.kind == "bytes":
            return encoded
        return simplejpeg.decode_jpeg(encoded, fastdct=True, fastupsample=True)


class ArrayDataset(Dataset[tuple[Any, int]]):
    """Pairs of a uint8 array and its index. The arrays exist in memory: reading one costs nothing."""

    def __init__(self, setup: Setup, transform: Transform) -> None:
        self.transform = transform
        self.arrays = expected_arrays(setup.kind)

    def __len__(self) -> int:
        return EPOCH

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.transform(self.arrays[index % len(self.arrays)]), index


def expected_arrays(kind: str) -> np.ndarray:
    """Return the arrays of :class:`ArrayDataset`, uint8 ``[DISTINCT_ARRAYS, *ARRAY_SHAPES[kind]]``."""
    return np.random.default_rng(0).integers(0, 256, (DISTINCT_ARRAYS, *ARRAY_SHAPES[kind]), np.uint8)


def make_dataset(setup: Setup, transform: Transform) -> ImageDataset | ArrayDataset:
    """Create the dataset of a kind."""
    return ArrayDataset(setup, transform) if setup.kind in ARRAY_SHAPES else ImageDataset(setup, transform)
