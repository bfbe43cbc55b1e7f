"""A step on the GPU repeats launches that were prepared for an earlier batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pipeline._compiler.expressed_steps import ExpressedStep
from pipeline._compiler.plan import BatchStep
from pipeline._compiler.recorded_steps import RecordedStep
from pipeline._compiler.rules.equal_operators import EqualOperators
from pipeline._compiler.rules.scope import Scope, replaced
from pipeline._compiler.steps.step import FusedStep, Step
from pipeline._operator_api.batch import Batch

__all__ = ["PreparedLaunches", "prepare_launches"]

# Largest number of equal operators that take less time apart, with prepared launches, than as one.
_MOST_EQUAL = 2


class PreparedLaunches(FusedStep):
    """Repeats the launches of all operators of a step.

    Args:
        members: the operators, or what runs them as one.
        prepared: their launches.
    """

    title = "prepared launches"

    def __init__(self, members: Sequence[Step], prepared: RecordedStep | ExpressedStep) -> None:
        super().__init__(members)
        self._prepared = prepared

    def run_as_one(self, batch: Batch) -> bool:
        return self._prepared.run(batch, partial(self.run_members, batch))


def prepare_launches(steps: list[Step], scope: Scope) -> list[Step]:
    """Prepare the launches of a step whose launches depend on little but the shapes of its inputs."""
    planned, kernels, operators = scope.planned, scope.kernels, scope.operators
    if kernels is None or scope.device != "gpu" or not isinstance(planned, BatchStep):
        return steps
    prepared: RecordedStep | ExpressedStep
    # A step without results, such as an operator with `preserve` that nothing reads, has no launches.
    is_small = all(len(step.members) <= _MOST_EQUAL for step in steps if isinstance(step, EqualOperators))
    if RecordedStep.fits(planned, operators):
        prepared = RecordedStep(planned, planned.results, operators, kernels)
    elif planned.results and is_small and ExpressedStep.fits(planned, operators):
        prepared = ExpressedStep(planned, planned.results, operators, scope.readers, kernels)
    else:
        return steps
    return replaced(steps, scope, [PreparedLaunches(steps, prepared)])
