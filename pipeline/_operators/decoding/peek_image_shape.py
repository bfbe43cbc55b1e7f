"""`peek_image_shape`: shapes of images, read from their headers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._imaging import peek
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.operator import OutputSpec, SampleOperator
from pipeline._operator_api.output_dtype import INTEGER_LIKE, check_dtype
from pipeline._operator_api.output_specs import describe
from pipeline._operators.decoding.encoded import channels_of, flat_bytes
from pipeline.tensors.cpu import Array
from pipeline.types import INT64, RGB

__all__ = ["PEEK_IMAGE_SHAPE"]

PEEK_IMAGE_SHAPE = register(
    OperatorSchema(
        name="peek_image_shape",
        doc="Reads the shapes (height, width, channels) of encoded images from their headers, without decoding.",
        inputs=(Input("encoded", "Encoded images: the bytes of JPEG, PNG, WebP, TIFF and other files."),),
        arguments=(
            Argument("dtype", Kind.DTYPE, "Dtype of the shapes: an integer of 32 or 64 bits, FLOAT or FLOAT64.", INT64),
            Argument(
                "image_type",
                Kind.IMAGE_TYPE,
                "Colour model of the decoded image, for the channels.",
                RGB,
            ),
            Argument("adjust_orientation", Kind.BOOL, "Return height and width after the EXIF rotation.", True),
        ),
    )
)


@dataclass(frozen=True)
class _State:
    dtype: np.dtype[Any]
    channels: int | None
    adjust: bool


@implements(PEEK_IMAGE_SHAPE, "cpu")
class PeekImageShape(SampleOperator[_State]):
    """Reads headers. A JPEG takes a few microseconds."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        dtype = check_dtype(self.node.argument("dtype"), INTEGER_LIKE)
        channels = channels_of(self.node.argument("image_type"))
        return _State(dtype, channels, self.node.argument("adjust_orientation")), [describe("", (3,), dtype)]

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        info = peek(flat_bytes(inputs[0]))
        height, width, channels = info.shape if state.adjust else (info.height, info.width, info.channels)
        result = np.empty(3, state.dtype) if out is None else out
        result[:] = height, width, state.channels or channels
        return result
