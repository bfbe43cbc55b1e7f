"""Planning of the consumers' GPU work for each batch, so that consumers needn't plan it themselves."""

from __future__ import annotations

from collections.abc import Sequence

from dali_proxy.pipeline._compiler.device_planner import PlannedBatch, Planner
from dali_proxy.pipeline._concurrency.cost import spent
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._definition.serializing import deserialize_for_host
from dali_proxy.pipeline._executor.statistics import StepTimes
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._rng import BatchKey


class Planning:
    """A planner of a pipeline's device stage, and its cost. Any thread may use it.

    Args:
        device_stage: the stage, from `serialize_for_host`; its graph has `simple_derivations`.

    Raises:
        BuildError: an operator can't be created.

    Attributes:
        unchanged: numbers of the host stage's outputs that are outputs of the whole pipeline, or their source.
    """

    def __init__(self, device_stage: bytes) -> None:
        pipeline = deserialize_for_host(device_stage)._internals
        self._planner = Planner(pipeline.graph, pipeline.arguments.executor_config())
        self.unchanged = self._planner.unchanged
        self._lock = new_lock(Level.LEAF, "planning times")
        self._times = StepTimes("plan for the consumer's GPU")

    def plan(self, outputs: Sequence[TensorList], key: BatchKey) -> PlannedBatch | None:
        """Return the plan of a batch; None if the consumer must run it operator by operator.

        Args:
            outputs: outputs of the host stage.
            key: key of the batch's random numbers.

        Raises:
            OperatorError: an operator failed; the error names it and the samples.
        """
        begin = spent()
        try:
            return self._planner.plan(outputs, key)
        finally:
            cost = spent().minus(begin)
            with self._lock:
                self._times.add(self._times.batches + 1, *cost)

    def times(self) -> list[StepTimes]:
        """Return the cost of planning, in the form of an executor's statistics."""
        with self._lock:
            return [StepTimes(**vars(self._times))]
