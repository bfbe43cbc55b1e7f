"""Draws random cropping windows, for images that another operator crops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Input, declare_operator, implements
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import fail
from dali_proxy.pipeline._operator_api.operator import BatchOperator
from dali_proxy.pipeline._operators.geometry.random_windows import RANDOM_CROP_ARGUMENTS, WINDOW_DRAWS, RandomWindows
from dali_proxy.pipeline.errors import ArgumentTypeError, PipelineError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU

RANDOM_CROP_GENERATOR = declare_operator(
    name="random_crop_generator",
    random=True,
    draws=WINDOW_DRAWS,
    doc="""Draws cropping windows of random area and aspect ratio.

The two int32 outputs are the first pixel of the window (y, x) and its extents (height, width). Crop with
`fn.slice(images, start=anchor, shape=shape, axes=[0, 1])`.""",
    inputs=(Input("shapes", "Shapes of the images, HW or HWC: integers, for example from `images.shape()`."),),
    arguments=RANDOM_CROP_ARGUMENTS,
    outputs=2,
)


_SHAPES = ((2,), (3,))


@implements(RANDOM_CROP_GENERATOR, "cpu")
class RandomCropGenerator(BatchOperator):
    """Chooses the windows of all images together."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        if data.samples[0].dtype.kind not in "iu":
            raise ArgumentTypeError(f"the shapes must be integers, not {data.samples[0].dtype}")
        array = data.small_array()
        if array is None or array.shape[1:] not in _SHAPES:
            message = "the shape of an image must have 2 or 3 elements (HW or HWC), not {}"
            fail(
                [
                    (sample, PipelineError(message.format(np.asarray(data.samples[sample]).tolist())))
                    for sample, shape in enumerate(data.shape())
                    if shape not in _SHAPES
                ]
            )
            array = np.array([shape[:2] for shape in data.samples])
        sizes = array.astype(np.int64)
        windows = RandomWindows(self.node, batch).choose_all(sizes[:, 0], sizes[:, 1]).astype(np.int32)
        return [TensorListCPU(windows[:, :2]), TensorListCPU(windows[:, 2:])]
