"""Counters of an executor: what its operators cost."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline._concurrency.cost import Cost, Costs
from pipeline._concurrency.locks import Level, new_lock
from pipeline._graph.graph import Graph, GraphNode

__all__ = ["Statistics", "StepTimes"]

# One run in so many of a step with several operators has a clock around each, which can take half as long again.
_MEASURED = 64


@dataclass
class StepTimes:
    """What an operator has cost, or all operators of its name that are called in one line.

    Attributes:
        name: the operator's name, with the user's line where other lines have the same name.
        batches: that it ran for.
        seconds: processor time, of all threads. Of an operator on the GPU, it is what the host spent.
        wall: time that passed for these threads meanwhile: it is longer where they wait, see `Cost`.
        device: "cpu", "gpu" or "mixed".
    """

    name: str
    batches: int = 0
    seconds: float = 0.0
    wall: float = 0.0
    device: str = "cpu"

    def add(self, batches: int, processor: float, elapsed: float) -> None:
        """Add what one of the operators cost in so many batches, in nanoseconds."""
        self.batches = max(self.batches, batches)
        self.seconds += processor / 1e9
        self.wall += elapsed / 1e9

    def report(self) -> dict[str, Any]:
        """Return all but the name, as `dali_proxy.OperatorTimes` takes it."""
        return {key: value for key, value in vars(self).items() if key != "name"}


class _Step:
    """What a step has cost. Operators that run together share it as they did when each was measured."""

    def __init__(self, nodes: tuple[GraphNode, ...]) -> None:
        self.nodes = nodes
        self.name = " → ".join(node.schema.display for node in nodes)
        self.places = {node.index: place for place, node in enumerate(nodes)}
        self.begun = 0
        self.ended = 0
        self.undivided = Cost()
        # A row for each operator: nanoseconds of the processor, and elapsed ones.
        self.divided = np.zeros((len(nodes), 2))
        self.measured = np.zeros((len(nodes), 2))

    @property
    def is_divisible(self) -> bool:
        """Whether it is known which operator costs what."""
        return len(self.nodes) == 1 or bool(self.measured.any())

    def measure(self, costs: Costs) -> None:
        """Take note of what each operator cost in one run."""
        if self.is_divisible:
            self.divide()
        for index, cost in costs.totals().items():
            self.measured[self.places[index]] += cost

    def divide(self) -> None:
        """Divide what was added since it was last called; what is divided stays so, and times never go down."""
        totals = self.measured.sum(axis=0)
        shares = np.where(totals > 0, self.measured / np.maximum(totals, 1), 1 / len(self.nodes))
        self.divided += shares * self.undivided
        self.undivided = Cost()


class Statistics:
    """Counters of one executor. Reading them while batches run is safe.

    Args:
        graph: its operators.

    Attributes:
        batches: batches that ended, failed ones included.
        failed: batches that failed.
    """

    def __init__(self, graph: Graph) -> None:
        self._lock = new_lock(Level.LEAF, "executor statistics")
        self._labels = _labels(graph)
        self._steps: dict[int, _Step] = {}  # by the index of the first node, which is in no other
        self.batches = 0
        self.failed = 0

    def begin(self, nodes: tuple[GraphNode, ...]) -> Costs | None:
        """Take note that a step begins to run; returns where to add what each operator costs, if that is wanted.

        The first run isn't measured: it makes what later ones find. Then a few are, so that short runs have numbers.
        """
        if len(nodes) == 1:
            return None
        with self._lock:
            step = self._step(nodes)
            number, step.begun = step.begun, step.begun + 1
        is_early = 0 < number < _MEASURED and number.bit_count() == 1
        return Costs() if is_early or (number and number % _MEASURED == 0) else None

    def end(self, nodes: tuple[GraphNode, ...], cost: Cost, costs: Costs | None) -> str:
        """Count one run of a step; returns the step's name.

        Args:
            nodes: its operators.
            cost: what the run cost.
            costs: what `begin` returned.
        """
        with self._lock:
            step = self._step(nodes)
            step.ended += 1
            if costs is not None:
                step.measure(costs)
            step.undivided = step.undivided.plus(cost)
            return step.name

    def batch(self, failed: bool) -> None:
        """Count one batch that ended."""
        with self._lock:
            self.batches += 1
            self.failed += failed

    def operators(self) -> list[StepTimes]:
        """Return what each operator has cost. A step whose operators were never measured stays in one piece."""
        found: dict[str, StepTimes] = {}
        with self._lock:
            for step in self._steps.values():
                if not step.is_divisible:
                    whole = found.setdefault(step.name, StepTimes(step.name, device=step.nodes[0].device))
                    whole.add(step.ended, step.undivided.processor, step.undivided.elapsed)
                    continue
                step.divide()
                for node, (processor, elapsed) in zip(step.nodes, step.divided.tolist(), strict=True):
                    label = self._labels[node.index]
                    found.setdefault(label, StepTimes(label, device=node.device)).add(step.ended, processor, elapsed)
        return list(found.values())

    def _step(self, nodes: tuple[GraphNode, ...]) -> _Step:
        step = self._steps.get(nodes[0].index)
        if step is None:
            step = self._steps[nodes[0].index] = _Step(nodes)
        return step


def _labels(graph: Graph) -> dict[int, str]:
    """Return what to call each node: its operator, and the line where others of the same name are called elsewhere."""
    lines = defaultdict(set)
    for node in graph.nodes:
        lines[node.display].add((node.location.file, node.location.line))
    return {
        node.index: f"{node.display} ({os.path.basename(node.location.file)}:{node.location.line})"
        if len(lines[node.display]) > 1 and node.location.line
        else node.display
        for node in graph.nodes
    }
