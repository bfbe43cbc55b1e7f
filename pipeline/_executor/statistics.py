"""Counters of an executor: how long operators took, how much memory their outputs have."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline._graph.graph import Edge, Graph, GraphNode
from pipeline._operator_api.request import TensorList

__all__ = ["Statistics", "StepTimes"]


@dataclass
class StepTimes:
    """Times of one step: an operator, or a chain of operators that run together.

    Attributes:
        name: names of its operators.
        batches: how often it ran.
        seconds: wall time in all.
        largest_output: bytes of its largest batch of outputs.
    """

    name: str
    batches: int = 0
    seconds: float = 0.0
    largest_output: int = 0


class Statistics:
    """Counters of one executor. Reading them while batches run is safe.

    Args:
        graph: its operators.

    Attributes:
        batches: batches that ended, failed ones included.
        failed: batches that failed.
        seconds: sum over batches of the time from start to end.
    """

    def __init__(self, graph: Graph) -> None:
        self._lock = threading.Lock()
        self._steps: dict[tuple[int, ...], StepTimes] = {}
        self.batches = 0
        self.failed = 0
        self.seconds = 0.0

    def step(self, nodes: tuple[GraphNode, ...], values: Mapping[Edge, TensorList], seconds: float) -> str:
        """Count one run of a step; returns the step's name."""
        made = sum(values[edge].nbytes for edge in (Edge(node.index) for node in nodes) if edge in values)
        with self._lock:
            key = tuple(node.index for node in nodes)
            times = self._steps.get(key)
            if times is None:
                times = self._steps[key] = StepTimes(" → ".join(node.schema.display for node in nodes))
            times.batches += 1
            times.seconds += seconds
            times.largest_output = max(times.largest_output, made)
            return times.name

    def batch(self, seconds: float, failed: bool) -> None:
        """Count one batch that ended."""
        with self._lock:
            self.batches += 1
            self.failed += failed
            self.seconds += seconds

    def steps(self) -> list[StepTimes]:
        """Return a copy of the times of all steps."""
        with self._lock:
            return [StepTimes(**vars(times)) for times in self._steps.values()]
