"""Decode on cores what a decoder on the GPU leaves to them, through the cache of the host."""

from __future__ import annotations

from collections.abc import Sequence

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._compiler.cached_parts import CachedPart
from dali_proxy.pipeline._compiler.steps.cached_step import CachedStep, SomeSamples
from dali_proxy.pipeline._compiler.steps.step import Step
from dali_proxy.pipeline._graph.graph import Edge
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import BatchOperator
from dali_proxy.pipeline.errors import OperatorError, SampleFailure
from dali_proxy.pipeline.tensors.cpu import TensorListCPU


class CoresStep(Step):
    """Runs a decoder of the CPU. Its errors get their context from the decoder on the GPU."""

    def __init__(self, operator: BatchOperator) -> None:
        super().__init__((operator.node,))
        self._operator = operator

    def run(self, batch: Batch) -> None:
        try:
            (images,) = self._operator.run(batch, [batch.outputs[edge] for edge in self._operator.node.inputs])
        except OperatorError as error:
            raise _moved(error, [failure.sample for failure in batch.in_full_batch(error.failures)]) from error
        batch.outputs[Edge(self._operator.node.index)] = images


def decode_on_cores(step: CachedStep, part: CachedPart, batch: Batch, samples: Int64s) -> TensorListCPU:
    """Return samples of a batch of the decoder on the GPU, from the cache or decoded on the CPU.

    Raises:
        OperatorError: images can't be decoded; the error lists their positions in the batch.
    """
    some = SomeSamples(batch, samples, part.sources)
    some.costs = None  # it is a part of the decoder on the GPU
    try:
        step.run(some)
    except OperatorError as error:
        positions = list(range(batch.size)) if batch.positions is None else batch.positions.tolist()
        raise _moved(error, [positions.index(failure.sample) for failure in error.failures]) from error
    images = some.outputs[part.results[0]]
    assert isinstance(images, TensorListCPU)
    return images


def _moved(error: OperatorError, positions: Sequence[int]) -> OperatorError:
    """Return an error with other positions of its failed samples."""
    failures = zip(positions, error.failures, strict=True)
    moved = [SampleFailure(position, failure.error) for position, failure in failures]
    return OperatorError.from_failures(moved) if moved else error
