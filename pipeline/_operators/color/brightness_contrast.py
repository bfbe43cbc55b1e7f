"""Brightness and contrast: every value of a picture is scaled and shifted alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._imaging import scale_shift
from pipeline._kernels import strided_copy
from pipeline._operator_api.arguments import Arguments
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import GpuOperator, allocate, samples_of
from pipeline._operator_api.layouts import COLOR_LAYOUTS, choose_layout
from pipeline._operator_api.operator import OutputSpec, SampleOperator
from pipeline._operator_api.output_dtype import check_dtype, check_samples
from pipeline._operator_api.output_specs import describe, known_extents
from pipeline.tensors.cpu import Array
from pipeline.types import FLOAT, INT16, INT32, UINT8

__all__ = ["BRIGHTNESS", "BRIGHTNESS_CONTRAST", "CONTRAST"]

_DTYPES = (UINT8, INT16, INT32, FLOAT)

_INPUT = Input("data", f"Images, of one of the layouts {', '.join(COLOR_LAYOUTS)}; UINT8, INT16, INT32 or FLOAT.")
_BRIGHTNESS = (
    Argument("brightness", Kind.FLOAT, "Multiplies values.", 1.0, per_sample=True),
    Argument(
        "brightness_shift",
        Kind.FLOAT,
        "Added to values; 1 stands for the largest value of the output's dtype, or for 1 where it is FLOAT.",
        0.0,
        per_sample=True,
    ),
)
_CONTRAST = (
    Argument("contrast", Kind.FLOAT, "Multiplies how far values are from the centre.", 1.0, per_sample=True),
    Argument(
        "contrast_center",
        Kind.FLOAT,
        "The value that contrast leaves as it is; by default half of the positive range of the input's dtype, "
        "0.5 where it is FLOAT.",
        per_sample=True,
    ),
)
_DTYPE = Argument("dtype", Kind.DTYPE, "Dtype of the output: UINT8, INT16, INT32 or FLOAT; the input's by default.")

BRIGHTNESS = register(
    OperatorSchema(
        name="brightness",
        doc="Adjusts brightness: brightness_shift * range + brightness * value.",
        inputs=(_INPUT,),
        arguments=(*_BRIGHTNESS, _DTYPE),
        devices=("cpu", "gpu"),
    )
)
CONTRAST = register(
    OperatorSchema(
        name="contrast",
        doc="Adjusts contrast: contrast_center + contrast * (value - contrast_center).",
        inputs=(_INPUT,),
        arguments=(*_CONTRAST, _DTYPE),
        devices=("cpu", "gpu"),
    )
)
BRIGHTNESS_CONTRAST = register(
    OperatorSchema(
        name="brightness_contrast",
        doc="""Adjusts contrast, then brightness.

The output is brightness_shift * range + brightness * (contrast_center + contrast * (value - contrast_center)).""",
        inputs=(_INPUT,),
        arguments=(*_BRIGHTNESS, *_CONTRAST, _DTYPE),
        devices=("cpu", "gpu"),
    )
)


@dataclass(frozen=True)
class _Line:
    """The arguments of all samples; arrays of (batch,).

    Attributes:
        center: None for the default, which the input's dtype decides.
    """

    brightness: Array
    shift: Array
    contrast: Array
    center: Array | None

    @classmethod
    def of(cls, arguments: Arguments, size: int) -> _Line:
        one, zero = np.ones(size), np.zeros(size)

        def values(name: str, default: Array) -> Array:
            found = arguments.scalars(name)
            return default if found is None else found

        return cls(
            values("brightness", one),
            values("brightness_shift", zero),
            values("contrast", one),
            arguments.scalars("contrast_center"),
        )

    def coefficients(self, source: np.dtype[Any], target: np.dtype[Any]) -> tuple[Array, Array]:
        """Return gain and offset of all samples, (batch,) each."""
        center = _half_range(source) if self.center is None else self.center
        span = 1 if target.kind == "f" else np.iinfo(target).max
        offset = self.shift * span + self.brightness * (center - self.contrast * center)
        return self.brightness * self.contrast, offset


def _half_range(dtype: np.dtype[Any]) -> float:
    return 0.5 if dtype.kind == "f" else (int(np.iinfo(dtype).max) + 1) / 2


@dataclass(frozen=True)
class _State:
    line: _Line
    dtype: np.dtype[Any] | None


@implements(BRIGHTNESS, "cpu")
@implements(CONTRAST, "cpu")
@implements(BRIGHTNESS_CONTRAST, "cpu")
class BrightnessContrastCpu(SampleOperator[_State]):
    """A table of 256 values for bytes, one multiplication and one addition otherwise."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        (data,) = inputs
        known = known_extents(batch, self.node, inputs)
        layout = choose_layout(data.layout, None if known is None else len(known), COLOR_LAYOUTS)
        wanted = self.node.argument("dtype")
        dtype = None if wanted is None else check_dtype(wanted, _DTYPES)
        state = _State(_Line.of(batch.arguments(self.node), batch.size), dtype)
        return state, [describe(layout, known, dtype or data.dtype)]

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        check_samples(data.dtype, _DTYPES)
        if out is None:
            out = np.empty(data.shape, state.dtype or data.dtype)
        gains, offsets = state.line.coefficients(data.dtype, out.dtype)
        return scale_shift(data, float(gains[sample]), float(offsets[sample]), out)


@implements(BRIGHTNESS, "gpu")
@implements(CONTRAST, "gpu")
@implements(BRIGHTNESS_CONTRAST, "gpu")
class BrightnessContrastGpu(GpuOperator):
    """One launch a batch."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        layout = choose_layout(data.layout(), data.ndim, COLOR_LAYOUTS)
        source = samples_of(data)
        check_samples(source.dtype, _DTYPES)
        wanted = self.node.argument("dtype")
        dtype = source.dtype if wanted is None else check_dtype(wanted, _DTYPES)
        gains, offsets = _Line.of(batch.arguments(self.node), batch.size).coefficients(source.dtype, dtype)
        made, target = allocate(source.shapes, dtype, layout)
        strided_copy(self.kernels, batch.stream, source, target, scale=gains[:, None], bias=offsets[:, None])
        return [made]
