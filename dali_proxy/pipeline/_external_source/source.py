"""The interface of a pipeline to its sources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from dali_proxy.pipeline._external_source.reader import ReadFailure, make_reader
from dali_proxy.pipeline._external_source.spec import SourceSpec
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._graph.reasons import reason_of
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._rng import BatchKey, RandomState
from dali_proxy.pipeline._user_functions.seeding import Caller, GlobalGenerators, SeededCaller, Seeds
from dali_proxy.pipeline.errors import SampleFailure, SourceError
from dali_proxy.pipeline.types import BatchInfo


class Source(ABC):
    """Provides the batches of one `external_source`."""

    @abstractmethod
    def next_batch(self, key: BatchKey, batch_size: int) -> list[TensorList]:
        """Return the next batch, for each output.

        Args:
            key: the requested batch; iterable sources return the next one.
            batch_size: number of samples, if the source returns samples.

        Raises:
            EndOfData: the epoch has no more data.
            SourceError: the source failed. The caller may continue with the next batch.
        """

    @abstractmethod
    def position(self, epoch: int) -> int:
        """Return how often the source was asked in an epoch's pass; 0 for sources that aren't iterated over."""

    @abstractmethod
    def skip(self, calls: int, epoch: int) -> None:
        """Ask an iterable source as often as before, to resume in an epoch. Call this before the first batch."""


@dataclass(frozen=True)
class SourceSeeds:
    """Seeds for the calls of a source, which follow from the requested data.

    Attributes:
        seed: seed of the pipeline; None to leave the generators alone.
        stream: number of the source's stream of random numbers.
    """

    seed: int | None
    stream: int

    def of(self, key: BatchKey, first: int, last: int) -> Seeds:
        """Return the seeds of the samples `first` .. ``last - 1`` of a batch; none if there is no seed."""
        if self.seed is None:
            return np.empty(0, np.uint64)
        return RandomState(self.seed, self.stream, replace(key, view=0)).numbers.words(last)[first:]


class SerialSource(Source):
    """A source that is read in the thread of `next_batch`."""

    def __init__(
        self, spec: SourceSpec, node: GraphNode, max_batch_size: int, seeds: SourceSeeds | None = None
    ) -> None:
        self._node = node
        self._spec = spec
        self._seeds = seeds or SourceSeeds(None, 0)
        self._reader = make_reader(spec, max_batch_size)

    def next_batch(self, key: BatchKey, batch_size: int) -> list[TensorList]:
        info = BatchInfo(key.iteration, key.epoch)
        try:
            seeds = self._seeds.of(key, 0, 1 if self._spec.batch else batch_size)
            if not len(seeds):
                return self._reader.read(info, 0, batch_size, Caller())
            generators = GlobalGenerators()
            with generators.turn, generators:
                return self._reader.read(info, 0, batch_size, SeededCaller(generators, seeds))
        except ReadFailure as failure:
            cause = failure.__cause__
            assert cause is not None
            error = source_error(self._node, self._spec, failure.wanted, failure.sample, cause, reason_of(cause))
            raise error.like(type(cause)) from cause

    def position(self, epoch: int) -> int:
        return self._reader.position(epoch)

    def skip(self, calls: int, epoch: int) -> None:
        self._reader.skip(calls, epoch)


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
