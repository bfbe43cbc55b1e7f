"""Rivals that misbehave, in a separate module, which the processes of the benchmarks can import."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import torch

from benchmarks.check import batches_looked_at
from benchmarks.rivals.base import Batch, Rival
from benchmarks.workload import ARRAY_SHAPES, Setup


class Broken(Rival):
    kinds = tuple(ARRAY_SHAPES)
    devices = ("cpu",)
    yardstick = False

    def unavailable(self) -> str | None:
        return None

    def good_batch(self, setup: Setup, number: int) -> Batch:
        from benchmarks.datasets import expected_arrays

        indices = torch.arange(number * setup.batch_size, (number + 1) * setup.batch_size)
        arrays = torch.from_numpy(expected_arrays(setup.kind))
        return arrays[indices % len(arrays)], indices


class Hanging(Broken):
    """A rival that yields no batch and leaves a process running."""

    name = "hanging"

    def stream(self, setup: Setup) -> Iterator[Batch]:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        threading.Event().wait()
        yield self.good_batch(setup, 0)


class Raising(Broken):
    """A rival that raises in the third batch after the check."""

    name = "raising"

    def stream(self, setup: Setup) -> Iterator[Batch]:
        for number in range(batches_looked_at(setup) + 2):
            yield self.good_batch(setup, number)
        raise OSError("the disk is gone")


class Vanishing(Broken):
    """A rival that ends its process."""

    name = "vanishing"

    def stream(self, setup: Setup) -> Iterator[Batch]:
        os._exit(3)
        yield self.good_batch(setup, 0)


class Shuffling(Broken):
    """A rival that yields the right arrays in the wrong order."""

    name = "shuffling"

    def stream(self, setup: Setup) -> Iterator[Batch]:
        number = 0
        while True:
            images, indices = self.good_batch(setup, number)
            yield images.flip(0), indices
            number += 1
