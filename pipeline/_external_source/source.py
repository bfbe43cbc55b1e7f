"""The interface of a pipeline to its sources."""

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
    """Provides the batches of one `external_source`."""

    @abstractmethod
    def next_batch(self, info: BatchInfo, batch_size: int) -> list[TensorList]:
        """Return the next batch, for each output.

        Args:
            info: the requested batch; iterable sources return the next one.
            batch_size: number of samples, if the source returns samples.

        Raises:
            EndOfData: the epoch has no more data.
            SourceError: the source failed. The caller may continue with the next batch.
        """

    @abstractmethod
    def position(self, epoch: int) -> int:
        """Return the number of items delivered in an epoch's pass; 0 for sources that aren't iterated over."""

    @abstractmethod
    def skip(self, items: int, epoch: int) -> None:
        """Skip items that were read before, to resume in an epoch. Call this before the first batch."""


class SerialSource(Source):
    """A source that is read in the thread of `next_batch`.

    Args:
        spec: the source.
        node: the operator, for messages.
        max_batch_size: batch size of the pipeline.
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
            error = source_error(self._node, self._spec, failure.wanted, failure.sample, cause, reason_of(cause))
            raise error.like(type(cause)) from cause

    def position(self, epoch: int) -> int:
        return self._reader.position(epoch)

    def skip(self, items: int, epoch: int) -> None:
        self._reader.skip(items, epoch)


def source_error(
    node: GraphNode, spec: SourceSpec, wanted: str, sample: int | None, cause: BaseException, reason: str
) -> SourceError:
    """Return the error of a failed source. It names the reason, the operator, the source and the request."""
    where = "" if sample is None else f" for sample {sample}"
    at = f"\n  at {node.location}" if node.location.line else ""
    return SourceError(
        f"{node.display} failed{where}: {reason}\n  in source {spec.display}, asked for {wanted}{at}",
        operator=node.display,
        location=str(node.location),
        failures=() if sample is None else (SampleFailure(sample, cause),),
    )
