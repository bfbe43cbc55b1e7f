"""The steps of a plan: run their operators on a batch, apart, fused, or by recorded launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from pipeline._compiler.equal_operators import equal_operators
from pipeline._compiler.expressed_steps import ExpressedStep, expressed_steps
from pipeline._compiler.fused_steps import fused_steps
from pipeline._compiler.joint_draws import joint_draws
from pipeline._compiler.plan import BatchStep, Phase, Plan, SampleStep, Step
from pipeline._compiler.recorded_steps import RecordedStep, recorded_steps
from pipeline._compiler.tabulated_operators import TabulatedOperators, tabulated_operators
from pipeline._concurrency.cost import charged
from pipeline._concurrency.interrupts import pass_on_interrupt
from pipeline._cuda.context import KernelContext
from pipeline._cuda.launch import MAX_SAMPLES
from pipeline._executor.chain import ChainRunner
from pipeline._executor.fast_paths import FastPaths
from pipeline._executor.results import check_batches
from pipeline._graph.graph import Edge, Graph, GraphNode
from pipeline._kernels.expression import PixelExpression
from pipeline._operator_api.batch import Batch, no_output_memory
from pipeline._operator_api.branch_batches import branch_batch, take_samples
from pipeline._operator_api.error_context import error_context
from pipeline._operator_api.operator import SampleOperator
from pipeline._operator_api.pixel_operator import PixelOperator, evaluate
from pipeline._operator_api.request import TensorList
from pipeline._operator_api.stacked_batch import StackedBatch
from pipeline.tensors.gpu import TensorListGPU

__all__ = ["Steps"]


class Steps:
    """Runs the steps of a plan, on any thread.

    Args:
        graph: the graph.
        plan: its plan.
        operators: implementations of the nodes, by index.
        kernels: context of the launches; None without a GPU.
        seed: seed of the random numbers.
        fuse: whether operators may run together; the results are the same.
    """

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        operators: Mapping[int, Any],
        kernels: KernelContext | None,
        seed: int,
        fuse: bool,
    ) -> None:
        self._operators, self._kernels = operators, kernels
        #: Failures of the ways in which several operators run as one.
        self.fast_paths = FastPaths()
        self._readers = plan.readers
        steps = [step for phase in plan.phases for step in phase.steps]
        self._chains = {
            id(step): ChainRunner(step, [self._sample_operator(node.index) for node in step.nodes])
            for step in steps
            if isinstance(step, SampleStep)
        }
        self._fused = fused_steps(steps, operators) if fuse else {}
        #: Steps on the GPU that repeat launches, by the `id` of the step.
        self._repeated: dict[int, RecordedStep | ExpressedStep] = {
            **expressed_steps(plan, operators, kernels, fuse),
            **recorded_steps(plan, operators, kernels, fuse),
        }
        batch_steps = [step for step in steps if isinstance(step, BatchStep) and fuse]
        #: Groups of equal operators on the GPU, by the index of the first one.
        self._equal = equal_operators(batch_steps, operators)
        #: Groups of operators whose arguments are rows of tables, by the indices of their members.
        self._tabulated: dict[int, TabulatedOperators] = {}
        #: Indices of the operators that return such rows for nothing else.
        self._postponed: set[int] = set()
        if fuse and kernels is not None:
            self._tabulated, self._postponed = tabulated_operators(graph, plan, operators)
        #: Random numbers that are drawn together, by the `id` of the step.
        self._draws = joint_draws(batch_steps, operators, seed)
        #: The outputs that are data of the request, by the index of the node.
        self._fed = {node.index: Edge(node.index) for node in graph.inputs if node.operator == "external_source"}
        #: Steps of such nodes alone, by the `id` of the step.
        self._inputs = {
            id(step)
            for step in steps
            if isinstance(step, BatchStep) and {node.index for node in step.nodes} <= self._fed.keys()
        }
        #: Phases of such steps alone, by their `id`.
        self._input_phases = {
            id(phase) for phase in plan.phases if all(id(step) in self._inputs for step in phase.steps)
        }
        #: Indices of the nodes whose outputs may be expressions.
        self._pixels = {index for index, each in operators.items() if fuse and isinstance(each, PixelOperator)}

    def _sample_operator(self, index: int) -> SampleOperator[Any]:
        operator = self._operators[index]
        assert isinstance(operator, SampleOperator)
        return operator

    def only_inputs(self, phase: Phase) -> bool:
        """Return whether a phase does nothing but take fed data."""
        return id(phase) in self._input_phases

    def run(self, batch: Batch, step: Step) -> None:
        """Run the operators of a step, and add their outputs to the batch."""
        if id(step) in self._inputs:
            for node in step.nodes:
                if not self._take(batch, node):
                    self._run_operator(batch, node)
            return
        repeated = None if batch.costs is not None else self._repeated.get(id(step))
        if repeated is not None and repeated.run(batch, partial(self._run_apart, batch, step)):
            return
        fused = self._fused.get(id(step))
        if fused is None or not ((batch.costs is None or fused.measures_each) and fused.run(batch)):
            self._run_apart(batch, step)

    def _run_apart(self, batch: Batch, step: Step) -> None:
        if isinstance(step, SampleStep):
            self._chains[id(step)].run(batch)
            return
        if batch.costs is not None:
            for node in step.nodes:
                self._run_operator(batch, node)
            return
        draws = self._draws.get(id(step))
        done = set() if draws is None else set(draws.run(batch))
        expressed: set[int] = set()
        failed: list[tuple[str, Exception]] = []
        for node in step.nodes:
            if node.index in done:
                continue
            if node.index in self._postponed:
                self._postpone(batch, node)
                continue
            tabulated = self._tabulated.get(node.index)
            if tabulated is not None and id(tabulated) not in expressed:
                expressed.add(id(tabulated))
                done.update(self._express_rows(batch, tabulated, failed))
            group = self._equal.get(node.index)
            if group is not None and len(step.nodes) > 1 and done.isdisjoint([each.index for each in group]):
                done.update(self._express_all(batch, group, failed))
            if node.index not in done:
                self._run_operator(batch, node)
        for rule, error in failed:
            self.fast_paths.confirm(rule, error)

    def _run_operator(self, batch: Batch, node: GraphNode) -> None:
        operator: Any = self._operators[node.index]
        if node.index in self._fed and self._take(batch, node):
            return
        branch = self._in_branch(batch, node)
        if branch is None:
            return
        if node.index in self._tabulated:  # the rows of its arguments, with the error context of their operators
            batch.outputs.compute((*node.inputs[1:], *node.argument_inputs.values()))
        on_gpu = node.device != "cpu"
        if on_gpu and self._kernels is not None:
            self._kernels.open_queue()
        if on_gpu and node.index in self._pixels and self._express(batch, branch, operator):
            return
        if not node.schema.merges:
            batch.outputs.compute(node.inputs)  # with the error context of their operators
        direct = self._kernels is not None and on_gpu and not operator.traits.only_launches
        with error_context(node, branch):
            values = branch.values
            inputs: list[Any] = [] if node.schema.merges else [values[edge] for edge in node.inputs]
            if direct or batch.costs is not None:
                queueing = self._kernels.unqueued() if direct and self._kernels else nullcontext()
                with queueing, charged(batch.costs, node.index):
                    returned = operator.run(branch, inputs)
            else:
                returned = operator.run(branch, inputs)
            outputs = check_batches(node, returned, branch.size)
        for index, value in enumerate(outputs):
            batch.keep(Edge(node.index, index), value)

    def _take(self, batch: Batch, node: GraphNode) -> bool:
        """Add fed data that is already on the device of a node; return False if it isn't."""
        data = batch.request.inputs[node.name]
        if node.device == "gpu":
            if not isinstance(data, TensorListGPU):
                return False
            with error_context(node, batch), charged(batch.costs, node.index):
                (data,) = self._operators[node.index].run(batch, ())
        if batch.costs is None:
            batch.keep(self._fed[node.index], data)
        else:
            with charged(batch.costs, node.index):
                batch.keep(self._fed[node.index], data)
        return True

    @staticmethod
    def _in_branch(batch: Batch, node: GraphNode) -> Batch | None:
        """Return the batch that a node processes; None if no sample takes its branch."""
        if not node.branch:
            return batch
        with error_context(node, batch):
            return branch_batch(batch, node.branch)

    def _express(self, batch: Batch, branch: Batch, operator: PixelOperator) -> bool:
        """Add the output of an operator as an expression; return False if the operator must run instead."""
        node = operator.node
        pixels = branch.pixels(node.inputs[0], computed=operator.traits.gathers, elements=operator.traits.elementwise)
        with error_context(node, branch), charged(batch.costs, node.index):
            result = None if pixels is None else operator.express(branch, pixels)
        if result is None or (result is pixels and result.in_memory):  # `run` passes the input on without a copy
            return False
        self._defer(batch, operator, [(node, branch)], result)
        return True

    def _postpone(self, batch: Batch, node: GraphNode) -> None:
        """Compute rows of a table only if something reads them."""
        (source,) = node.inputs
        if source not in batch.outputs:  # no sample takes its branch
            return
        index: Any = batch.outputs[source]

        def compute() -> TensorList:
            branch = self._in_branch(batch, node)
            assert branch is not None  # an operator of the branch reads the rows
            chosen = branch.indices_in(source)
            with error_context(node, branch):
                (rows,) = self._operators[node.index].run(
                    branch, [index if chosen is None else take_samples(index, chosen)]
                )
            return rows  # type: ignore[no-any-return]

        batch.outputs.postpone_rows(Edge(node.index), source, index, compute)

    def _express_rows(self, batch: Batch, group: TabulatedOperators, failed: list[tuple[str, Exception]]) -> list[int]:
        """Add outputs of a group as expressions; return the indices of its operators that are done."""
        if self._kernels is not None:
            self._kernels.open_queue()
        try:
            found = group.express(batch)
            failed += [("operators with tables of arguments", error) for error in group.take_failures()]
        except Exception as error:  # noqa: BLE001 - an operator that fails reports the error when it runs alone
            pass_on_interrupt(error)
            failed.append(("operators with tables of arguments", error))
            return []
        for operator, members, pixels in found:
            self._defer(batch, operator, members, pixels)
        return [node.index for _, members, _ in found for node, _ in members]

    def _express_all(self, batch: Batch, nodes: Sequence[GraphNode], failed: list[tuple[str, Exception]]) -> list[int]:
        """Add the outputs of equal operators as one expression; return their indices, or [] if each must run alone."""
        operator: PixelOperator = self._operators[nodes[0].index]
        if self._kernels is not None:
            self._kernels.open_queue()
        try:
            members = [(node, branch) for node in nodes if (branch := branch_batch(batch, node.branch)) is not None]
            if len(members) < 2:
                return []
            stacked = StackedBatch(members)
            pixels = stacked.source(computed=operator.traits.gathers) if stacked.size <= MAX_SAMPLES else None
            result = None if pixels is None else operator.express(stacked, pixels)
        except Exception as error:  # noqa: BLE001 - an operator that fails reports the error when it runs alone
            pass_on_interrupt(error)
            failed.append(("equal operators", error))
            return []
        if result is None or result is pixels:
            return []
        self._defer(batch, operator, members, result)
        return [node.index for node in nodes]

    def _defer(
        self, batch: Batch, operator: PixelOperator, members: Sequence[tuple[GraphNode, Batch]], pixels: PixelExpression
    ) -> None:
        """Add the outputs of operators as one expression, which is computed when one of them is read."""
        node, branch = members[0]
        edges = [Edge(member.index) for member, _ in members]
        memory_of = batch.output_memory if len(edges) == 1 else no_output_memory

        def compute(pixels: PixelExpression) -> TensorListGPU:
            with error_context(node, branch):
                return evaluate(pixels, operator.kernels, batch.stream, partial(memory_of, edges[0]))

        batch.outputs.defer(edges, [each.size for _, each in members], pixels, compute)
        if pixels.reads > 1 and any(self._readers[edge] > 1 for edge in edges):
            batch.outputs.compute(edges)  # once for all readers
