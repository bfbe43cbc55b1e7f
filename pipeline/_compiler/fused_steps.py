"""Choose the steps of a plan that run several CPU operators as one, and the objects that run them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pipeline._compiler.fused_cpu_images import FusedSamples
from pipeline._compiler.plan import SampleStep, Step

__all__ = ["fused_steps"]


def fused_steps(steps: Iterable[Step], operators: Mapping[int, Any]) -> dict[int, FusedSamples]:
    """Return the objects that run fused steps, by the ``id`` of the step. Other steps run operator by operator.

    Args:
        steps: steps of a plan.
        operators: implementations of the nodes, by index.
    """
    found: dict[int, FusedSamples] = {}
    for step in steps:
        chain = [operators[node.index] for node in step.nodes]
        if isinstance(step, SampleStep) and FusedSamples.fits(step, chain):
            found[id(step)] = FusedSamples(step, chain)
    return found
