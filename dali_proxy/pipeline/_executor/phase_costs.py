"""The costs of phases, which decide whether another thread is woken for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dali_proxy.pipeline._compiler.plan import Phase, Plan
from dali_proxy.pipeline._concurrency.cost import MEASURED_CHEAP
from dali_proxy.pipeline._declaration.schema import Role

# Processor time of a phase, in nanoseconds, below which waking another thread costs more than the overlap saves.
_CHEAP = 1_000_000
_CHEAP_ON_GPU = 800_000  # launches wait for the driver, too
# Weight of a batch in the moving average of that time.
_WEIGHT = 0.2


class PhaseCosts:
    """Moving averages of the processor time of the phases of a plan that don't wait.

    Args:
        plan: the plan.
        operators: implementations of the nodes, by index.
    """

    def __init__(self, plan: Plan, operators: Mapping[int, Any]) -> None:
        self._on_gpu = [phase.on_gpu for phase in plan.phases]
        #: Nanoseconds, by number of the phase.
        self._costs: dict[int, float] = {
            number: _CHEAP for number, phase in enumerate(plan.phases) if not _may_wait(phase, operators)
        }

    def is_cheap(self, number: int) -> bool:
        """Return whether a phase takes less time than to wake another thread, as far as it was measured."""
        cost = self._costs.get(number)
        return cost is not None and cost < (_CHEAP_ON_GPU if self._on_gpu[number] else _CHEAP)

    def weight(self, number: int, batch: int) -> int:
        """Return for how many batches the measurement of this one counts; 0 for a batch that isn't measured.

        The clock of a thread costs a system call, which can take longer than a cheap operator.

        Args:
            number: number of the phase.
            batch: number of the batch.
        """
        if not self.is_cheap(number):
            return 1
        return 0 if batch % MEASURED_CHEAP else MEASURED_CHEAP

    def add(self, number: int, processor: float) -> None:
        """Add the processor time of a batch in a phase, in nanoseconds."""
        if number in self._costs:
            processor = min(processor, 2 * _CHEAP)  # a busy machine causes outliers
            self._costs[number] += _WEIGHT * (processor - self._costs[number])


def _may_wait(phase: Phase, operators: Mapping[int, Any]) -> bool:
    """Return whether a phase may wait for files, for the user's code, for a decoder or for the GPU."""
    nodes = [node for step in phase.steps for node in step.nodes]
    if phase.device == "mixed" and any(node.schema.role is not Role.COPY_TO_GPU for node in nodes):
        return True
    return any(operators[node.index].traits.waits for node in nodes)
