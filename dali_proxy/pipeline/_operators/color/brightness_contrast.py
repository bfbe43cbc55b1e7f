"""Adjusts brightness and contrast: scales and shifts all values of an image by the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._imaging import scale_shift
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.layouts import COLOR_LAYOUTS, choose_layout
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_dtype import check_samples, output_dtype
from dali_proxy.pipeline._operator_api.output_specs import describe, layout_and_extents
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import FLOAT, INT16, INT32, UINT8

_DTYPES = (UINT8, INT16, INT32, FLOAT)

_INPUT = Input("data", f"Images, of one of the layouts {', '.join(COLOR_LAYOUTS)}; UINT8, INT16, INT32 or FLOAT.")
_BRIGHTNESS = (
    Argument("brightness", Kind.FLOAT, "Factor of the values.", 1.0, per_sample=True),
    Argument(
        "brightness_shift",
        Kind.FLOAT,
        "Added to values, in units of the output dtype's largest value, or of 1 for FLOAT.",
        0.0,
        per_sample=True,
    ),
)
_CONTRAST = (
    Argument("contrast", Kind.FLOAT, "Factor of the distance of values from the centre.", 1.0, per_sample=True),
    Argument(
        "contrast_center",
        Kind.FLOAT,
        "The value that `contrast` doesn't change; by default half of the positive range of the input's dtype, 0.5 for "
        "FLOAT.",
        per_sample=True,
    ),
)
_DTYPE = Argument("dtype", Kind.DTYPE, "Dtype of the output: UINT8, INT16, INT32 or FLOAT; the input's by default.")

BRIGHTNESS = declare_operator(
    name="brightness",
    doc="""Adjusts brightness: brightness_shift * range + brightness * value.

The range is the largest value of the output's dtype, or 1 for FLOAT.""",
    inputs=(_INPUT,),
    arguments=(*_BRIGHTNESS, _DTYPE),
    devices=("cpu", "gpu"),
)
CONTRAST = declare_operator(
    name="contrast",
    doc="Adjusts contrast: contrast_center + contrast * (value - contrast_center).",
    inputs=(_INPUT,),
    arguments=(*_CONTRAST, _DTYPE),
    devices=("cpu", "gpu"),
)
BRIGHTNESS_CONTRAST = declare_operator(
    name="brightness_contrast",
    doc="""Adjusts contrast, then brightness.

The output is brightness_shift * range + brightness * (contrast_center + contrast * (value - contrast_center)). The
range is the largest value of the output's dtype, or 1 for FLOAT.""",
    inputs=(_INPUT,),
    arguments=(*_BRIGHTNESS, *_CONTRAST, _DTYPE),
    devices=("cpu", "gpu"),
)


@dataclass(frozen=True)
class _Coefficients:
    """The arguments of all samples, as arrays of (batch,).

    Attributes:
        brightness: factors of the values.
        shift: offsets, in units of the output's range.
        contrast: factors of the distance from the centre.
        center: values that contrast doesn't change; None for the default, which depends on the input's dtype.
    """

    brightness: Array
    shift: Array
    contrast: Array
    center: Array | None

    @classmethod
    def from_arguments(cls, arguments: Arguments, size: int) -> _Coefficients:
        one, zero = np.ones(size), np.zeros(size)

        def values(name: str, default: Array) -> Array:
            scalars = arguments.optional(arguments.scalars, name)
            return default if scalars is None else scalars

        return cls(
            values("brightness", one),
            values("brightness_shift", zero),
            values("contrast", one),
            arguments.optional(arguments.scalars, "contrast_center"),
        )

    def gains_and_offsets(self, source: np.dtype[Any], target: np.dtype[Any]) -> tuple[Array, Array]:
        """Return gains and offsets of all samples, (batch,) each."""
        center = _half_range(source) if self.center is None else self.center
        span = _span(target)
        offset = self.shift * span + self.brightness * (center - self.contrast * center)
        return self.brightness * self.contrast, offset


@cache
def _span(dtype: np.dtype[Any]) -> int:
    return 1 if dtype.kind == "f" else int(np.iinfo(dtype).max)


@cache
def _half_range(dtype: np.dtype[Any]) -> float:
    return 0.5 if dtype.kind == "f" else (int(np.iinfo(dtype).max) + 1) / 2


@dataclass(frozen=True)
class _State:
    coefficients: _Coefficients
    dtype: np.dtype[Any] | None


@implements(BRIGHTNESS, "cpu")
@implements(CONTRAST, "cpu")
@implements(BRIGHTNESS_CONTRAST, "cpu")
class BrightnessContrastCpu(SampleOperator[_State]):
    """Uses a table of 256 values for bytes, else one multiplication and one addition."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        (data,) = inputs
        layout, known = layout_and_extents(batch, self.node, inputs, COLOR_LAYOUTS)
        dtype = output_dtype(self.node, _DTYPES)
        state = _State(_Coefficients.from_arguments(batch.arguments(self.node), batch.size), dtype)
        return state, [describe(layout, known, dtype or data.dtype)]

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        check_samples(data.dtype, _DTYPES)
        if out is None:
            out = np.empty(data.shape, state.dtype or data.dtype)
        gains, offsets = state.coefficients.gains_and_offsets(data.dtype, out.dtype)
        return scale_shift(data, float(gains[sample]), float(offsets[sample]), out)


@implements(BRIGHTNESS, "gpu")
@implements(CONTRAST, "gpu")
@implements(BRIGHTNESS_CONTRAST, "gpu")
class BrightnessContrastGpu(PixelOperator):
    """Multiplies and adds, in the kernel of the operators around it."""

    traits = replace(PixelOperator.traits, planewise=True)
    layouts = COLOR_LAYOUTS

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        layout = choose_layout(pixels.layout, pixels.ndim, COLOR_LAYOUTS)
        check_samples(pixels.dtype, _DTYPES)
        dtype = output_dtype(self.node, _DTYPES) or pixels.dtype
        coefficients = _Coefficients.from_arguments(batch.arguments(self.node), batch.size)
        gains, offsets = coefficients.gains_and_offsets(pixels.dtype, dtype)
        return pixels.named(layout).normalize(gains[:, None], offsets[:, None], dtype)
