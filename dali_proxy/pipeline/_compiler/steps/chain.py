"""Run a chain of operators on the CPU, one sample per task."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dali_proxy.pipeline._compiler.plan import SampleStep
from dali_proxy.pipeline._compiler.steps.step import Step, check_count, check_sample
from dali_proxy.pipeline._concurrency.cost import MEASURED_CHEAP, Cost, charged, spent
from dali_proxy.pipeline._graph.graph import Edge, GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.branch_batches import aligned_samples, branch_batch
from dali_proxy.pipeline._operator_api.error_context import describe_failure, error_context
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline.errors import OperatorError, PipelineError, SampleFailure
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

# Processor time of all samples, in nanoseconds, below which the thread of the batch computes them itself.
_CHEAP = 500_000
# Processor time of a sample up to which that thread computes all samples if it takes less time than the pool. Threads
# that compute for such a short time mostly wait for the GIL, and pass it on at a high cost.
_SHORT = 150_000
# Seconds above which a trace shows the time of a sample: to record it takes about a microsecond.
_SHOWN = 50e-6
# Mean processor time of a sample, in nanoseconds, below which a trace doesn't even measure single samples.
_BRIEF = 10_000
# Size in bytes of the inputs up to which elementwise operators process a batch in one call.
_SMALL = 1 << 20


class ChainStep(Step):
    """Runs operators on the CPU one after another for each sample."""

    def __init__(self, planned: SampleStep, operators: Sequence[SampleOperator[Any]]) -> None:
        super().__init__(planned.nodes)
        self.units = tuple([(node,) for node in self.nodes])
        self.operators = tuple(operators)
        self.results = planned.results
        self._members = {node.index for node in planned.nodes}
        results = {edge.node for edge in planned.results}
        readers: dict[int, list[SampleOperator[Any]]] = {}
        for operator in operators:
            for edge in operator.node.inputs:
                readers.setdefault(edge.node, []).append(operator)
        for operator in reversed(operators):
            if operator.node.schema.merges and operator.node.index in results:  # a merge returns its inputs
                results.update(edge.node for edge in operator.node.inputs)
            behind = readers.get(operator.node.index, ())
            operator.inner = operator.node.index not in results and all(each.traits.any_strides for each in behind)
        self._elementwise = all(operator.traits.elementwise and not operator.node.branch for operator in operators)
        self._waits = any(operator.traits.waits for operator in operators)
        #: Whether the thread of the batch computes the samples, because other threads take longer.
        self._runs_here = False
        #: Whether that depends on the time that both ways take, and this time: of the pool, and of the batch's thread.
        self._compares = False
        self._elapsed = [0, 0]
        #: Whether a trace leaves the samples out, because they are known to take little time.
        self._is_brief = False

    def run(self, batch: Batch) -> None:
        """Compute the chain's results and store them in the batch.

        Raises:
            OperatorError: samples failed. Every sample was tried; `failures` lists the failed ones.
        """
        chain = _ChainOfBatch(self, batch)
        if not (self._elementwise and chain.run_batch()):
            task = chain.run_sample if batch.trace is None or self._is_brief else chain.run_sample_traced
            is_due = batch.number % MEASURED_CHEAP == 0
            here = self._runs_here ^ (self._compares and (is_due or not all(self._elapsed)))
            is_measured = is_due or self._compares or not here
            begin, started = spent() if is_measured else Cost(), time.perf_counter_ns()
            errors = (batch.pool.run_here if here else batch.pool.run)(task, batch.size)
            if errors:
                raise _first_failure(batch, errors)
            if is_measured:
                elapsed = time.perf_counter_ns() - started
                self._learn(here, spent().minus(begin).processor, elapsed, batch.size)
        chain.publish()

    def _learn(self, here: bool, processor: int, elapsed: int, size: int) -> None:
        """Choose the threads of the next batches, given the times of one batch in nanoseconds, and its size."""
        self._is_brief = processor < size * _BRIEF and not self._waits
        self._elapsed[here] = (self._elapsed[here] + elapsed) // 2 if self._elapsed[here] else elapsed
        self._compares = _CHEAP <= processor < size * _SHORT and not self._waits
        in_pool, in_one = self._elapsed
        self._runs_here = 0 < in_one <= in_pool if self._compares else processor < _CHEAP


class _StepError(Exception):
    """Carries the failed node from the task to the batch."""

    def __init__(self, node: GraphNode) -> None:
        super().__init__(node.display)
        self.node = node


class _Result(NamedTuple):
    """The destination of an output of a chain's operator.

    Attributes:
        register: index among the values that a task passes from operator to operator.
        dense: array of the whole batch, if it was allocated in advance.
        samples: list of the samples, if they are results of the chain or their sizes are recorded.
    """

    register: int
    dense: Array | None
    samples: list[Array] | None


class _Link(NamedTuple):
    """An operator of a chain, prepared for one batch.

    Attributes:
        node: the operator.
        run: function that computes a sample.
        state: first argument of `run`.
        indices: index of each of the batch's samples in the operator's branch, or -1; None if the branch has them all.
        sources: for each input, either all its samples, or the register in which the task stores its sample. Inputs of
            a merge that no sample has use the register `_EMPTY`, which stays None.
        out: array for the only output, if it was allocated in advance.
        dtype: dtype of the only output, if it is known.
        shape: shape of the only output, if it is known.
        specs: the operator's description of its outputs.
        results: destination of each output.
    """

    node: GraphNode
    run: Callable[[Any, int, Sequence[Array], Array | None], Array | tuple[Array, ...]]
    state: Any
    indices: Sequence[int] | None
    sources: tuple[tuple[Sequence[Array] | None, int], ...]
    out: Array | None
    dtype: np.dtype[Any] | None
    shape: tuple[int, ...] | None
    specs: tuple[OutputSpec, ...]
    results: tuple[_Result, ...]


# The description of a merge's inputs that no sample has, and the register of their values.
_ABSENT = OutputSpec()
_EMPTY = -1


class _ChainOfBatch:
    """The chain, prepared for one batch: the states of its operators and the destinations of their outputs."""

    def __init__(self, chain: ChainStep, batch: Batch) -> None:
        self._batch = batch
        self._results = frozenset(chain.results)
        self._specs: dict[Edge, OutputSpec] = {}
        #: For edges outside the chain: their samples, at their indices in the batch.
        self._outer: dict[Edge, Sequence[Array]] = {}
        #: For results allocated in advance: the array of the whole batch, and the owner of its memory.
        self._dense: dict[Edge, tuple[Array, Any]] = {}
        #: For other results: the list of their samples.
        self._ragged: dict[Edge, list[Array]] = {}
        #: For edges that only the chain reads: their samples, if their sizes are recorded.
        self._passing: dict[Edge, list[Array]] = {}
        #: For edges of its operators: the register in which a task stores the sample.
        self._registers: dict[Edge, int] = {}
        self._links: list[_Link] = []
        for node, operator in zip(chain.nodes, chain.operators, strict=True):
            self._link(node, operator, chain._members)

    def _link(self, node: GraphNode, operator: SampleOperator[Any], members: set[int]) -> None:
        with error_context(node, self._batch):
            branch = branch_batch(self._batch, node.branch)
        if branch is None:
            return  # its branch has no samples
        with error_context(node, branch):
            for edge in node.inputs:
                if edge.node not in members and edge not in self._outer and edge in self._batch.outputs:
                    self._take(edge)
            inputs = [self._specs.get(edge, _ABSENT) for edge in node.inputs]
            with charged(self._batch.costs, node.index):
                state, outputs = operator.start(branch, inputs)
            check_count(node, outputs, "start() described")
        indices = None if branch.indices is None else branch.indices.tolist()
        sources = tuple((self._outer.get(edge), self._registers.get(edge, _EMPTY)) for edge in node.inputs)
        results = tuple(self._result(Edge(node.index, index), spec) for index, spec in enumerate(outputs))
        only = outputs[0] if len(results) == 1 else _ABSENT
        dense = results[0].dense if len(results) == 1 else None
        costs = self._batch.costs
        run = operator.run if costs is None else costs.timed(node.index, operator.run)
        self._links.append(
            _Link(node, run, state, indices, sources, dense, only.dtype, only.shape, tuple(outputs), results)
        )

    def _result(self, edge: Edge, spec: OutputSpec) -> _Result:
        """Choose the destination of an output."""
        self._specs[edge] = spec
        register = self._registers[edge] = len(self._registers)
        if edge in self._results:
            size = self._branch(edge).size
            if spec.shape is not None and spec.dtype is not None:
                self._dense[edge] = self._batch.allocate(edge, (size, *spec.shape), spec.dtype)
                return _Result(register, self._dense[edge][0], None)
            self._ragged[edge] = [None] * size  # type: ignore[list-item]
            return _Result(register, None, self._ragged[edge])
        if self._batch.memory is not None:
            self._passing[edge] = [None] * self._batch.size  # type: ignore[list-item]
            return _Result(register, None, self._passing[edge])
        return _Result(register, None, None)

    def _take(self, edge: Edge) -> None:
        value = self._batch.outputs[edge]
        assert isinstance(value, TensorListCPU)
        dense = value.dense
        if value.ndim == 0 or edge in self._batch.branches:
            self._outer[edge] = aligned_samples(self._batch, edge)
        else:
            self._outer[edge] = value.samples
        shape = None if dense is None else dense.shape[1:]
        self._specs[edge] = OutputSpec(value.layout(), shape, value.samples[0].dtype)

    def _branch(self, edge: Edge) -> Batch:
        branch = branch_batch(self._batch, self._batch.branches.get(edge, ()))
        assert branch is not None
        return branch

    def run_batch(self) -> bool:
        """Run elementwise operators on the batch as one sample.

        Returns:
            False if the inputs are ragged or large, or if an operator failed: the caller runs the samples.
        """
        if self._batch.memory is not None:
            return False
        arrays: dict[Edge, Array] = {}
        for edge in self._outer:
            value = self._batch.outputs[edge]
            assert isinstance(value, TensorListCPU)
            array = value.small_array()
            if array is None or array.nbytes > _SMALL:
                return False
            arrays[edge] = array
        for link in self._links:
            edge, spec = Edge(link.node.index), link.specs[0]
            if spec.shape is None:
                return False
            try:
                result = link.run(link.state, 0, [arrays[source] for source in link.node.inputs], link.out)
                shape = (self._batch.size, *spec.shape)
                arrays[edge] = check_sample(result, replace(spec, shape=shape))
            except Exception:  # noqa: BLE001 - the error is raised again, with its sample
                return False
            if link.out is not None and arrays[edge] is not link.out:
                link.out[...] = arrays[edge]
        return True

    def run_sample_traced(self, sample: int) -> None:
        """Call `run_sample`, and record its time and thread in the trace."""
        trace = self._batch.trace
        assert trace is not None
        if trace.push is not None:
            trace.push("sample")
        begin = time.perf_counter()
        try:
            self.run_sample(sample)
        finally:
            end = time.perf_counter()
            if end - begin > _SHOWN:
                trace.add(f"sample {sample}", self._batch.number, begin, end)
            if trace.pop is not None:
                trace.pop()

    def run_sample(self, sample: int) -> None:
        # This runs once per sample, under the GIL that all threads share: all decisions per batch are in the links.
        values: list[Any] = [None] * (len(self._registers) + 1)  # the last one is `_EMPTY`
        for node, run, state, indices, sources, out, dtype, shape, specs, results in self._links:
            index = sample if indices is None else indices[sample]
            if index < 0:
                continue  # the sample isn't in the operator's branch
            inputs = [values[register] if outer is None else outer[sample] for outer, register in sources]
            try:
                target = None if out is None else out[index, ...]
                result: Any = run(state, index, inputs, target)
                if target is None:
                    right = (
                        type(result) is np.ndarray
                        and result.dtype is dtype
                        and (shape is None or result.shape == shape)
                    )
                else:
                    right = result is target
                if not right:
                    self._keep_checked(node, index, result, values, specs, results)
                    continue
                register, _, samples = results[0]
                values[register] = result
                if samples is not None:
                    samples[index] = result
            except BaseException as error:
                raise _StepError(node) from error

    @staticmethod
    def _keep_checked(
        node: GraphNode,
        index: int,
        result: Any,
        values: list[Any],
        specs: Sequence[OutputSpec],
        results: Sequence[_Result],
    ) -> None:
        """Check and store several outputs of a sample, or an output that needs a check or a conversion."""
        outputs = result if type(result) is tuple else (result,)
        check_count(node, outputs, "run() returned")
        for spec, (register, dense, samples), output in zip(specs, results, outputs, strict=True):
            array = values[register] = check_sample(output, spec)
            if samples is not None:
                samples[index] = array
            elif dense is not None:
                dense[index] = array

    def publish(self) -> None:
        for edge, (array, owner) in self._dense.items():
            result = TensorListCPU(array, self._specs[edge].layout)
            result.owner = owner
            self._batch.keep(edge, result)
        for edge, samples in self._ragged.items():
            try:
                self._batch.keep(edge, TensorListCPU(samples, self._specs[edge].layout))
            except PipelineError as error:
                node = next(link.node for link in self._links if link.node.index == edge.node)
                raise describe_failure(node, error) from error
        if self._batch.memory is not None:
            for edge, samples in self._passing.items():
                self._batch.memory.add_samples(edge, samples[: self._branch(edge).size])


def _first_failure(batch: Batch, errors: list[tuple[int, BaseException]]) -> OperatorError:
    failures: list[SampleFailure] = []
    node: GraphNode | None = None
    for sample, error in errors:
        if not isinstance(error, _StepError):
            raise error  # an internal error, not a failure of an operator
        cause = error.__cause__
        assert cause is not None
        if node is None:
            node = error.node
        failures.append(SampleFailure(sample, cause))
    assert node is not None
    found = batch.in_full_batch(failures)
    first = describe_failure(node, failures[0].error, found, batch.source_of(node, found))
    first.__cause__ = failures[0].error
    return first
