"""Copies between the CPU and the GPU: ``node.gpu()`` and ``node.cpu()``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dali_proxy.pipeline._declaration import Input, Role, declare_operator, implements
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import BatchOperator
from dali_proxy.pipeline._operator_api.traits import Traits
from dali_proxy.pipeline._operator_api.upload import upload
from dali_proxy.pipeline.tensors.cpu import TensorListCPU

COPY_TO_GPU = declare_operator(
    name="copy_to_gpu",
    role=Role.COPY_TO_GPU,
    doc="Copies a batch from the CPU to the GPU.",
    inputs=(Input("data", "Batch on the CPU.", any_device=True),),
    devices=("gpu",),
    hidden=True,
)

COPY_TO_CPU = declare_operator(
    name="copy_to_cpu",
    role=Role.COPY_TO_CPU,
    doc="Copies a batch from the GPU to the CPU.",
    inputs=(Input("data", "Batch on the GPU.", any_device=True),),
    devices=("gpu",),
    output_device="cpu",
    hidden=True,
)


@implements(COPY_TO_GPU, "gpu")
class CopyToGpu(BatchOperator):
    """Copies a batch from pinned memory, asynchronously."""

    traits = Traits(any_thread=True, per_sample=True)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        return [upload(batch, data) if isinstance(data, TensorListCPU) else data]


@implements(COPY_TO_CPU, "gpu")
class CopyToCpu(BatchOperator):
    """Copies to new host memory and waits, because operators on the CPU read it next."""

    traits = Traits(waits=True)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        if data.dense is not None:
            output = TensorListCPU(data.dense.get(stream=batch.stream), data.layout())
        else:
            output = TensorListCPU([sample.get(stream=batch.stream) for sample in data.samples], data.layout())
        batch.stream.synchronize()
        return [output]
