"""What the rules of the compiler know of the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dali_proxy.pipeline._compiler.plan import PlannedStep
from dali_proxy.pipeline._compiler.steps.fast_paths import FastPaths
from dali_proxy.pipeline._compiler.steps.step import FusedStep, Step
from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._graph.graph import Edge, Graph


@dataclass(frozen=True, eq=False)
class Scope:
    """The graph, and the step of its plan that a rule transforms.

    Attributes:
        graph: the graph.
        operators: implementations of the nodes, by index.
        readers: number of readers of each edge; the pipeline's outputs are readers, too.
        kernels: context of the launches; None without a GPU.
        seed: seed of the random numbers.
        fast_paths: counts the failures of fused steps.
        device: device of the phase.
        planned: the step of the plan.
        notes: for rules that don't apply to operators: the rule and the reason, as text for users.
    """

    graph: Graph
    operators: Mapping[int, Any]
    readers: Mapping[Edge, int]
    kernels: KernelContext | None
    seed: int
    fast_paths: FastPaths
    device: str
    planned: PlannedStep
    notes: list[str] = field(default_factory=list)

    def note(self, rule: type[FusedStep], reason: str) -> None:
        """Say why a rule doesn't apply to operators that it looked at."""
        self.notes.append(f"not {rule.title!r}: {reason}")


#: Returns steps with the same results, in an order in which each finds its inputs.
Rule = Callable[[list[Step], Scope], list[Step]]


def replaced(steps: Sequence[Step], scope: Scope, fused: Sequence[FusedStep]) -> list[Step]:
    """Return steps with fused ones in the place of their members, in an order in which each finds its inputs."""
    if not fused:
        return list(steps)
    for each in fused:
        each.fast_paths = scope.fast_paths
    members = {id(member) for each in fused for member in each.members}
    waiting = [*fused, *[step for step in steps if id(step) not in members]]
    waiting.sort(key=lambda step: min(node.index for node in step.nodes))
    missing = {node.index for step in waiting for node in step.nodes}
    needed = {
        id(step): {edge.node for node in step.nodes for edge in node.sources} - {node.index for node in step.nodes}
        for step in waiting
    }
    ordered: list[Step] = []
    while waiting:
        step = next(step for step in waiting if needed[id(step)].isdisjoint(missing))
        waiting.remove(step)
        missing.difference_update(node.index for node in step.nodes)
        ordered.append(step)
    return ordered
