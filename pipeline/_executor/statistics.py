"""Counters of an executor: the cost of its operators."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline._concurrency.cost import Cost, Costs
from pipeline._concurrency.locks import Level, new_lock
from pipeline._graph.graph import Graph, GraphNode

__all__ = ["Statistics", "StepTimes", "node_labels"]

# A step with several operators measures each of them once in this many runs: a measured run can take 1.5 times as long.
_MEASURED = 64


@dataclass
class StepTimes:
    """The cost of an operator, or of all operators of the same name that one line calls.

    Attributes:
        name: the operator's name, with the user's line if other lines call operators of the same name.
        batches: number of batches that it ran for.
        seconds: processor time of all threads. For an operator on the GPU, it is the time of the host.
        wall: elapsed time of these threads. It exceeds `seconds` when they wait, see `Cost`.
        device: "cpu", "gpu" or "mixed".
        function: "thread" or "processes" if it calls a Python function there, else empty.
    """

    name: str
    batches: int = 0
    seconds: float = 0.0
    wall: float = 0.0
    device: str = "cpu"
    function: str = ""

    def add(self, batches: int, processor: float, elapsed: float) -> None:
        """Add the cost of one of the operators for `batches` batches, in nanoseconds."""
        self.batches = max(self.batches, batches)
        self.seconds += processor / 1e9
        self.wall += elapsed / 1e9

    def report(self) -> dict[str, Any]:
        """Return all attributes but the name, as arguments of `dali_proxy.OperatorTimes`."""
        return {key: value for key, value in vars(self).items() if key != "name"}


class _Step:
    """The cost of a step. It is divided among operators that run together by their shares in the measured runs."""

    def __init__(self, nodes: tuple[GraphNode, ...]) -> None:
        self.nodes = nodes
        self.name = " → ".join(node.schema.display for node in nodes)
        self.positions = {node.index: position for position, node in enumerate(nodes)}
        self.begun = 0
        self.ended = 0
        self.undivided = Cost()
        # One row per operator: nanoseconds of processor time and of elapsed time.
        self.divided = np.zeros((len(nodes), 2))
        self.measured = np.zeros((len(nodes), 2))

    @property
    def is_divisible(self) -> bool:
        """Whether the shares of the operators are known."""
        return len(self.nodes) == 1 or bool(self.measured.any())

    def measure(self, costs: Costs) -> None:
        """Record the cost of each operator in one run."""
        if self.is_divisible:
            self.divide()
        for index, cost in costs.totals().items():
            self.measured[self.positions[index]] += cost

    def divide(self) -> None:
        """Divide the cost added since the last call. Divided costs stay as they are, so times never decrease."""
        totals = self.measured.sum(axis=0)
        shares = np.where(totals > 0, self.measured / np.maximum(totals, 1), 1 / len(self.nodes))
        self.divided += shares * self.undivided
        self.undivided = Cost()


class Statistics:
    """Counters of one executor. Reading them while batches run is safe.

    Args:
        graph: the graph of the executor.
        operators: implementations of the nodes, by index; more are added later.

    Attributes:
        batches: number of finished batches, including failed ones.
        failed: number of failed batches.
        labels: label of each operator in reports, by index.
    """

    def __init__(self, graph: Graph, operators: Mapping[int, Any]) -> None:
        self._operators = operators
        self._lock = new_lock(Level.LEAF, "executor statistics")
        self.labels = node_labels(graph)
        self._steps: dict[int, _Step] = {}  # by the index of the first node, which is in no other
        self.batches = 0
        self.failed = 0

    def begin(self, nodes: tuple[GraphNode, ...]) -> Costs | None:
        """Count the start of a step's run. Return a `Costs` if this run measures each operator, else None.

        The first run isn't measured, because it fills caches that later runs use. A few of the next runs are, so that
        short sessions have figures too.
        """
        if len(nodes) == 1:
            return None
        with self._lock:
            step = self._steps.get(nodes[0].index) or self._step(nodes)
            number, step.begun = step.begun, step.begun + 1
        is_early = 0 < number < _MEASURED and number.bit_count() == 1
        return Costs() if is_early or (number and number % _MEASURED == 0) else None

    def end(self, nodes: tuple[GraphNode, ...], cost: Cost, costs: Costs | None) -> None:
        """Count one run of a step.

        Args:
            nodes: the step's operators.
            cost: cost of the run.
            costs: result of `begin`.
        """
        with self._lock:
            step = self._steps.get(nodes[0].index) or self._step(nodes)
            step.ended += 1
            if costs is not None:
                step.measure(costs)
            if cost[1]:
                step.undivided = step.undivided.plus(cost)

    def batch(self, failed: bool) -> None:
        """Count one finished batch."""
        with self._lock:
            self.batches += 1
            self.failed += failed

    def operators(self) -> list[StepTimes]:
        """Return the cost of each operator. A step whose operators were never measured has a single entry."""
        found: dict[str, StepTimes] = {}
        with self._lock:
            for step in self._steps.values():
                if not step.is_divisible:
                    entry = found.setdefault(step.name, StepTimes(step.name, device=step.nodes[0].device))
                    entry.add(step.ended, step.undivided.processor, step.undivided.elapsed)
                    continue
                step.divide()
                for node, (processor, elapsed) in zip(step.nodes, step.divided.tolist(), strict=True):
                    label = self.labels[node.index]
                    times = found.setdefault(label, StepTimes(label, device=node.device, function=self._place(node)))
                    times.add(step.ended, processor, elapsed)
        return list(found.values())

    def _place(self, node: GraphNode) -> str:
        """Return where an operator calls a Python function; empty if it has none."""
        if node.schema.argument("function") is None:
            return ""
        return "processes" if getattr(self._operators.get(node.index), "runs_in_processes", False) else "thread"

    def _step(self, nodes: tuple[GraphNode, ...]) -> _Step:
        step = self._steps.get(nodes[0].index)
        if step is None:
            step = self._steps[nodes[0].index] = _Step(nodes)
        return step


def node_labels(graph: Graph) -> dict[int, str]:
    """Return a label for each node: its operator's name, plus the line if other lines call it too."""
    lines = defaultdict(set)
    for node in graph.nodes:
        lines[node.display].add((node.location.file, node.location.line))
    return {
        node.index: f"{node.display} ({os.path.basename(node.location.file)}:{node.location.line})"
        if len(lines[node.display]) > 1 and node.location.line
        else node.display
        for node in graph.nodes
    }
