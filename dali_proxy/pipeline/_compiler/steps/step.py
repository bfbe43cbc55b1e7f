"""Steps: what runs for each batch, in order, from single operators on; and checks of what operators return."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from dali_proxy.pipeline._compiler.plan import PlannedStep
from dali_proxy.pipeline._compiler.steps.fast_paths import FastPaths
from dali_proxy.pipeline._concurrency.interrupts import pass_on_interrupt
from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._graph.graph import Edge, GraphNode
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline._operator_api.batch import Batch, no_output_memory
from dali_proxy.pipeline._operator_api.branch_batches import branch_batch
from dali_proxy.pipeline._operator_api.error_context import error_context, raise_described
from dali_proxy.pipeline._operator_api.operator import BatchOperator, OutputSpec
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator, evaluate
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


class OperatorStep(Step):
    """Runs one operator."""

    def __init__(self, operator: BatchOperator, kernels: KernelContext | None) -> None:
        node = operator.node
        super().__init__((node,))
        self.operator, self.node = operator, node
        self._edges = [Edge(node.index, output) for output in range(node.output_count)]
        self._inputs = () if node.schema.merges else node.inputs
        on_gpu = kernels if node.device != "cpu" else None
        #: The context of the launches, for operators on the GPU that don't only add launches to the queue; and for
        #: others, which need the queue.
        self._unqueued = None if operator.traits.only_launches else on_gpu
        self._queued = on_gpu if operator.traits.only_launches or isinstance(operator, PixelOperator) else None
        self.mixes_samples = node.device != "cpu" and not operator.traits.per_sample

    def run(self, batch: Batch) -> None:
        if batch.members and self.mixes_samples:
            self._run_apart(batch)
            return
        branch = self.batch_of(batch) if self.node.branch else batch
        if branch is not None:
            if self._queued is not None:
                self._queued.open_queue()
            self._run(batch, branch)

    def _run_apart(self, batch: Batch) -> None:
        """Process each of the batches that run as one."""
        begin = 0
        for member in batch.members:
            part = slice(begin, begin + member.size)
            for edge in self.node.sources:
                if edge not in member.outputs:
                    value = batch.outputs[edge]
                    assert isinstance(value, TensorListGPU)  # those on the CPU are the member's
                    member.keep(edge, value.part(part))
            member.stream = batch.stream
            self.run(member)
            begin += member.size
        for edge in self._edges:
            batch.keep(edge, _joined([member.outputs[edge] for member in batch.members]))

    def batch_of(self, batch: Batch) -> Batch | None:
        """Return the samples that take the operator's branch; None if no sample does."""
        if not self.node.branch:
            return batch
        with error_context(self.node, batch):
            return branch_batch(batch, self.node.branch)

    def _run(self, batch: Batch, branch: Batch) -> None:
        batch.outputs.compute(self._inputs)  # with the error context of their operators
        try:  # `error_context` would take longer
            inputs = list(map(branch.values.__getitem__, self._inputs))
            if self._unqueued is None:
                returned = self.operator.run(branch, inputs)
            else:
                with self._unqueued.unqueued():
                    returned = self.operator.run(branch, inputs)
            outputs = check_batches(self.node, returned, branch.size)
        except BaseException as error:
            raise_described(self.node, branch, error)
            raise
        for edge, value in zip(self._edges, outputs, strict=True):
            batch.keep(edge, value)


class FedInput(OperatorStep):
    """Takes the data of the request, if it is already on the device of the operator."""

    def run(self, batch: Batch) -> None:
        data: Any = batch.request.inputs[self.node.name]
        if self.node.device == "gpu":
            if not isinstance(data, TensorListGPU):
                super().run(batch)
                return
            with error_context(self.node, batch):
                (data,) = self.operator.run(batch, ())
        batch.keep(self._edges[0], data)


class PixelStep(OperatorStep):
    """Adds the output of a pixel operator as an expression, or runs the operator if it can't be one.

    Attributes:
        edge: the output.
        is_shared: whether several operators read it.
    """

    operator: PixelOperator

    def __init__(self, operator: PixelOperator, kernels: KernelContext | None, readers: Mapping[Edge, int]) -> None:
        super().__init__(operator, kernels)
        self.edge = self._edges[0]
        self.is_shared = readers.get(self.edge, 0) > 1
        #: What may be rows of tables.
        self._others = (*self.node.inputs[1:], *self.node.argument_inputs.values())

    def _run(self, batch: Batch, branch: Batch) -> None:
        batch.outputs.compute_rows(self._others)  # with the error context of their operators
        operator, traits = self.operator, self.operator.traits
        pixels = branch.pixels(self._inputs[0], computed=traits.gathers, elements=traits.elementwise)
        with error_context(self.node, branch):
            result = None if pixels is None else operator.express(branch, pixels)
        if result is None or (result is pixels and result.in_memory):  # `run` passes the input on without a copy
            super()._run(batch, branch)
        else:
            defer(batch, [(self, branch)], result)


def defer(batch: Batch, members: Sequence[tuple[PixelStep, Batch]], pixels: PixelExpression) -> None:
    """Add the outputs of operators as one expression, which is computed when one of them is read."""
    step, branch = members[0]
    edges = [each.edge for each, _ in members]
    memory_of = batch.output_memory if len(edges) == 1 else no_output_memory

    def compute(pixels: PixelExpression) -> TensorListGPU:
        with error_context(step.node, branch):
            return evaluate(pixels, step.operator.kernels, batch.stream, partial(memory_of, edges[0]))

    batch.outputs.defer(edges, [each.size for _, each in members], pixels, compute)
    if pixels.reads > 1 and any(each.is_shared for each, _ in members):
        batch.outputs.compute(edges)  # once for all readers


def _joined(parts: Sequence[TensorList]) -> TensorListGPU:
    """Return batches one after another, without a copy.

    Raises:
        PipelineError: they differ in dtype, number of dimensions or layout, or aren't on the GPU.
    """
    batches = [part for part in parts if isinstance(part, TensorListGPU)]
    tables = [batch.table() for batch in batches]
    kinds = {(table.dtype, table.ndim, batch.layout()) for table, batch in zip(tables, batches, strict=True)}
    if len(batches) < len(parts) or len(kinds) > 1:
        raise PipelineError("the outputs of batches that run as one don't fit together")
    first = batches[0]
    return TensorListGPU.from_table(Samples.concatenate(tables), tuple(batches), first.device_id(), first.layout())


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
