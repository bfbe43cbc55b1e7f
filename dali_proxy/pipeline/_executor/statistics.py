"""What the batches of an executor cost: time of its operators and of each phase, and memory that a cache would need."""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dali_proxy.pipeline._cache.memory_tier import OVERHEAD
from dali_proxy.pipeline._compiler.plan import PartStep, Phase, Plan
from dali_proxy.pipeline._compiler.steps.step import Steps
from dali_proxy.pipeline._concurrency.cost import MEASURED_CHEAP, Cost, Costs
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._declaration.schema import Role
from dali_proxy.pipeline._graph.graph import Edge, Graph, GraphNode
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline.tensors.cpu import Array

# A step with several units measures each of them once in this many runs: a measured run can take 1.5 times as long.
_MEASURED = 64
# Processor time of a phase, in nanoseconds, below which waking another thread costs more than the overlap saves.
_CHEAP = 1_000_000
_CHEAP_ON_GPU = 800_000  # launches wait for the driver, too
# Weight of a batch in the moving average of that time.
_WEIGHT = 0.2
# Each of so many first batches of a phase is measured. Then, if a batch takes less than this elapsed time in
# nanoseconds, one of so many is: the clock of a thread takes several microseconds on virtual machines.
_EARLY = 16
_SHORT, _MEASURED_SHORT = 10_000_000, 4
# The sizes of values are measured for one batch in so many.
_MEASURED_SIZES = 64


@dataclass
class StepTimes:
    """The cost of an operator, of operators that run as one, or of all operators of the same name that one line calls.

    Attributes:
        name: the operator's name, with the user's line if other lines call operators of the same name; the names of
            operators that run as one.
        batches: number of batches that it ran for.
        seconds: processor time of all threads. For an operator on the GPU, it is the time of the host.
        wall: elapsed time of these threads. It exceeds `seconds` when they wait, see `Cost`.
        device: "cpu", "gpu" or "mixed".
        function: "thread" or "processes" if it calls a Python function there, else empty.
        cacheable: whether a cache of decoded samples may have its results.
    """

    name: str
    batches: int = 0
    seconds: float = 0.0
    wall: float = 0.0
    device: str = "cpu"
    function: str = ""
    cacheable: bool = False

    def add(self, batches: int, processor: float, elapsed: float) -> None:
        """Add the cost of one of the operators for `batches` batches, in nanoseconds."""
        self.batches = max(self.batches, batches)
        self.seconds += processor / 1e9
        self.wall += elapsed / 1e9

    def report(self) -> dict[str, Any]:
        """Return all attributes but the name, as arguments of `dali_proxy.OperatorTimes`."""
        return {key: value for key, value in vars(self).items() if key != "name"}


def added(operators: Iterable[StepTimes]) -> list[StepTimes]:
    """Return the sums of the costs of operators that have the same name, such as those of several variants."""
    by_name: dict[str, StepTimes] = {}
    for times in operators:
        known = by_name.setdefault(times.name, replace(times, batches=0, seconds=0.0, wall=0.0))
        known.batches += times.batches
        known.seconds += times.seconds
        known.wall += times.wall
    return list(by_name.values())


class _Step:
    """The cost of a step. It is divided among its units by their shares in the measured runs."""

    def __init__(self, step: Steps) -> None:
        self.nodes, self.units = step.nodes, step.units
        self.name = _name(step.nodes)
        self.rows = {node.index: row for row, unit in enumerate(self.units) for node in unit}
        self.begun = 0
        self.ended = 0
        self.launches = self.nbytes = 0  # of the last run in which they were measured
        self.processor = self.elapsed = 0  # undivided
        # One row per unit: nanoseconds of processor time and of elapsed time.
        self.divided = np.zeros((len(self.units), 2))
        self.measured = np.zeros((len(self.units), 2))

    @property
    def is_divisible(self) -> bool:
        """Whether the shares of the units are known."""
        return len(self.units) == 1 or bool(self.measured.any())

    def measure(self, costs: Costs) -> None:
        """Record the cost of each unit in one run."""
        if self.is_divisible:
            self.divide()
        for index, cost in costs.totals().items():
            self.measured[self.rows[index]] += cost

    def divide(self) -> None:
        """Divide the cost added since the last call. Divided costs stay as they are, so times never decrease."""
        totals = self.measured.sum(axis=0)
        shares = np.where(totals > 0, self.measured / np.maximum(totals, 1), 1 / len(self.units))
        self.divided += shares * (self.processor, self.elapsed)
        self.processor = self.elapsed = 0


