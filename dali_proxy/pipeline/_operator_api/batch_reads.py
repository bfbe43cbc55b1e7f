"""`BatchReads`: the reads of one batch, which its readers have started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dali_proxy.pipeline._graph.graph import Edge


class SamplesInFlight(Protocol):
    """A batch that a reader has started to read."""

    @property
    def sources(self) -> Sequence[str]:
        """The origin of each sample in the data set, such as a file name."""


@dataclass(frozen=True)
class BatchReads:
    """The reads that readers have started for one batch.

    Attributes:
        by_reader: reads by the index of the reader's node.
        origins: index of the reader that the samples of an edge come from.
    """

    by_reader: Mapping[int, SamplesInFlight]
    origins: Mapping[Edge, int]

    def source_info(self, edge: Edge, sample: int) -> str:
        """Return the origin of a sample in its data set; an empty string if it doesn't come from a reader."""
        reader = self.origins.get(edge)
        return "" if reader is None else self.by_reader[reader].sources[sample]

    def sources(self, edge: Edge) -> Sequence[str]:
        """Return the origins of all samples; an empty sequence if they don't come from a reader."""
        reader = self.origins.get(edge)
        return () if reader is None else self.by_reader[reader].sources
