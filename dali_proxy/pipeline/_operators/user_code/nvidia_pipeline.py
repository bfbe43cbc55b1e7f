"""A pipeline of NVIDIA DALI as one operator, for users who combine that package with this transport."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, Role, declare_operator, implements
from dali_proxy.pipeline._graph.graph import Edge, GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import BatchOperator, Setup
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._operator_api.traits import Traits
from dali_proxy.pipeline.errors import BuildError, PipelineError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU


def _output_count(arguments: Mapping[str, Any]) -> int:
    return int(arguments["output_count"])


NVIDIA_PIPELINE = declare_operator(
    name="nvidia_pipeline",
    doc="""Runs a pipeline of NVIDIA DALI.

It feeds the inputs and copies the outputs batch by batch. Random numbers depend on the order of the batches. After an
error the pipeline is built again, because DALI's pipelines can't continue.""",
    inputs=(Input("data", "Batch for each external source of the pipeline.", optional=True),),
    arguments=(
        Argument("serialized", Kind.OBJECT, "Result of the pipeline's `serialize`.", REQUIRED),
        Argument("input_names", Kind.STRINGS, "Names of the external sources, in the order of the inputs.", ()),
        Argument("output_count", Kind.INT, "Number of outputs.", REQUIRED),
    ),
    devices=("cpu", "mixed"),
    outputs=_output_count,
    variadic=True,
    hidden=True,
    role=Role.NVIDIA_PIPELINE,
)


@implements(NVIDIA_PIPELINE, "cpu", "mixed")
class NvidiaPipeline(BatchOperator):
    """Runs one batch at a time. The pipeline has its own threads, and its outputs may be on the CPU or the GPU."""

    traits = Traits(in_order=True, waits=True)

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._lock = new_lock(Level.NVIDIA_PIPELINE, "NVIDIA pipeline")
        self._pipeline = self._make()

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[TensorList]:
        with self._lock:
            try:
                if self._pipeline is None:
                    self._pipeline = self._make()
                for name, data in zip(self.node.argument("input_names"), inputs, strict=True):
                    self._pipeline.feed_input(name, data.samples, layout=data.layout() or None)
                outputs = self._pipeline.run()
                return [self._take(batch, index, output) for index, output in enumerate(outputs)]
            except PipelineError:
                raise
            except BaseException as error:
                self._pipeline = None
                # From the second line on, DALI's message repeats itself and explains what to do about lost pipelines.
                raise PipelineError(f"NVIDIA DALI: {type(error).__name__}: {error}") from error

    def _make(self) -> Any:
        try:
            dali = importlib.import_module("nvidia.dali")
        except ImportError as error:
            raise BuildError(f"a pipeline of NVIDIA DALI needs that package where the server runs: {error}") from error
        # One batch in, one batch out: a deeper queue would wait for batches that may never arrive.
        return dali.Pipeline.deserialize(self.node.argument("serialized"), prefetch_queue_depth=1)

    def _take(self, batch: Batch, index: int, output: Any) -> TensorList:
        """Copy an output, because DALI's next run overwrites it."""
        if len(output) != batch.size:
            raise PipelineError(f"output {index} has {len(output)} samples, but the batch has {batch.size}")
        if _is_on_gpu(output):
            with batch.stream:
                return own_tensors(output)
        if not output.is_dense_tensor():
            return own_tensors(output)
        samples = [np.asarray(output[sample]) for sample in range(batch.size)]
        target, owner = batch.allocate(Edge(self.node.index, index), (batch.size, *samples[0].shape), samples[0].dtype)
        errors = batch.pool.run(partial(_copy_sample, target, samples), batch.size)
        if errors:
            raise errors[0][1]
        copy = TensorListCPU(target, output.layout())
        copy.owner = owner
        return copy


def own_tensors(output: Any) -> TensorList:
    """Copy a `TensorListCPU` or `TensorListGPU` of NVIDIA DALI to new memory on the same device."""
    layout, dense = output.layout(), output.is_dense_tensor()
    if not _is_on_gpu(output):
        if dense:
            return TensorListCPU(np.array(output.as_tensor()), layout)
        return TensorListCPU([np.array(output[sample]) for sample in range(len(output))], layout)
    import cupy

    if dense:
        copy = TensorListGPU(cupy.array(cupy.asarray(output.as_tensor())), layout)
    else:
        copy = TensorListGPU([cupy.array(cupy.asarray(output[sample])) for sample in range(len(output))], layout)
    cupy.cuda.get_current_stream().synchronize()  # before DALI overwrites the source
    return copy


def _is_on_gpu(output: Any) -> bool:
    return type(output).__name__ == "TensorListGPU"


def _copy_sample(target: Any, samples: Sequence[Any], sample: int) -> None:
    target[sample] = samples[sample]
