"""`get_property`: properties of samples, as data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import BatchOperator
from dali_proxy.pipeline._operator_api.upload import upload
from dali_proxy.pipeline.tensors.cpu import TensorListCPU

GET_PROPERTY = declare_operator(
    name="get_property",
    doc="Returns a property of samples as text, 1-D uint8. `data.property(key)` is the usual way to call it.",
    inputs=(Input("data", "Samples on any device; their contents aren't read.", any_device=True),),
    arguments=(
        Argument(
            "key",
            Kind.STRING,
            '"layout": names of the dimensions; "source_info": origin of the sample in the data set of its reader, '
            "or empty.",
            REQUIRED,
            choices=("layout", "source_info"),
            unknown="Unsupported property key: {}.",
        ),
    ),
    devices=("cpu", "gpu"),
)


@implements(GET_PROPERTY, "cpu", "gpu")
class GetProperty(BatchOperator):
    """Reads no data: properties are known while the GPU still computes the batch."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        if self.node.argument("key") == "layout":
            texts = [os.fsencode(data.layout())] * batch.size
        else:
            texts = [os.fsencode(text) for text in batch.reads.sources(self.node.inputs[0]) or [""] * batch.size]
        letters = np.frombuffer(b"".join(texts), np.uint8)
        properties = TensorListCPU.from_rows(letters, np.array([len(text) for text in texts]))
        return [upload(batch, properties) if self.node.device == "gpu" else properties]