class Statistics:
    """Counters of one executor. Reading them while batches run is safe.

    Args:
        graph: the graph of the executor.
        operators: implementations of the nodes, by index.
        steps: the steps that run.
        cacheable: indices of the operators whose results a cache may have.

    Attributes:
        batches: number of finished batches, including failed ones.
        failed: number of failed batches.
        labels: by index of an operator, the name of its `StepTimes`.
    """

    def __init__(
        self, graph: Graph, operators: Mapping[int, Any], steps: Iterable[Steps], cacheable: Container[int] = ()
    ) -> None:
        self._operators, self._cacheable = operators, cacheable
        self._lock = new_lock(Level.LEAF, "executor statistics")
        self._steps = {step: _Step(step) for step in steps}
        alone = [(node,) for node in graph.nodes]  # such as constants, which no step computes
        self.labels = _labels(alone) | _labels([unit for step in self._steps for unit in step.units])
        self.batches = 0
        self.failed = 0

    def begin(self, step: Steps) -> Costs | None:
        """Count the start of a step's run. Return a `Costs` if this run measures each unit, else None.

        The first run isn't measured, because it fills caches that later runs use. A few of the next runs are, so that
        short sessions have figures too.
        """
        if len(step.units) == 1:
            return None
        with self._lock:
            counted = self._steps[step]
            number, counted.begun = counted.begun, counted.begun + 1
        is_early = 0 < number < _MEASURED and number.bit_count() == 1
        return Costs() if is_early or (number and number % _MEASURED == 0) else None

    def end(self, step: Steps, cost: Cost, costs: Costs | None, launches: int = 0, nbytes: int | None = None) -> None:
        """Count one run of a step.

        Args:
            step: the step.
            cost: cost of the run.
            costs: result of `begin`.
            launches: number of launches of kernels.
            nbytes: size of the step's results; None if it wasn't measured.
        """
        counted = self._steps[step]
        with self._lock:
            counted.ended += 1
            if costs is not None:
                counted.measure(costs)
            if cost[1]:
                counted.processor += cost[0]
                counted.elapsed += cost[1]
                counted.launches = launches
            if nbytes is not None:
                counted.nbytes = nbytes

    def describe(self, step: Steps) -> list[str]:
        """Return lines about a step, for users: what a run of it takes, and what that of its units takes."""
        counted = self._steps[step]
        with self._lock:
            if not counted.ended:
                return []
            if counted.is_divisible:
                counted.divide()
            times = (counted.divided[:, 0] / counted.ended / 1000).tolist()
            total = sum(times) + counted.processor / counted.ended / 1000
            launches, nbytes = counted.launches, counted.nbytes
        shown = f"{total:.0f} µs of the host for each batch, {launches} launches, {nbytes} bytes of results"
        rows = zip(times, counted.units, strict=True) if len(times) > 1 and counted.is_divisible else ()
        return [shown, *[f"{time:.0f} µs: {_name(unit)}" for time, unit in rows]]

    def batch(self, failed: bool) -> None:
        """Count one finished batch."""
        with self._lock:
            self.batches += 1
            self.failed += failed

    def operators(self) -> list[StepTimes]:
        """Return the cost of each unit. A step whose units were never measured has a single entry."""
        found: dict[str, StepTimes] = {}
        with self._lock:
            for step in self._steps.values():
                if not step.ended:
                    continue
                if not step.is_divisible:
                    entry = found.setdefault(step.name, StepTimes(step.name, device=step.nodes[0].device))
                    entry.add(step.ended, step.processor, step.elapsed)
                    continue
                step.divide()
                for unit, (processor, elapsed) in zip(step.units, step.divided.tolist(), strict=True):
                    node = unit[0]
                    label = self.labels[node.index]
                    new = StepTimes(label, device=node.device, function=self._place(node))
                    new.cacheable = all(each.index in self._cacheable for each in unit)
                    times = found.setdefault(label, new)
                    times.add(step.ended, processor, elapsed)
        return list(found.values())

    def _place(self, node: GraphNode) -> str:
        """Return where an operator calls a Python function; empty if it has none."""
        if node.schema.argument("function") is None:
            return ""
        return "processes" if getattr(self._operators.get(node.index), "runs_in_processes", False) else "thread"


def _name(unit: Sequence[GraphNode]) -> str:
    return unit[0].display if len(unit) == 1 else " → ".join(node.schema.display for node in unit)


