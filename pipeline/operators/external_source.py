"""The inputs of a graph: data that the user feeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.executor.batch import Batch
from pipeline.operators.base import BatchOperator
from pipeline.operators.registry import implements, register
from pipeline.operators.schema import Argument, Kind, OperatorSchema
from pipeline.operators.upload import upload
from pipeline.tensors.cpu import TensorListCPU

EXTERNAL_SOURCE = register(
    OperatorSchema(
        name="external_source",
        doc="""Brings data from outside into the graph.

Feed it by `Pipeline.feed_input`, as a keyword of `Pipeline.run`, or through a server's proxy.""",
        arguments=(
            Argument("layout", Kind.LAYOUT, "Names of the dimensions of a sample, such as HWC."),
            Argument("dtype", Kind.DTYPE, "The data must have this dtype; by default any."),
            Argument("ndim", Kind.INT, "Samples must have this many dimensions; by default any."),
            Argument(
                "no_copy",
                Kind.BOOL,
                "Read the fed memory in place; it must not change until the batch ran.",
                False,
            ),
            Argument("blocking", Kind.BOOL, "Accepted for compatibility.", False),
            Argument("use_copy_kernel", Kind.BOOL, "Accepted for compatibility.", False),
            Argument("cuda_stream", Kind.OBJECT, "Accepted for compatibility."),
            Argument("batch", Kind.BOOL, "Whether whole batches are fed; the only way without a source.", True),
        ),
        devices=("cpu", "gpu"),
    )
)


@implements(EXTERNAL_SOURCE, "cpu", "gpu")
class ExternalSource(BatchOperator):
    """Hands on what came with the request."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = batch.request.inputs[self.node.name]
        if self.node.device == "gpu" and isinstance(data, TensorListCPU):
            return [upload(batch, data)]
        return [data]
