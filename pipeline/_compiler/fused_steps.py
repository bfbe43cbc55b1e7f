"""Which steps of a plan run several operators as one, and what runs them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pipeline._compiler.fused_cpu_images import FusedSamples
from pipeline._compiler.fused_gpu_images import FusedPictures
from pipeline._compiler.plan import FusedStep, SampleStep, Step

__all__ = ["fused_steps"]


def fused_steps(
    steps: Iterable[Step], operators: Mapping[int, Any], *, on_cpu: bool
) -> dict[int, FusedPictures | FusedSamples]:
    """Return what runs steps as one, by the ``id`` of the step; others run their operators one after the other.

    Args:
        steps: of a plan.
        operators: implementations, by the number of their node.
        on_cpu: whether chains on the CPU may be run as one; those on the GPU are where the plan has them.
    """
    found: dict[int, FusedPictures | FusedSamples] = {}
    for step in steps:
        chain = [operators[node.index] for node in step.nodes]
        if isinstance(step, FusedStep) and FusedPictures.fits(chain):
            found[id(step)] = FusedPictures(step.nodes, chain)
        elif on_cpu and isinstance(step, SampleStep) and FusedSamples.fits(step, chain):
            found[id(step)] = FusedSamples(step, chain)
    return found