def _labels(units: Collection[Sequence[GraphNode]]) -> dict[int, str]:
    """Return the name of each operator's unit, plus the line if units from other lines have the same name."""
    lines = defaultdict(set)
    for unit in units:
        lines[_name(unit)].add((unit[0].location.file, unit[0].location.line))
    labels: dict[int, str] = {}
    for unit in units:
        name, place = _name(unit), unit[0].location
        if len(lines[name]) > 1 and place.line:
            name = f"{name} ({os.path.basename(place.file)}:{place.line})"
        labels |= {node.index: name for node in unit}
    return labels


class PhaseCosts:
    """Moving averages of what a batch costs in the phases of a plan.

    Args:
        plan: the plan.
        operators: implementations of the nodes, by index.

    Attributes:
        is_cheap: whether a phase takes less time than to wake another thread, as far as it was measured, by its number.
    """

    def __init__(self, plan: Plan, operators: Mapping[int, Any]) -> None:
        self._on_gpu = [phase.on_gpu for phase in plan.phases]
        #: Nanoseconds of processor time, by number of the phase, for phases that don't wait.
        self._costs: dict[int, float] = {
            number: _CHEAP for number, phase in enumerate(plan.phases) if not _may_wait(phase, operators)
        }
        #: Nanoseconds of elapsed time, and the numbers of the runs, by number of the phase.
        self._elapsed = [float(_SHORT)] * len(plan.phases)
        self._runs = [itertools.count() for _ in plan.phases]
        self.is_cheap = [False] * len(plan.phases)

    def weight(self, number: int) -> int:
        """Return for how many batches the measurement of the next one counts; 0 for a batch that isn't measured.

        Args:
            number: number of the phase.
        """
        run = next(self._runs[number])
        if self.is_cheap[number]:
            every = MEASURED_CHEAP
        else:
            every = 1 if run < _EARLY or self._elapsed[number] >= _SHORT else _MEASURED_SHORT
        return 0 if run % every else every

    def add(self, number: int, cost: Cost) -> None:
        """Add the cost of a batch in a phase."""
        self._elapsed[number] += _WEIGHT * (cost.elapsed - self._elapsed[number])
        if number in self._costs:
            processor = min(cost.processor, 2 * _CHEAP)  # a busy machine causes outliers
            self._costs[number] += _WEIGHT * (processor - self._costs[number])
            self.is_cheap[number] = self._costs[number] < (_CHEAP_ON_GPU if self._on_gpu[number] else _CHEAP)


class ValueSizes:
    """Adds up the sizes of some outputs of a graph. Any thread may add sizes.

    Args:
        edges: the outputs, which a cache would hold.

    Example:
        >>> import numpy as np
        >>> from dali_proxy.pipeline.tensors.cpu import TensorListCPU
        >>> sizes = ValueSizes([Edge(0)])
        >>> sizes.add_batch(Edge(0), TensorListCPU([np.zeros(1000), np.zeros(2000)]))
        >>> sizes.mean > 1500 * 8
        True
    """

    def __init__(self, edges: Iterable[Edge]) -> None:
        self._sums = {edge: [0, 0] for edge in edges}  # bytes, samples
        self._lock = new_lock(Level.LEAF, "value sizes")

    def measures(self, number: int) -> bool:
        """Return whether to measure the batch with a number: some of the first ones, and one of many later ones."""
        return bool(self._sums) and (number.bit_count() < 2 or number % _MEASURED_SIZES == 0)

    @property
    def mean(self) -> float:
        """Mean number of bytes that a cache needs for a sample; 0 if it isn't known."""
        with self._lock:
            known = [nbytes / samples for nbytes, samples in self._sums.values() if samples]
        return sum(known) + OVERHEAD if known else 0.0

    def add_batch(self, edge: Edge, value: TensorList) -> None:
        """Add the sizes of an output."""
        if edge in self._sums:
            self._add(edge, value.nbytes, len(value))

    def add_samples(self, edge: Edge, samples: Sequence[Array]) -> None:
        """Add the sizes of samples that a chain of operators computed and dropped."""
        if edge in self._sums:
            self._add(edge, sum([sample.nbytes for sample in samples]), len(samples))

    def _add(self, edge: Edge, nbytes: int, samples: int) -> None:
        with self._lock:
            sums = self._sums[edge]
            sums[0] += nbytes
            sums[1] += samples


def _may_wait(phase: Phase, operators: Mapping[int, Any]) -> bool:
    """Return whether a phase may wait for files, the user's code, a decoder, the GPU, or values of the cache."""
    if any(isinstance(step, PartStep) for step in phase.steps):
        return True
    nodes = [node for step in phase.steps for node in step.nodes]
    if phase.device == "mixed" and any(node.schema.role is not Role.COPY_TO_GPU for node in nodes):
        return True
    return any(operators[node.index].traits.waits for node in nodes)
