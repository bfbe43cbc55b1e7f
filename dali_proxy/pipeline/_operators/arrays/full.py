"""`full` and `full_like`: samples that are filled with the values of an input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Input, declare_operator, implements
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operators.arrays.filled_samples import DATA_LIKE, LAYOUT, SHAPE, Filled, FilledLike
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.types import to_numpy_type

_FILL_VALUE = Input("fill_value", "Values that are broadcast to the samples.")

FULL = declare_operator("full", "Returns samples that are filled with given values.", (_FILL_VALUE,), (SHAPE, LAYOUT))
FULL_LIKE = declare_operator(
    "full_like",
    "Returns samples with the shape, dtype and layout of other samples, filled with given values.",
    (DATA_LIKE, _FILL_VALUE),
)


@implements(FULL, "cpu")
class Full(Filled):
    """Fills samples with the values of an input, in their dtype."""

    def dtype(self, inputs: Sequence[Any]) -> np.dtype[Any]:
        return to_numpy_type(inputs[0].dtype)

    def values(self, batch: Batch, inputs: Sequence[Any]) -> TensorListCPU:
        return inputs[0]


@implements(FULL_LIKE, "cpu")
class FullLike(FilledLike):
    """Fills samples with the values of the second input."""

    def values(self, batch: Batch, inputs: Sequence[Any]) -> TensorListCPU:
        return inputs[1]
