"""Choose the steps of a plan that run several operators as one, and the objects that run them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pipeline._compiler.fused_cpu_images import FusedSamples
from pipeline._compiler.fused_gpu_images import FusedImages
from pipeline._compiler.plan import FusedStep, SampleStep, Step

__all__ = ["fused_steps"]


def fused_steps(
    steps: Iterable[Step], operators: Mapping[int, Any], *, on_cpu: bool
) -> dict[int, FusedImages | FusedSamples]:
    """Return the objects that run fused steps, by the ``id`` of the step. Other steps run operator by operator.

    Args:
        steps: steps of a plan.
        operators: implementations of the nodes, by index.
        on_cpu: whether to fuse chains on the CPU; the plan itself decides for those on the GPU.
    """
    found: dict[int, FusedImages | FusedSamples] = {}
    for step in steps:
        chain = [operators[node.index] for node in step.nodes]
        if isinstance(step, FusedStep) and FusedImages.fits(chain):
            found[id(step)] = FusedImages(step.nodes, chain)
        elif on_cpu and isinstance(step, SampleStep) and FusedSamples.fits(step, chain):
            found[id(step)] = FusedSamples(step, chain)
    return found
