"""`cast` and `cast_like`: samples of another dtype."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._imaging import convert
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_specs import describe, known_extents
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline._operator_api.traits import Traits
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import to_numpy_type

CAST = declare_operator(
    name="cast",
    doc="Converts samples to another dtype. Integers are rounded (halves away from zero) and clamped.",
    inputs=(Input("data", "Samples of any shape."),),
    arguments=(Argument("dtype", Kind.DTYPE, "Dtype of the output.", REQUIRED),),
    devices=("cpu", "gpu"),
)

CAST_LIKE = declare_operator(
    name="cast_like",
    doc="Converts samples to the dtype of other samples, like `cast`.",
    inputs=(
        Input("data", "Samples of any shape."),
        Input("like", "Samples whose dtype the output gets.", any_device=True),
    ),
    devices=("cpu", "gpu"),
)


@implements(CAST, "cpu")
class CastCpu(SampleOperator[np.dtype[Any]]):
    """Converts samples; passes them on unchanged if they already have the dtype."""

    traits = Traits(elementwise=True)

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[np.dtype[Any], Sequence[OutputSpec]]:
        dtype = to_numpy_type(self.node.argument("dtype"))
        return dtype, [describe(inputs[0].layout, known_extents(batch, self.node, inputs), dtype)]

    def run(self, state: np.dtype[Any], sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        return convert(inputs[0], state, out)


@implements(CAST_LIKE, "cpu")
class CastLikeCpu(SampleOperator[None]):
    """Converts samples to the dtype of the second input."""

    traits = Traits(elementwise=True)

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[None, Sequence[OutputSpec]]:
        data, like = inputs
        return None, [describe(data.layout, known_extents(batch, self.node, inputs), like.dtype)]

    def run(self, state: None, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        data, like = inputs
        return convert(data, like.dtype, out)


@implements(CAST, "gpu")
@implements(CAST_LIKE, "gpu")
class CastGpu(PixelOperator):
    """Converts a batch with one launch."""

    traits = replace(PixelOperator.traits, elementwise=True)

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        like = self.node.inputs[1:]
        return pixels.cast(to_numpy_type(batch.values[like[0]].dtype if like else self.node.argument("dtype")))
