"""Changes hue, saturation, brightness and contrast, by a matrix between the channels of each pixel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, OperatorSchema, declare_operator, implements
from dali_proxy.pipeline._imaging import transform_channels
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.layouts import COLOR_LAYOUTS, choose_layout
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_dtype import check_samples, output_dtype
from dali_proxy.pipeline._operator_api.output_specs import describe, layout_and_extents
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import FLOAT, FLOAT16, INT16, INT32, UINT8, DALIDataType, DALIImageType

_DTYPES = (UINT8, INT16, INT32, FLOAT, FLOAT16)

# The YIQ matrix (luma and two chroma axes), rounded as in DALI.
_RGB_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
_YIQ_TO_RGB = np.linalg.inv(_RGB_TO_YIQ)

_INPUT = Input("data", f"RGB images, of one of the layouts {', '.join(COLOR_LAYOUTS)}; UINT8, INT16, INT32 or float.")
_HUE = Argument("hue", Kind.FLOAT, "Rotation of the hue in degrees.", 0.0, per_sample=True)
_SATURATION = Argument("saturation", Kind.FLOAT, "Factor of the saturation; 0 makes images grey.", 1.0, per_sample=True)
_IMAGE_TYPE = Argument("image_type", Kind.IMAGE_TYPE, "Accepted and ignored, as in DALI.", DALIImageType.RGB)


def _declare(
    name: str, doc: str, *arguments: Argument, dtype: DALIDataType | None = None, image_type: bool = True
) -> OperatorSchema:
    names = ", ".join(entry.name for entry in _DTYPES)
    output_dtype = Argument("dtype", Kind.DTYPE, f"Dtype of the output: {names}, or None for the input's.", dtype)
    common = (output_dtype, _IMAGE_TYPE) if image_type else (output_dtype,)
    return declare_operator(name, doc, inputs=(_INPUT,), arguments=(*arguments, *common), devices=("cpu", "gpu"))


HUE = _declare("hue", "Rotates the hue.", _HUE)
SATURATION = _declare("saturation", "Scales the saturation.", _SATURATION)
HSV = _declare(
    "hsv",
    "Rotates the hue and scales saturation and value, by a matrix between RGB channels.",
    _HUE,
    _SATURATION,
    Argument("value", Kind.FLOAT, "Factor of the brightness.", 1.0, per_sample=True),
    dtype=UINT8,
    image_type=False,
)
COLOR_TWIST = _declare(
    "color_twist",
    "Rotates the hue and scales saturation, contrast and brightness, by a matrix between RGB channels.",
    _HUE,
    _SATURATION,
    Argument("brightness", Kind.FLOAT, "Factor of the values.", 1.0, per_sample=True),
    Argument(
        "contrast", Kind.FLOAT, "Factor of the distance of values from 128 (from 0.5 for floats).", 1.0, per_sample=True
    ),
)


def _maps(arguments: Arguments, size: int) -> tuple[Array, Array]:
    """Return matrices (batch, 3, 3), and shifts (batch,) in units of the centre of the contrast."""

    def values(name: str, default: float) -> Any:
        scalars = arguments.optional(arguments.scalars, name)
        return default if scalars is None else scalars

    angle, saturation = np.deg2rad(values("hue", 0.0)), values("saturation", 1.0)
    brightness, contrast = values("value", 1.0) * values("brightness", 1.0), values("contrast", 1.0)
    rotation, (gains, shifts) = np.zeros((size, 3, 3)), np.empty((2, size))
    rotation[:, 0, 0] = 1
    rotation[:, 1, 1] = rotation[:, 2, 2] = saturation * np.cos(angle)
    rotation[:, 1, 2] = saturation * np.sin(angle)
    rotation[:, 2, 1] = -rotation[:, 1, 2]
    gains[:], shifts[:] = brightness * contrast, brightness * (1 - contrast)
    return _YIQ_TO_RGB @ rotation @ _RGB_TO_YIQ * gains[:, None, None], shifts


def _center(dtype: np.dtype[Any]) -> float:
    return 0.5 if dtype.kind == "f" else 128.0


def _check_channels(channels: int) -> None:
    if channels != 3:
        raise ArgumentValueError(f"the image has {channels} channels, but must be RGB")


@dataclass(frozen=True)
class _State:
    matrices: Array
    shifts: Array
    dtype: np.dtype[Any] | None


@implements(HUE, "cpu")
@implements(SATURATION, "cpu")
@implements(HSV, "cpu")
@implements(COLOR_TWIST, "cpu")
class ColorTwistCpu(SampleOperator[_State]):
    """One matrix per sample."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        (data,) = inputs
        layout, known = layout_and_extents(batch, self.node, inputs, COLOR_LAYOUTS)
        dtype = output_dtype(self.node, _DTYPES)
        state = _State(*_maps(batch.arguments(self.node), batch.size), dtype)
        return state, [describe(layout, known, dtype or data.dtype)]

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        check_samples(data.dtype, _DTYPES)
        _check_channels(data.shape[-1])
        if out is None:
            out = np.empty(data.shape, state.dtype or data.dtype)
        offset = np.repeat(state.shifts[sample] * _center(data.dtype), 3)
        return transform_channels(data, state.matrices[sample], offset, out)


@implements(HUE, "gpu")
@implements(SATURATION, "gpu")
@implements(HSV, "gpu")
@implements(COLOR_TWIST, "gpu")
class ColorTwistGpu(PixelOperator):
    """Multiplies pixels by a matrix, in the kernel of the operators around it."""

    layouts = COLOR_LAYOUTS

    def check_channels(self, channels: int) -> None:
        _check_channels(channels)

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        layout = choose_layout(pixels.layout, pixels.ndim, COLOR_LAYOUTS)
        check_samples(pixels.dtype, _DTYPES)
        if pixels.channels != 3:
            return None
        dtype = output_dtype(self.node, _DTYPES) or pixels.dtype
        matrices, shifts = _maps(batch.arguments(self.node), batch.size)
        return pixels.named(layout).matrix(matrices, shifts[:, None] * _center(pixels.dtype), dtype)
