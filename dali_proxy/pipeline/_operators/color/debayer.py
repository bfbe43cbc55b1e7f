"""Computes colour images from the mosaics of sensors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

import cv2
import numpy as np

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import each_sample
from dali_proxy.pipeline._operator_api.layouts import choose_layout
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_dtype import check_samples
from dali_proxy.pipeline._operator_api.output_specs import describe, known_extents
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import UINT8, UINT16, DALIDataType

_LAYOUTS = ("HW", "HWC", "FHW", "FHWC")

#: Conversions of OpenCV by algorithm, for blue at (0, 0), (0, 1), (1, 0) and (1, 1).
_CODES = {
    "bilinear_ocv": (
        cv2.COLOR_BayerBG2RGB, cv2.COLOR_BayerGB2RGB, cv2.COLOR_BayerGR2RGB, cv2.COLOR_BayerRG2RGB
    ),
    "edgeaware_ocv": (
        cv2.COLOR_BayerBG2RGB_EA, cv2.COLOR_BayerGB2RGB_EA, cv2.COLOR_BayerGR2RGB_EA, cv2.COLOR_BayerRG2RGB_EA
    ),
    "vng_ocv": (
        cv2.COLOR_BayerBG2RGB_VNG, cv2.COLOR_BayerGB2RGB_VNG, cv2.COLOR_BayerGR2RGB_VNG, cv2.COLOR_BayerRG2RGB_VNG
    ),
    "gray_ocv": (
        cv2.COLOR_BayerBG2GRAY, cv2.COLOR_BayerGB2GRAY, cv2.COLOR_BayerGR2GRAY, cv2.COLOR_BayerRG2GRAY
    ),
}  # fmt: skip

DEBAYER = declare_operator(
    name="debayer",
    doc="""Computes the colours of images whose pixels have one colour each, in a repeated 2 x 2 tile.

The output is RGB, HWC or FHWC.""",
    inputs=(
        Input(
            "data",
            f"UINT8 or UINT16, of one of the layouts {', '.join(_LAYOUTS)}, with one channel. Height and width "
            "must be even.",
        ),
    ),
    arguments=(
        Argument(
            "blue_position",
            Kind.INTS,
            "Row and column of blue in the 2 x 2 tile that begins in the second row and column: 0 or 1.",
            REQUIRED,
            per_sample=True,
        ),
        Argument(
            "algorithm",
            Kind.STRING,
            'Interpolation: "bilinear_ocv" (the default); "edgeaware_ocv", along edges; "vng_ocv", by a variable '
            'number of gradients, UINT8 and CPU only; "gray_ocv" returns grey images. "default_npp", GPU only, is '
            "bilinear, too.",
            None,
            choices=(*_CODES, "default_npp"),
            unknown="Unsupported debayer algorithm was specified: `{}`.",
        ),
    ),
    devices=("cpu", "gpu"),
)


#: The GPU's algorithms: enum Debayering of neighborhoods.cuh.
_ON_GPU = {"default_npp": 0, "bilinear_ocv": 0, "edgeaware_ocv": 1, "gray_ocv": 2}


def _algorithm(node: GraphNode, known: Collection[str]) -> str:
    algorithm = node.argument("algorithm") or "bilinear_ocv"
    if algorithm not in known:
        raise ArgumentValueError(
            f"{algorithm} algorithm is not supported on {node.device.upper()}. There are {', '.join(known)}"
        )
    return str(algorithm)


def _positions(node: GraphNode, batch: Batch) -> Array:
    """Return row and column of blue in the tile of each sample, (N, 2)."""
    positions = batch.arguments(node).vectors("blue_position", 2, np.int64)
    wrong = ((positions < 0) | (positions > 1)).any(axis=1)
    if wrong.any():
        found = tuple(positions[wrong][0].tolist())
        raise ArgumentValueError(f"The `blue_position` position must lie within 2x2 tile, not at {found}")
    return positions


def _check(shape: Sequence[int], first: int) -> None:
    """Check the shape of a sample whose height is the axis `first`."""
    if len(shape) > first + 2 and shape[-1] != 1:
        raise PipelineError(
            "The debayer operator expects grayscale (i.e. single channel) images, but the shape of the sample is "
            f"{tuple(shape)}"
        )
    height, width = shape[first : first + 2]
    if height % 2 or width % 2:
        raise PipelineError(f"The height and width of the image to debayer must be even, not {height} and {width}")


@dataclass(frozen=True)
class _Mosaics:
    """The mosaics of a batch.

    Attributes:
        sequence: whether samples are sequences.
        codes: conversion of OpenCV for each sample.
        dtypes: dtypes that the algorithm supports.
        channels: number of channels of the output.
    """

    sequence: bool
    codes: list[int]
    dtypes: tuple[DALIDataType, ...]
    channels: int


@implements(DEBAYER, "cpu")
class DebayerCpu(SampleOperator[_Mosaics]):
    """Runs OpenCV for each image."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_Mosaics, Sequence[OutputSpec]]:
        (data,) = inputs
        known = known_extents(batch, self.node, inputs)
        ndim = 2 if known is None and not data.layout else None if known is None else len(known)
        layout = choose_layout(data.layout, ndim, _LAYOUTS)
        algorithm = _algorithm(self.node, _CODES)
        codes = [_CODES[algorithm][2 * row + column] for row, column in _positions(self.node, batch).tolist()]
        sequence = layout[0] == "F"
        channels = 1 if algorithm == "gray_ocv" else 3
        extents = None if known is None else (*known[: sequence + 2], channels)
        dtypes = (UINT8,) if algorithm == "vng_ocv" else (UINT8, UINT16)
        return _Mosaics(sequence, codes, dtypes, channels), [
            describe("FHWC" if sequence else "HWC", extents, data.dtype)
        ]

    def run(self, state: _Mosaics, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        check_samples(data.dtype, state.dtypes)
        shape = data.shape[: state.sequence + 2]
        _check(data.shape, state.sequence)
        if out is None:
            out = np.empty((*shape, state.channels), data.dtype)
        if data.size:
            images = np.ascontiguousarray(data).reshape(shape)
            target = out[..., 0] if state.channels == 1 else out
            if state.sequence:
                for image, written in zip(images, target, strict=True):
                    _convert(image, state.codes[sample], written)
            else:
                _convert(images, state.codes[sample], target)
        return out


def _convert(image: Array, code: int, out: Array) -> None:
    result = cv2.cvtColor(image, code, out if out.flags.c_contiguous else None)
    if result is not out:
        np.copyto(out, result)


@implements(DEBAYER, "gpu")
class DebayerGpu(PixelOperator):
    """Computes each pixel from the 3 x 3 pixels around it."""

    traits = replace(PixelOperator.traits, gathers=True)

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        layout = choose_layout(pixels.layout, pixels.ndim, _LAYOUTS)
        check_samples(pixels.dtype, (UINT8, UINT16))
        each_sample(partial(_check, first=layout[0] == "F"), pixels.shapes.tolist())
        algorithm = _ON_GPU[_algorithm(self.node, _ON_GPU)]
        return pixels.named(layout).debayer(1 - _positions(self.node, batch), algorithm)
