"""NVIDIA DALI's own pipeline with its own reader, through its iterator for torch."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.graph import make_reader_pipeline
from benchmarks.rivals.base import Batch, Rival, without_dali
from benchmarks.workload import READER_KIND, Setup


class NvidiaReader(Rival):
    """``DALIGenericIterator`` over the same graph as ours, with default options."""

    name = "nvidia-dali"
    kinds = (READER_KIND,)
    devices = ("cpu", "cuda")
    yardstick = False

    def unavailable(self) -> str | None:
        """Return a message if DALI, which is optional, isn't installed."""
        return without_dali()

    def stream(self, setup: Setup) -> Iterator[Batch]:
        """Load with NVIDIA's reader."""
        from nvidia import dali
        from nvidia.dali.plugin.pytorch import DALIGenericIterator

        pipe = make_reader_pipeline(dali, setup)
        for (batch,) in DALIGenericIterator(pipe, ["images", "labels"]):
            yield batch["images"], batch["labels"].squeeze(1)
