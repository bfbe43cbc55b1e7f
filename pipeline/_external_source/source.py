"""The sources of a pipeline, as the pipeline sees them: one small interface for all kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pipeline._external_source.reader import ReadFailure, make_reader
from pipeline._external_source.spec import SourceSpec
from pipeline._graph.graph import GraphNode
from pipeline._graph.reasons import reason_of
from pipeline._operator_api.request import TensorList
from pipeline.errors import SampleFailure, SourceError
from pipeline.types import BatchInfo

__all__ = ["SerialSource", "Source", "source_error"]


class Source(ABC):
    """Gives batches to one `external_source`."""

    @abstractmethod
    def next_batch(self, info: BatchInfo, batch_size: int) -> list[TensorList]:
        """Return the next batch, for each output.

        Args:
            info: which batch is wanted; iterable sources give what comes next.
            batch_size: how many samples, where the source gives samples.

        Raises:
            EndOfData: there is no more in this epoch.
            SourceError: the source failed. It may be asked for the next batch.
        """

    @abstractmethod
    def position(self, epoch: int) -> int:
        """Return how many items of this pass went into batches, in an epoch; 0 where it is told what is wanted."""

    @abstractmethod
    def skip(self, items: int, epoch: int) -> None:
        """Before the first batch: pass over items that were read before, to go on in an epoch."""


class SerialSource(Source):
    """A source that is read in the thread that asks for batches.

    Args:
        spec: the source.
        node: the operator, for messages.
        max_batch_size: of the pipeline.
    """

    def __init__(self, spec: SourceSpec, node: GraphNode, max_batch_size: int) -> None:
        self._node = node
        self._spec = spec
        self._reader = make_reader(spec, max_batch_size)

    def next_batch(self, info: BatchInfo, batch_size: int) -> list[TensorList]:
        try:
            return self._reader.read(info, 0, batch_size)
        except ReadFailure as failure:
            cause = failure.__cause__
            assert cause is not None
            made = source_error(self._node, self._spec, failure.wanted, failure.sample, cause, reason_of(cause))
            raise made.like(type(cause)) from cause

    def position(self, epoch: int) -> int:
        return self._reader.position(epoch)

    def skip(self, items: int, epoch: int) -> None:
        self._reader.skip(items, epoch)


def source_error(
    node: GraphNode, spec: SourceSpec, wanted: str, sample: int | None, cause: BaseException, reason: str
) -> SourceError:
    """Make the error of a source that failed: what happened, in which source of which operator, asked for what."""
    where = "" if sample is None else f" for sample {sample}"
    at = f"\n  at {node.location}" if node.location.line else ""
    return SourceError(
        f"{node.display} failed{where}: {reason}\n  in source {spec.display}, asked for {wanted}{at}",
        operator=node.display,
        location=str(node.location),
        failures=() if sample is None else (SampleFailure(sample, cause),),
    )
