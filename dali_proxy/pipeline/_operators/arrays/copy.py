"""`copy`: copies of samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Input, declare_operator, implements
from dali_proxy.pipeline._kernels.strided_copy import plan_strided_copy
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate, samples_of
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_specs import describe, known_extents
from dali_proxy.pipeline.tensors.cpu import Array

COPY = declare_operator(
    name="copy",
    doc="Copies samples to new memory.",
    inputs=(Input("data", "Samples of any shape."),),
    devices=("cpu", "gpu"),
)


@implements(COPY, "cpu")
class CopyCpu(SampleOperator[None]):
    """Copies sample by sample."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[None, Sequence[OutputSpec]]:
        (data,) = inputs
        return None, [describe(data.layout, known_extents(batch, self.node, inputs), data.dtype)]

    def run(self, state: None, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        if out is None:
            return np.array(inputs[0], order="C")
        np.copyto(out, inputs[0])
        return out


@implements(COPY, "gpu")
class CopyGpu(GpuOperator):
    """Copies a batch with one launch."""

    traits = replace(GpuOperator.traits, per_sample=True)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        source = samples_of(data)
        output, target = allocate(source.shapes, source.dtype, data.layout())
        self.launch(plan_strided_copy(source, target), batch)
        return [output]
