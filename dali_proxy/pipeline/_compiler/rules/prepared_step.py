"""A step on the GPU repeats launches that were prepared for an earlier batch."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial

from dali_proxy.pipeline._compiler.batch_place import BatchPlace
from dali_proxy.pipeline._compiler.expressed_launches import ExpressedLaunches
from dali_proxy.pipeline._compiler.plan import BatchStep
from dali_proxy.pipeline._compiler.recorded_launches import RecordedLaunches
from dali_proxy.pipeline._compiler.rules.equal_operators import EqualOperators
from dali_proxy.pipeline._compiler.rules.scope import Scope, replaced
from dali_proxy.pipeline._compiler.steps.step import FusedStep, Step
from dali_proxy.pipeline._cuda.launch import MAX_SAMPLES
from dali_proxy.pipeline._graph.graph import Edge
from dali_proxy.pipeline._operator_api.batch import Batch

_Launches = RecordedLaunches | ExpressedLaunches

# Largest number of kinds of inputs for which launches are prepared: of sizes of batches, and of shapes.
_MOST_KINDS = 16
# Largest number of equal operators that take less time apart, with prepared launches, than as one.
_MOST_EQUAL = 2


class PreparedStep(FusedStep):
    """Launches that are prepared for each kind of inputs: batches of one kind differ only in their addresses.

    `make` makes those for inputs of one kind; `others` are those for inputs of all other kinds, if there are any.
    """

    title = "prepared launches"

    def __init__(
        self,
        members: Sequence[Step],
        inputs: Sequence[Edge],
        make: Callable[[], _Launches],
        others: ExpressedLaunches | None,
    ) -> None:
        super().__init__(members)
        self._inputs, self._make, self._others = inputs, make, others
        #: The launches by kind of inputs.
        self._known: dict[Hashable, _Launches] = {}
        #: Whether inputs of one kind have come twice.
        self._recurs = False

    def run_as_one(self, batch: Batch) -> bool:
        if batch.size > MAX_SAMPLES:
            return False
        run_members = partial(self.run_members, batch)
        if self._recurs or len(self._known) < _MOST_KINDS:  # otherwise, each batch is of another kind
            found = [BatchPlace.of(batch.outputs[edge]) for edge in self._inputs]
            places = [place for place in found if place is not None]
            if len(places) < len(found):
                return False
            key = (batch.size, *[place.kind for place in places])
            known = self._known.get(key)
            self._recurs = self._recurs or known is not None
            if known is None and len(self._known) < _MOST_KINDS:
                known = self._known[key] = self._make()
            if known is not None:
                return known.run(batch, places, run_members)
        return self._others is not None and self._others.run(batch, (), run_members)


def prepare_launches(steps: list[Step], scope: Scope) -> list[Step]:
    """Prepare the launches of a step: recorded, or those of pixel operators, of which only numbers are computed."""
    planned, kernels, operators = scope.planned, scope.kernels, scope.operators
    if kernels is None or scope.device != "gpu" or not isinstance(planned, BatchStep):
        return steps
    equal = max([len(step.members) for step in steps if isinstance(step, EqualOperators)], default=1)
    make: Callable[[], _Launches] | None = None
    others: ExpressedLaunches | None = None
    if equal <= _MOST_EQUAL and ExpressedLaunches.fits(planned, operators):
        express = partial(ExpressedLaunches, planned, operators, scope.readers, kernels)
        others, make = express(one_kind=False), partial(express, one_kind=True)
    if RecordedLaunches.fits(planned, operators):
        make = partial(RecordedLaunches, planned, operators, kernels)
    if make is None:
        several = equal > _MOST_EQUAL
        scope.note(PreparedStep, "equal operators are faster as one" if several else "launches differ between batches")
        return steps
    own = {node.index for node in planned.nodes}
    edges = {edge for node in planned.nodes for edge in node.inputs if edge.node not in own}
    inputs = sorted(edge for edge in edges if operators[edge.node].node.output_device == "gpu")
    return replaced(steps, scope, [PreparedStep(steps, inputs, make, others)])
