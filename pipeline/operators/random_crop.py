"""Random cropping windows, as data: for pictures that another operator cuts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.errors import ArgumentTypeError, PipelineError
from pipeline.executor.batch import Batch
from pipeline.operators.base import OutputSpec, SampleOperator
from pipeline.operators.random_windows import RANDOM_CROP_ARGUMENTS, RandomWindows
from pipeline.operators.registry import implements, register
from pipeline.operators.schema import Input, OperatorSchema
from pipeline.operators.specs import describe
from pipeline.tensors.cpu import Array

__all__ = ["RANDOM_CROP_GENERATOR"]

RANDOM_CROP_GENERATOR = register(
    OperatorSchema(
        name="random_crop_generator",
        doc="""Draws cropping windows of random area and aspect ratio.

Two int32 outputs: where the window begins (y, x), and its extents (height, width). Cut with
`fn.slice(images, start=anchor, shape=shape, axes=[0, 1])`.""",
        inputs=(Input("shapes", "Shapes of the pictures, HW or HWC: integers, such as `images.shape()` gives."),),
        arguments=RANDOM_CROP_ARGUMENTS,
        outputs=2,
    )
)


@implements(RANDOM_CROP_GENERATOR, "cpu")
class RandomCropGenerator(SampleOperator[RandomWindows]):
    """Chooses each picture's window of those that were drawn for its place in the batch."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[RandomWindows, Sequence[OutputSpec]]:
        dtype = inputs[0].dtype
        if dtype is not None and dtype.kind not in "iu":
            raise ArgumentTypeError(f"the shapes must be integers, not {dtype}")
        made = describe("", (2,), np.dtype(np.int32))
        return RandomWindows(self.node, batch), [made, made]

    def run(self, state: RandomWindows, sample: int, inputs: Sequence[Array], out: Array | None) -> tuple[Array, Array]:
        shape = inputs[0]
        if shape.ndim != 1 or shape.shape[0] not in (2, 3):
            raise PipelineError(f"the shape of a picture has 2 or 3 elements (HW or HWC), not {shape.tolist()}")
        y, x, height, width = state.choose(sample, int(shape[0]), int(shape[1]))
        return np.array((y, x), np.int32), np.array((height, width), np.int32)
