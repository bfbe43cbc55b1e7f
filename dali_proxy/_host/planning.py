"""Plans what consumers have to do on their GPU for each batch, so that they need not."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from pipeline._compiler.device_planner import PlannedBatch, Planner
from pipeline._concurrency.cost import spent
from pipeline._definition.serializing import deserialize_for_host
from pipeline._executor.statistics import StepTimes
from pipeline._operator_api.request import TensorList
from pipeline._rng import BatchKey

__all__ = ["Planning"]


class Planning:
    """A planner of the second half of a pipeline, and what it costs. Any thread may use it.

    Args:
        second_half: as `serialize_for_host` returned it; its graph has `simple_parts`.

    Raises:
        BuildError: an operator can't be made.
    """

    def __init__(self, second_half: bytes) -> None:
        pipeline = deserialize_for_host(second_half)._internals
        self._planner = Planner(pipeline.graph, pipeline.arguments.executor_config())
        #: Numbers of the first half's outputs that are outputs of the whole.
        self.handed_on = self._planner.handed_on
        self._lock = threading.Lock()
        self._times = StepTimes("plan for the consumer's GPU")

    def plan(self, outputs: Sequence[TensorList], key: BatchKey) -> PlannedBatch | None:
        """Plan a batch; None if the consumer has to run it operator by operator.

        Args:
            outputs: of the first half.
            key: which batch it is.

        Raises:
            OperatorError: naming the operator and the samples that failed.
        """
        begin = spent()
        try:
            return self._planner.plan(outputs, key)
        finally:
            cost = spent().minus(begin)
            with self._lock:
                self._times.add(self._times.batches + 1, *cost)

    def times(self) -> list[StepTimes]:
        """Return what it has cost, as an executor's statistics do."""
        with self._lock:
            return [StepTimes(**vars(self._times))]
