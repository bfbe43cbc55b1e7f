"""Hue, saturation and value: a matrix between the channels of each pixel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._imaging import transform_channels
from pipeline._kernels import transform_pixels
from pipeline._operator_api.arguments import Arguments
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import GpuOperator, allocate, fail, samples_of
from pipeline._operator_api.layouts import COLOR_LAYOUTS, choose_layout
from pipeline._operator_api.operator import OutputSpec, SampleOperator
from pipeline._operator_api.output_dtype import check_dtype, check_samples
from pipeline._operator_api.output_specs import describe, known_extents
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array
from pipeline.types import FLOAT, FLOAT16, INT16, INT32, UINT8, DALIDataType, DALIImageType

__all__ = ["COLOR_TWIST", "HSV", "HUE", "SATURATION"]

_DTYPES = (UINT8, INT16, INT32, FLOAT, FLOAT16)

# Luma and two axes of colour, as DALI rounds the matrix of YIQ.
_YIQ_OF_RGB = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
_RGB_OF_YIQ = np.linalg.inv(_YIQ_OF_RGB)

_INPUT = Input("data", f"RGB images, of one of the layouts {', '.join(COLOR_LAYOUTS)}; UINT8, INT16, INT32 or real.")
_HUE = Argument("hue", Kind.FLOAT, "Degrees by which the hue is turned.", 0.0, per_sample=True)
_SATURATION = Argument("saturation", Kind.FLOAT, "Multiplies the saturation; 0 is grey.", 1.0, per_sample=True)
_IMAGE_TYPE = Argument("image_type", Kind.IMAGE_TYPE, "Accepted and ignored, as in DALI.", DALIImageType.RGB)


def _declare(
    name: str, doc: str, *arguments: Argument, dtype: DALIDataType | None = None, image_type: bool = True
) -> OperatorSchema:
    names = ", ".join(entry.name for entry in _DTYPES)
    chosen = Argument("dtype", Kind.DTYPE, f"Dtype of the output, of {names}; None for the input's.", dtype)
    common = (chosen, _IMAGE_TYPE) if image_type else (chosen,)
    return register(
        OperatorSchema(name, doc, inputs=(_INPUT,), arguments=(*arguments, *common), devices=("cpu", "gpu"))
    )


HUE = _declare("hue", "Turns the hue.", _HUE)
SATURATION = _declare("saturation", "Scales the saturation.", _SATURATION)
HSV = _declare(
    "hsv",
    "Turns the hue, scales saturation and value, by a matrix between RGB channels.",
    _HUE,
    _SATURATION,
    Argument("value", Kind.FLOAT, "Multiplies the brightness.", 1.0, per_sample=True),
    dtype=UINT8,
    image_type=False,
)
COLOR_TWIST = _declare(
    "color_twist",
    "Turns the hue, scales saturation, contrast and brightness, by a matrix between RGB channels.",
    _HUE,
    _SATURATION,
    Argument("brightness", Kind.FLOAT, "Multiplies values.", 1.0, per_sample=True),
    Argument("contrast", Kind.FLOAT, "Multiplies how far values are from 128 (real: 0.5).", 1.0, per_sample=True),
)


def _maps(arguments: Arguments, size: int) -> tuple[Array, Array]:
    """Return matrices (batch, 3, 3), and shifts (batch,) in units of the centre of contrast."""

    def values(name: str, default: float) -> Array:
        found = arguments.scalars(name)
        return np.full(size, default) if found is None else found

    angle = np.deg2rad(values("hue", 0.0))
    saturation = values("saturation", 1.0)
    brightness = values("value", 1.0) * values("brightness", 1.0)
    contrast = values("contrast", 1.0)
    turn = np.zeros((size, 3, 3))
    turn[:, 0, 0] = 1
    turn[:, 1, 1] = turn[:, 2, 2] = saturation * np.cos(angle)
    turn[:, 1, 2] = saturation * np.sin(angle)
    turn[:, 2, 1] = -turn[:, 1, 2]
    matrices = _RGB_OF_YIQ @ turn @ _YIQ_OF_RGB * (brightness * contrast)[:, None, None]
    return matrices, brightness * (1 - contrast)


def _center(dtype: np.dtype[Any]) -> float:
    return 0.5 if dtype.kind == "f" else 128.0


def _check_channels(channels: int) -> None:
    if channels != 3:
        raise ArgumentValueError(f"the image has {channels} channels; only colours of RGB images can be changed")


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
    """One matrix a sample."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        (data,) = inputs
        known = known_extents(batch, self.node, inputs)
        layout = choose_layout(data.layout, None if known is None else len(known), COLOR_LAYOUTS)
        wanted = self.node.argument("dtype")
        dtype = None if wanted is None else check_dtype(wanted, _DTYPES)
        state = _State(*_maps(batch.arguments(self.node), batch.size), dtype)
        return state, [describe(layout, known, dtype or data.dtype)]

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        check_samples(data.dtype, _DTYPES)
        _check_channels(data.shape[-1])
        if out is None:
            out = np.empty(data.shape, state.dtype or data.dtype)
        offset = np.full(3, state.shifts[sample] * _center(data.dtype))
        return transform_channels(data, state.matrices[sample], offset, out)


@implements(HUE, "gpu")
@implements(SATURATION, "gpu")
@implements(HSV, "gpu")
@implements(COLOR_TWIST, "gpu")
class ColorTwistGpu(GpuOperator):
    """One launch a batch."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = self.contiguous(inputs[0], batch.stream)
        layout = choose_layout(data.layout(), data.ndim, COLOR_LAYOUTS)
        source = samples_of(data)
        check_samples(source.dtype, _DTYPES)
        failures: list[tuple[int, ArgumentValueError]] = []
        for sample, channels in enumerate(source.shapes[:, -1].tolist()):
            try:
                _check_channels(channels)
            except ArgumentValueError as error:
                failures.append((sample, error))
        fail(failures)
        wanted = self.node.argument("dtype")
        matrices, shifts = _maps(batch.arguments(self.node), batch.size)
        offsets = np.repeat((shifts * _center(source.dtype))[:, None], 3, axis=1)
        made, target = allocate(source.shapes, source.dtype if wanted is None else check_dtype(wanted, _DTYPES), layout)
        transform_pixels(self.kernels, batch.stream, source, target, matrix=matrices, offset=offsets)
        return [made]
