"""Check that the batches of a rival are right, before it is timed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from benchmarks.datasets import expected_arrays
from benchmarks.rivals.base import Batch
from benchmarks.workload import ARRAY_SHAPES, EPOCH, IMAGE_SIZE, READER_KIND, Setup

BATCHES = 8
IMAGES = 256
"""Minimum number of images to check: crops differ, so means of fewer vary too much."""

TOLERANCE = 0.15
"""Largest difference of two rivals' means and deviations, in units of a normalised pixel: their crops differ."""


class WrongOutputError(RuntimeError):
    """The batches of a rival are wrong."""


@dataclass(frozen=True)
class Statistics:
    """Mean and standard deviation of each channel over a few batches."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


def batches_looked_at(setup: Setup) -> int:
    """Return how many batches of a stream are checked."""
    return max(BATCHES, -(-IMAGES // setup.batch_size))


def check_stream(stream: Iterator[Batch], setup: Setup) -> Statistics | None:
    """Take the first batches of a stream and check them.

    Returns:
        The statistics of images, to compare with another rival's; None for arrays, whose values are known.

    Raises:
        WrongOutputError: Shape, type, order or values are wrong.
    """
    taken = []
    # Readers return the index of the file, and restart after the last one.
    length = len(setup.files) if setup.kind == READER_KIND else EPOCH
    for number, (images, indices) in enumerate(itertools.islice(stream, batches_looked_at(setup))):
        first = number * setup.batch_size
        if indices.tolist() != [index % length for index in range(first, first + setup.batch_size)]:
            raise WrongOutputError(f"batch {number} has the samples {indices.tolist()}")
        if str(images.device) != setup.device:
            raise WrongOutputError(f"the batch is on {images.device}, not on {setup.device}")
        if setup.kind in ARRAY_SHAPES:
            _check_arrays(images, indices, setup.kind)
        else:
            taken.append(_check_images(images, setup.batch_size))
    if not taken:
        return None
    pixels = torch.cat(taken)
    return Statistics(tuple(pixels.mean((0, 2, 3)).tolist()), tuple(pixels.std((0, 2, 3)).tolist()))


def check_agreement(statistics: dict[str, Statistics]) -> None:
    """Compare the statistics of each rival with those of the first.

    Raises:
        WrongOutputError: Two of them differ by more than random crops can explain.
    """
    for name, found in statistics.items():
        first, reference = next(iter(statistics.items()))
        pairs = zip((*reference.mean, *reference.std), (*found.mean, *found.std), strict=True)
        if max(abs(a - b) for a, b in pairs) > TOLERANCE:
            raise WrongOutputError(f"the pixels of {name} ({found}) differ from those of {first} ({reference})")


def _check_arrays(images: torch.Tensor, indices: torch.Tensor, kind: str) -> None:
    expected = torch.from_numpy(expected_arrays(kind))
    if not torch.equal(images.cpu(), expected[indices.cpu() % len(expected)]):
        raise WrongOutputError("the arrays arrived changed")


def _check_images(images: torch.Tensor, batch_size: int) -> torch.Tensor:
    shape = (batch_size, 3, IMAGE_SIZE, IMAGE_SIZE)
    if tuple(images.shape) != shape or images.dtype != torch.float32:
        raise WrongOutputError(f"a batch is {images.dtype} {tuple(images.shape)}, not float32 {shape}")
    # Every fourth pixel is enough. Copy it, because the stream may overwrite its batch.
    pixels = images[:, :, ::4, ::4].cpu().clone()
    if not torch.isfinite(pixels).all():
        raise WrongOutputError("a batch has pixels that are not finite")
    return pixels
