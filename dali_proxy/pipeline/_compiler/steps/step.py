"""Steps: what runs for each batch, in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

from dali_proxy.pipeline._compiler.plan import PlannedStep
from dali_proxy.pipeline._compiler.steps.fast_paths import FastPaths
from dali_proxy.pipeline._concurrency.interrupts import pass_on_interrupt
from dali_proxy.pipeline._graph.graph import Edge, GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch


class Step(ABC):
    """One or several operators, which run when their inputs are known.

    Args:
        nodes: the operators, in order.

    Attributes:
        units: the operators whose cost can be measured together only.
    """

    #: Whether a result may depend on several samples of a batch.
    mixes_samples = False

    def __init__(self, nodes: Sequence[GraphNode]) -> None:
        self.nodes = tuple(nodes)
        self.units: Sequence[tuple[GraphNode, ...]] = (self.nodes,)

    @abstractmethod
    def run(self, batch: Batch) -> None:
        """Run the operators, and add their outputs to the batch. Several threads may call this for different batches.

        Raises:
            OperatorError: an operator failed.
        """

    def leaves(self) -> Iterator[Step]:
        """Return the steps of single operators and of chains."""
        yield self


class FusedStep(Step):
    """Several steps that a rule of the compiler has replaced by one.

    The replaced steps run instead if several batches run as one and samples of a batch are mixed, if the fused step
    declines a batch, or if it fails: an error then has the context of its operator. If they succeed, the fused step is
    at fault.

    Args:
        members: the replaced steps, in order.

    Attributes:
        fast_paths: counts the failures.
    """

    #: What runs as one, for reports.
    title: ClassVar[str]

    def __init__(self, members: Sequence[Step]) -> None:
        super().__init__([node for member in members for node in member.nodes])
        self.members = list(members)
        self.fast_paths = FastPaths()
        self.mixes_samples = any(leaf.mixes_samples for leaf in self.leaves())

    @abstractmethod
    def run_as_one(self, batch: Batch) -> bool:
        """Do the work of the members, with the same results; return False if nothing was done."""

    def run(self, batch: Batch) -> None:
        failure: Exception | None = None
        if not (batch.members and self.mixes_samples):
            try:
                if self.run_as_one(batch):
                    return
            except Exception as error:  # noqa: BLE001 - an operator that fails reports the error when it runs alone
                pass_on_interrupt(error)
                failure = error
        self.run_members(batch)
        if failure is not None:
            outputs = [Edge(node.index, output) for node in self.nodes for output in range(node.output_count)]
            batch.outputs.compute(outputs)  # what they left for later may fail, too
            self.fast_paths.confirm(self.title, failure)

    def run_members(self, batch: Batch) -> None:
        """Run the members one after another."""
        for member in self.members:
            member.run(batch)

    def leaves(self) -> Iterator[Step]:
        for member in self.members:
            yield from member.leaves()


class Steps(Step):
    """Steps that run one after another, and whose cost is measured together.

    Args:
        planned: their operators.
        steps: the steps.
        dead: edges that no later step reads: their memory is released, so that later steps reuse it.
        notes: why rules didn't apply.

    Attributes:
        name: the names of the operators, for traces.
        results: outputs that other steps read, or that the pipeline returns.
    """

    def __init__(
        self, planned: PlannedStep, steps: Sequence[Step], dead: Sequence[Edge] = (), notes: Sequence[str] = ()
    ) -> None:
        super().__init__(planned.nodes)
        self.name, self.results, self.notes = planned.name, planned.results, notes
        self.steps, self._dead = tuple(steps), dead
        self.units = tuple([unit for step in steps for unit in step.units])

    def run(self, batch: Batch) -> None:
        if batch.costs is None or len(self.steps) == 1:  # a chain measures its operators
            for step in self.steps:
                step.run(batch)
        else:
            for step in self.steps:
                with batch.costs.charge(step.nodes[0].index):
                    step.run(batch)
        for edge in self._dead:
            batch.outputs.pop(edge, None)
