"""Find the random operators of a step whose numbers are drawn together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pipeline._compiler.plan import BatchStep
from pipeline._graph.graph import GraphNode
from pipeline._operator_api.joint_draws import JointDraws, NumberDraw

__all__ = ["joint_draws"]


def joint_draws(steps: Iterable[BatchStep], operators: Mapping[int, Any], seed: int) -> dict[int, JointDraws]:
    """Return the draws of each step, by the ``id`` of the step.

    Args:
        steps: steps of a plan.
        operators: implementations of the nodes, by index.
        seed: seed of the pipeline.
    """
    found: dict[int, JointDraws] = {}
    for step in steps:
        draws: list[tuple[GraphNode, NumberDraw]] = []
        for node in step.nodes:
            find = getattr(operators[node.index], "number_draw", None)
            draw = None if find is None or node.device != "cpu" else find()
            if draw is not None:
                draws.append((node, draw))
        if draws:
            found[id(step)] = JointDraws(draws, seed)
    return found
