"""Distorts images as JPEG compression does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import simplejpeg

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._kernels.jpeg import JpegPlan
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate, samples_of
from dali_proxy.pipeline._operator_api.layouts import choose_layout
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_dtype import check_samples
from dali_proxy.pipeline._operator_api.output_specs import describe, layout_and_extents
from dali_proxy.pipeline._operators.geometry.resize_launches import frames
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import UINT8

_LAYOUTS = ("HWC", "FHWC")

JPEG_COMPRESSION_DISTORTION = declare_operator(
    name="jpeg_compression_distortion",
    doc="Compresses images as JPEG with 4:2:0 chroma subsampling, and decompresses them.",
    inputs=(Input("data", "UINT8 RGB images or sequences, HWC or FHWC."),),
    arguments=(Argument("quality", Kind.INT, "JPEG quality; clamped to 1 to 100.", 50, per_sample=True),),
    devices=("cpu", "gpu"),
)


def _qualities(node: GraphNode, batch: Batch) -> Int64s:
    quality = batch.arguments(node).scalars("quality", np.int64)
    return np.clip(quality, 1, 100)


def _check(dtype: np.dtype[Any], channels: int) -> None:
    check_samples(dtype, (UINT8,))
    if channels != 3:
        raise ArgumentValueError(f"the images have {channels} channels, but must have 3")


@implements(JPEG_COMPRESSION_DISTORTION, "cpu")
class JpegDistortionCpu(SampleOperator[list[int]]):
    """Encodes and decodes; the state is the quality of each sample."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[list[int], Sequence[OutputSpec]]:
        layout, known = layout_and_extents(batch, self.node, inputs, _LAYOUTS)
        return _qualities(self.node, batch).tolist(), [describe(layout, known, np.dtype(np.uint8))]

    def run(self, state: list[int], sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        _check(data.dtype, data.shape[-1])
        output = np.empty(data.shape, np.uint8) if out is None else out
        for index in np.ndindex(*data.shape[:-3]):
            _distort(data[index], state[sample], output[index])
        return output


def _distort(image: Array, quality: int, out: Array) -> None:
    if not image.size:
        return
    options = [
        *(cv2.IMWRITE_JPEG_QUALITY, quality),
        *(cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420),
    ]
    _, encoded = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), options)
    buffer = out if out.flags.c_contiguous else np.empty(out.shape, np.uint8)
    simplejpeg.decode_jpeg(encoded, fastdct=False, fastupsample=False, buffer=buffer)  # the bits of OpenCV, as RGB
    if buffer is not out:
        np.copyto(out, buffer)


@implements(JPEG_COMPRESSION_DISTORTION, "gpu")
class JpegDistortionGpu(GpuOperator):
    """Two launches per batch, which compute the same pixels as the CPU."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = self.contiguous(inputs[0], batch.stream)
        layout = choose_layout(data.layout(), data.ndim, _LAYOUTS)
        source = samples_of(data)
        for channels in set(source.shapes[:, -1].tolist()):
            _check(source.dtype, channels)
        output, target = allocate(source.shapes, source.dtype, layout)
        images, owners = frames(source, len(layout) - 3)
        results, _ = frames(target, len(layout) - 3)
        quality = _qualities(self.node, batch)[owners]
        self.launch(JpegPlan(images, results, quality), batch)
        return [output]
