"""`peek_image_shape`: shapes of images, read from their headers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, Role, declare_operator, implements
from dali_proxy.pipeline._imaging.formats import TITLES, peek
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import fail
from dali_proxy.pipeline._operator_api.operator import BatchOperator
from dali_proxy.pipeline._operator_api.output_dtype import INTEGER_LIKE, check_dtype
from dali_proxy.pipeline._operators.decoding.image_arguments import channels_of
from dali_proxy.pipeline._operators.decoding.image_batches import encoded_batch
from dali_proxy.pipeline.errors import DecodeError, PipelineError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.types import INT64, RGB

PEEK_IMAGE_SHAPE = declare_operator(
    name="peek_image_shape",
    role=Role.IMAGE_SHAPE,
    doc="Reads the shapes (height, width, channels) of encoded images from their headers, without decoding.",
    inputs=(Input("encoded", f"Encoded images: the bytes of {TITLES} and other files."),),
    arguments=(
        Argument("dtype", Kind.DTYPE, "Dtype of the shapes: an integer of 32 or 64 bits, FLOAT or FLOAT64.", INT64),
        Argument("image_type", Kind.IMAGE_TYPE, "Colour model of the decoded image, for the channels.", RGB),
        Argument("adjust_orientation", Kind.BOOL, "Return height and width after the EXIF rotation.", True),
    ),
)


@implements(PEEK_IMAGE_SHAPE, "cpu")
class PeekImageShape(BatchOperator):
    """Reads the headers of all JPEGs together, and other headers one by one."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        dtype = check_dtype(self.node.argument("dtype"), INTEGER_LIKE)
        channels = channels_of(self.node.argument("image_type"))
        adjust = self.node.argument("adjust_orientation")
        encoded = encoded_batch(inputs[0])
        headers = encoded.headers
        shapes = np.stack([headers[name] for name in ("height", "width", "components")], axis=1)
        if adjust:
            turned = headers["orientation"] >= 5
            shapes[turned, :2] = shapes[turned, 1::-1]
        failures: list[tuple[int, PipelineError]] = []
        for sample in np.flatnonzero(headers["height"] == 0).tolist():
            try:
                info = peek(encoded.arrays[sample])
                shapes[sample] = info.shape if adjust else (info.height, info.width, info.channels)
            except DecodeError as error:
                failures.append((sample, error))
        fail(failures)
        if channels is not None:
            shapes[:, 2] = channels
        return [TensorListCPU(shapes.astype(dtype))]
