"""The interface of a rival."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Protocol

import torch

from benchmarks.workload import Setup

Batch = tuple[torch.Tensor, torch.Tensor]


class Rival(Protocol):
    """A way to load the workload.

    Other modules measure its duration and costs: a rival only opens a stream of batches.

    Attributes:
        name: Its name in tables and on the command line.
        kinds: The kinds of input that it can load.
        devices: Devices of its batches: ``"cpu"``, ``"cuda"``.
        yardstick: Whether it does only one step of the work, as a bound. Its batches are then not checked.
    """

    name: str
    kinds: tuple[str, ...]
    devices: tuple[str, ...]
    yardstick: bool

    def unavailable(self) -> str | None:
        """Return why it can't run here, or None if it can."""

    def stream(self, setup: Setup) -> Iterator[Batch]:
        """Yield batches in the order of the dataset, without end.

        Each batch has float32 images ``[N, 3, 224, 224]``, normalised, on the device, or uint8 arrays ``[N, ...]``, and
        the N indices of its samples. It may become invalid when the next one is requested. Closing the generator
        ends everything that the rival started.
        """

    def adapt(self) -> None:
        """Begin to adapt to another loop that takes its batches."""

    def is_ready(self) -> bool:
        """Return whether it has adapted."""
        return True

    def mark(self) -> None:
        """Mark the beginning of a measurement."""

    def report(self) -> str:
        """Return what the rival knows about its own speed since the mark; empty if it knows nothing."""
        return ""


def without_dali() -> str | None:
    """Return a message if NVIDIA DALI isn't installed."""
    try:
        found = importlib.util.find_spec("nvidia.dali") is not None
    except ModuleNotFoundError:
        found = False
    return None if found else "nvidia-dali is not installed"
