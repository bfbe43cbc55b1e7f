"""Steps: what runs for each batch, in order; and checks of what operators return to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from dali_proxy.pipeline._compiler.plan import PlannedStep
from dali_proxy.pipeline._compiler.steps.fast_paths import FastPaths
from dali_proxy.pipeline._concurrency.interrupts import pass_on_interrupt
from dali_proxy.pipeline._graph.graph import Edge, GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import OutputSpec
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline.errors import PipelineError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

_BATCHES = (TensorListCPU, TensorListGPU)


class Step(ABC):
    """One or several operators, which run when their inputs are known.

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


# The memory of results becomes the user's data, so an error must not stay undetected.


def check_count(node: GraphNode, returned: Any, what: str) -> None:
    """Check that an operator returned one item for each of its outputs; `what` names their source in the error.

    Raises:
        PipelineError: the number of items is wrong.
    """
    count = len(returned) if hasattr(returned, "__len__") else None
    if count != node.output_count:
        found = type(returned).__name__ if count is None else f"{count} outputs"
        raise PipelineError(f"the operator's {what} {found}, but it has {node.output_count}")


def check_batches(node: GraphNode, returned: Any, size: int) -> list[TensorList]:
    """Check and return the results of a `BatchOperator`.

    Raises:
        PipelineError: the results aren't one batch of that size for each output.
    """
    batches: Any = list(returned) if hasattr(returned, "__iter__") else returned
    if not isinstance(batches, list) or len(batches) != node.output_count:
        check_count(node, batches, "run() returned")
    for number, batch in enumerate(batches):
        if not isinstance(batch, _BATCHES):
            raise PipelineError(f"the operator's run() returned {type(batch).__name__} as output {number}, not a batch")
        if len(batch) != size:
            raise PipelineError(
                f"the operator's run() returned {len(batch)} samples as output {number}, but the batch has {size}"
            )
    checked: list[TensorList] = batches
    return checked


def check_sample(returned: Any, spec: OutputSpec) -> Array:
    """Check and return a sample that a `SampleOperator` computed.

    Raises:
        PipelineError: the sample isn't an array of the shape and dtype that `start` described.
    """
    if isinstance(returned, np.generic):
        returned = np.asarray(returned)
    if not isinstance(returned, np.ndarray):
        raise PipelineError(f"the operator's run() returned {type(returned).__name__}, not a NumPy array")
    if spec.dtype is not None and returned.dtype != spec.dtype:
        raise PipelineError(f"the operator's run() returned {returned.dtype}, but its start() described {spec.dtype}")
    if spec.shape is not None and returned.shape != tuple(spec.shape):
        raise PipelineError(
            f"the operator's run() returned the shape {returned.shape}, but its start() described {spec.shape}"
        )
    return returned
