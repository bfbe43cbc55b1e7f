"""The work of a step for one batch, which threads do range by range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dali_proxy.pipeline.tensors.cpu import Array


class SampleWork(Protocol):
    """Computes each sample of a batch from the same sample of the inputs.

    An input's samples may get their memory when their range runs, see `UndecodedImages`.
    """

    def run_range(self, begin: int, end: int, borrowed: Sequence[Array] = ()) -> None:
        """Compute samples `begin` to `end`. Several threads may call this for different ranges.

        Args:
            begin: first sample.
            end: sample after the last one.
            borrowed: memory of inputs that other samples overwrite later: results of these samples don't keep it.
        """

    def publish(self) -> None:
        """Add the results to the batch, when all samples are computed."""
