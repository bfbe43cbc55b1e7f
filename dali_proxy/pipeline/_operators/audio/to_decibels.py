"""Magnitudes in decibels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._audio.decibels import to_decibels
from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging.reductions import REDUCTIONS
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.audio.elementwise import plan_to_decibels
from dali_proxy.pipeline._kernels.reduce import ReductionPlan
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate, samples_of
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_specs import describe, known_extents
from dali_proxy.pipeline._operators.audio.signals import as_floats, check_numbers
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array


def _check(node: GraphNode) -> None:
    for name in ("reference", "multiplier"):
        if node.argument(name) == 0:
            raise ArgumentValueError(f"`{name}` argument can't be zero")


TO_DECIBELS = declare_operator(
    name="to_decibels",
    doc="""Converts magnitudes to decibels: `multiplier` * log10(magnitude / `reference`), float32.

Ratios of less than 10 ** (`cutoff_db` / `multiplier`) are raised to it.""",
    inputs=(Input("data", "Magnitudes, of any shape; computed in float32."),),
    arguments=(
        Argument("multiplier", Kind.FLOAT, "Factor of the logarithm: 10 for powers, 20 for amplitudes.", 10.0),
        Argument("reference", Kind.FLOAT, "Magnitude of 0 dB; by default the largest one of the sample."),
        Argument("cutoff_db", Kind.FLOAT, "Smallest result, in decibels.", -200.0),
    ),
    devices=("cpu", "gpu"),
    check=_check,
)


@implements(TO_DECIBELS, "cpu")
class ToDecibels(SampleOperator[None]):
    """Computes in single precision, in the memory of the output."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[None, Sequence[OutputSpec]]:
        return None, [describe(inputs[0].layout, known_extents(batch, self.node, inputs), np.dtype(np.float32))]

    def run(self, state: None, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        multiplier, reference, cutoff = map(self.node.argument, ("multiplier", "reference", "cutoff_db"))
        return to_decibels(as_floats(inputs[0]), multiplier, reference, cutoff, out)


@implements(TO_DECIBELS, "gpu")
class ToDecibelsGpu(GpuOperator):
    """One launch per batch, and two for the largest magnitudes."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = self.contiguous(inputs[0], batch.stream)
        source = samples_of(data)
        check_numbers(source.dtype)
        multiplier, reference, cutoff = map(self.node.argument, ("multiplier", "reference", "cutoff_db"))
        output, target = allocate(source.shapes, np.dtype(np.float32), data.layout())
        zero_decibels = self._largest(source, batch) if reference is None else reference
        self.launch(
            plan_to_decibels(source, target, multiplier=multiplier, cutoff=cutoff, reference=zero_decibels), batch
        )
        return [output]

    def _largest(self, source: Samples, batch: Batch) -> Samples:
        _, target = allocate(source.shapes[:, :0], source.dtype)
        axes = range(source.ndim)
        self.launch(ReductionPlan(source, target, REDUCTIONS["max"], axes=axes), batch)
        return target
