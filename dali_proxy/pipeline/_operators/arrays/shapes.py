"""`shapes`: shapes of samples, as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import BatchOperator
from dali_proxy.pipeline._operator_api.output_dtype import INTEGER_LIKE, check_dtype
from dali_proxy.pipeline._operator_api.upload import upload_array
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU
from dali_proxy.pipeline.types import INT64

SHAPES = declare_operator(
    name="shapes",
    doc="Returns the shapes of samples as 1-D arrays. `data.shape()` is the usual way to call it.",
    inputs=(Input("data", "Samples on any device; their contents aren't read.", any_device=True),),
    arguments=(
        Argument("dtype", Kind.DTYPE, "Dtype of the shapes: an integer of 32 or 64 bits, FLOAT or FLOAT64.", INT64),
        Argument("type", Kind.DTYPE, "Deprecated name of `dtype`.", replaced_by="dtype"),
    ),
    devices=("cpu", "gpu"),
    deprecated="\nUse :meth:`nvidia.dali.pipeline.DataNode.shape` instead.",
)


@implements(SHAPES, "cpu", "gpu")
class Shapes(BatchOperator):
    """Reads no data: shapes are known while the GPU still computes the batch."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        dtype = check_dtype(self.node.argument("dtype"), INTEGER_LIKE)
        shapes = np.empty((batch.size, data.ndim), dtype)
        shapes[:] = data.shape() if data.dense is None else data.dense.shape[1:]
        if self.node.device == "gpu":
            return [TensorListGPU.from_dense(upload_array(batch, shapes))]
        return [TensorListCPU(shapes)]
