"""The preemphasis filter, which amplifies high frequencies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import convert
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._kernels.audio.elementwise import plan_preemphasize
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate, samples_of
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from dali_proxy.pipeline._operator_api.output_specs import describe, known_extents
from dali_proxy.pipeline._operators.audio.signals import as_floats, check_numbers
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import FLOAT, to_numpy_type

PREEMPHASIS_FILTER = declare_operator(
    name="preemphasis_filter",
    doc="""Subtracts from each element its predecessor times a coefficient, which amplifies high frequencies.

Samples of more dimensions are filtered as one signal, in the order of their elements.""",
    inputs=(Input("data", "Signals."),),
    arguments=(
        Argument("preemph_coeff", Kind.FLOAT, "Factor of the predecessor.", 0.97, per_sample=True),
        Argument("dtype", Kind.DTYPE, "Dtype of the output; values are rounded and clamped.", FLOAT),
        Argument(
            "border",
            Kind.STRING,
            'Predecessor of the first element: "clamp" takes the first element, "reflect" the second one (or the '
            'only one), "zero" takes 0.',
            "clamp",
            choices=("zero", "clamp", "reflect"),
            unknown='``border`` mode "{}" is not supported.',
        ),
    ),
    devices=("cpu", "gpu"),
)


def _filter(data: Array, coefficient: np.floating[Any], border: str, result: Array) -> None:
    """Compute the filtered elements, in the dtype of the data. The result is contiguous."""
    if not data.size:
        return
    before = -1 if border == "zero" else 1 if border == "reflect" and data.size > 1 else 0
    if compiled is not None and data.dtype == np.float32 and data.flags.c_contiguous:
        compiled.preemphasize(data, coefficient, before, result)
        return
    flat, result = data.reshape(-1), result.reshape(-1)
    np.multiply(flat[:-1], -coefficient, out=result[1:])
    result[1:] += flat[1:]
    result[0] = flat[0]
    if before >= 0:
        result[0] -= coefficient * flat[before]


@implements(PREEMPHASIS_FILTER, "cpu")
class PreemphasisFilter(SampleOperator[Array]):
    """Computes in single precision; in double precision for FLOAT64. The state has one coefficient per sample."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._border, self._dtype = node.argument("border"), to_numpy_type(node.argument("dtype"))

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[Array, Sequence[OutputSpec]]:
        coefficients = batch.arguments(self.node).scalars("preemph_coeff", np.float32)
        return coefficients, [describe(inputs[0].layout, known_extents(batch, self.node, inputs), self._dtype)]

    def run(self, state: Array, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        data = inputs[0] if inputs[0].dtype == np.float64 else as_floats(inputs[0])
        fits = out is not None and out.dtype == data.dtype and out.flags.c_contiguous
        result: Array = out if fits else np.empty(data.shape, data.dtype)  # type: ignore[assignment]
        _filter(data, state[sample], self._border, result)
        return result if fits else convert(result, self._dtype, out)


@implements(PREEMPHASIS_FILTER, "gpu")
class PreemphasisFilterGpu(GpuOperator):
    """One launch per batch."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = self.contiguous(inputs[0], batch.stream)
        source = samples_of(data)
        check_numbers(source.dtype)
        coefficients = batch.arguments(self.node).scalars("preemph_coeff", np.float32)
        output, target = allocate(source.shapes, to_numpy_type(self.node.argument("dtype")), data.layout())
        self.launch(plan_preemphasize(source, target, coefficients, self.node.argument("border")), batch)
        return [output]
