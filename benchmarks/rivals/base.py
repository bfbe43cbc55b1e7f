"""What a rival is."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Protocol

import torch

from benchmarks.workload import Setup

Batch = tuple[torch.Tensor, torch.Tensor]


class Rival(Protocol):
    """A way to load the workload.

    How long it takes, and what it costs, is measured by others: a rival only opens a stream of batches.

    Attributes:
        name: Its name in tables and on the command line.
        kinds: The kinds of input that it can load.
        devices: Where its batches can lie: ``"cpu"``, ``"cuda"``.
        yardstick: Whether it does only a part of the work, to compare with. Its batches are then not checked.
    """

    name: str
    kinds: tuple[str, ...]
    devices: tuple[str, ...]
    yardstick: bool

    def unavailable(self) -> str | None:
        """Return why it can't run here, None where it can."""

    def stream(self, setup: Setup) -> Iterator[Batch]:
        """Return batches in the order of the dataset, for as long as it is asked.

        A batch is float32 images ``[N, 3, 224, 224]``, normalised, on the device, or uint8 arrays ``[N, ...]``; and
        the N indices of its samples. It need not stay valid when the next one is asked for. Closing the generator
        ends everything that the rival started.
        """

    def mark(self) -> None:
        """A measurement begins."""

    def report(self) -> str:
        """Return what the rival knows about its own speed since the mark; empty where it knows nothing."""
        return ""


def without_dali() -> str | None:
    """Return that NVIDIA DALI is not installed, if it isn't."""
    try:
        found = importlib.util.find_spec("nvidia.dali") is not None
    except ModuleNotFoundError:
        found = False
    return None if found else "nvidia-dali is not installed"
