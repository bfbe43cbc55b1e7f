"""The interface of a job: one kind of data, and the work that every loader has to do with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

Arrays = tuple[np.ndarray, ...]
Tensors = tuple[torch.Tensor, ...]

ENDLESS = 1 << 22
"""Samples in the epoch of most jobs: more than a measurement takes."""

DRAWN = 4096
"""Different random arguments, which repeat."""


class Job(ABC):
    """A kind of data. All that is random is a function of a sample's index, so all loaders make the same batches.

    Attributes:
        name: Its name on the command line.
        title: Its name in tables.
        batch_size: Samples in a batch.
        length: Samples in an epoch.
        bounds: For each output, the largest mean difference from the reference, in ``units``.
        units: For each output, what a difference is multiplied with.
        unit: The name of the first output's unit.
        seconds: How many times as long as usual a measurement takes.
        ordered: Whether batches come in the order of the dataset; else each epoch has all samples in any order.
        folder: The folder with its files, which `prepare` has written.
    """

    name: str
    title: str
    batch_size = 64
    length = ENDLESS
    bounds: tuple[float, ...] = (0.0,)
    units: tuple[float, ...] = (1.0,)
    unit = ""
    seconds = 1.0
    ordered = True
    folder: Path

    def prepare(self) -> None:  # noqa: B027  # most jobs have files, but not all
        """Write the files once, below the temporary directory of this machine, and read what the job must know."""

    @abstractmethod
    def stored(self, index: int) -> Arrays:
        """Return the parts of a sample that a storage format keeps: encoded files, labels."""

    def drawn(self, index: int) -> Arrays:
        """Return the random arguments of a sample."""
        return ()

    def inputs(self, index: int) -> Arrays:
        """Return a sample before any work: what a dataset passes to the proxy."""
        return (*self.stored(index), *self.drawn(index))

    @abstractmethod
    def transform(self, *inputs: np.ndarray) -> Arrays:
        """Do the work for one sample in Python, with the fastest functions that we know; a batch is stacked then."""

    @abstractmethod
    def graph(self, library: Any, *inputs: Any) -> Any:
        """Describe the work with the operators of a library, ``dali_proxy.pipeline`` or ``nvidia.dali``.

        Args:
            library: The library.
            inputs: The nodes of the inputs.

        Returns:
            A node for each output.
        """

    @abstractmethod
    def reference(self, *inputs: np.ndarray) -> Arrays:
        """Compute the outputs of a sample with other libraries than `transform`, without regard to speed."""

    def finisher(self) -> Callable[[Tensors], Tensors]:
        """Return the work that is left for a batch from `transform`. Its results are valid until the next batch."""
        return lambda batch: batch
