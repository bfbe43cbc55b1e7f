"""Shapes of pictures, read from their headers."""

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
        doc="Reads from the headers of encoded images which shapes (height, width, channels) they will decode to.",
        inputs=(Input("encoded", "Encoded images: bytes of JPEG, PNG, WebP, TIFF and other files."),),
        arguments=(
            Argument("dtype", Kind.DTYPE, "Dtype of the shapes: a wide integer or float.", INT64),
            Argument("image_type", Kind.IMAGE_TYPE, "Colours that will be decoded to, which tell the channels.", RGB),
            Argument("adjust_orientation", Kind.BOOL, "Count height and width after the EXIF orientation.", True),
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
    """Some microseconds for a JPEG."""

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
