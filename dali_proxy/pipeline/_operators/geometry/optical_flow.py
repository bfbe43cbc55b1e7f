"""`optical_flow`: the motion of pixels between frames, by OpenCV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import cv2
import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging.convert import convert_color
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, each_sample
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from dali_proxy.pipeline._operator_api.output_specs import describe, known_extents
from dali_proxy.pipeline._operator_api.upload import upload
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU
from dali_proxy.pipeline.types import RGB

_LAYOUT = "FHWC"
_GRIDS, _HINT_GRIDS = (1, 2, 4), (1, 2, 4, 8)
_PRESETS = {
    0.0: cv2.DISOPTICAL_FLOW_PRESET_MEDIUM,
    0.5: cv2.DISOPTICAL_FLOW_PRESET_FAST,
    1.0: cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST,
}
_COLORS = ("RGB", "BGR", "GRAY")

OPTICAL_FLOW = declare_operator(
    name="optical_flow",
    doc="""Computes the motion of pixels between successive frames.

The output is float32 of shape (frames - 1, height / `output_grid`, width / `output_grid`, 2): x and y, in pixels of the
input, from each frame to the next one. The method is OpenCV's dense inverse search (Kroeger et al. 2016), which runs on
the CPU: frames on the GPU are copied there, and their vectors back. DALI uses the optical flow engine of NVIDIA's GPUs
instead, so its vectors differ.""",
    inputs=(
        Input("data", "Sequences, uint8, FHWC."),
        Input("hints", "With `enable_external_hints`: vectors to start from, FHWC like the output.", True),
    ),
    arguments=(
        Argument("preset", Kind.FLOAT, "0 for the best quality, 0.5, or 1 for the highest speed.", 0.0),
        Argument("output_grid", Kind.INT, "Width of the squares of pixels that share a vector: 1, 2 or 4.", 4),
        Argument("output_format", Kind.INT, "Deprecated name of `output_grid`.", replaced_by="output_grid"),
        Argument("enable_temporal_hints", Kind.BOOL, "Start from the vectors of the previous frames.", False),
        Argument("enable_external_hints", Kind.BOOL, "Start from the second input.", False),
        Argument("hint_grid", Kind.INT, "Width of the squares of the second input: 1, 2, 4 or 8.", 4),
        Argument("image_type", Kind.IMAGE_TYPE, "Color space of the frames: RGB, BGR or GRAY.", RGB),
    ),
    devices=("cpu", "gpu"),
)


@implements(OPTICAL_FLOW, "cpu")
class OpticalFlowCpu(SampleOperator[None]):
    """Computes the vectors of all pixels, and returns the means of squares."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        argument = node.argument
        for name, known in (("preset", tuple(_PRESETS)), ("output_grid", _GRIDS), ("hint_grid", _HINT_GRIDS)):
            if argument(name) not in known:
                raise ArgumentValueError(
                    f"argument {name!r} must be one of {', '.join(map(str, known))}, not {argument(name)}"
                )
        self._color = argument("image_type").name
        if self._color not in _COLORS:
            raise ArgumentValueError(f"argument 'image_type' must be one of {', '.join(_COLORS)}, not {self._color}")
        if argument("enable_external_hints") != (len(node.inputs) == 2):
            raise ArgumentValueError("the second input needs enable_external_hints=True, and the reverse")
        self._grid: int = argument("output_grid")

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[None, Sequence[OutputSpec]]:
        known = known_extents(batch, self.node, inputs)
        extents = None
        if known is not None and len(known) == len(_LAYOUT):
            frames, *size, _ = known
            cells = [None if extent is None else -(-extent // self._grid) for extent in size]
            extents = (None if frames is None else frames - 1, *cells, 2)
        return None, [describe(_LAYOUT, extents, np.dtype(np.float32))]

    def run(self, state: None, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        data = inputs[0]
        if data.ndim != len(_LAYOUT) or data.dtype != np.uint8 or len(data) < 2:
            raise ArgumentValueError(
                f"the samples must be sequences of 2 or more frames, uint8 in FHWC, not {data.dtype} of {data.shape}"
            )
        gray = convert_color(data, self._color, "GRAY")[..., 0]
        argument = self.node.argument
        search = cv2.DISOpticalFlow.create(_PRESETS[argument("preset")])
        hints = _enlarged(inputs[1], argument("hint_grid"), gray.shape) if len(inputs) == 2 else None
        results, flow = [], None
        for number in range(len(gray) - 1):
            before = hints[number] if hints is not None else flow if argument("enable_temporal_hints") else None
            flow = self._search(search, gray[number], gray[number + 1], before)
            results.append(_means(flow, self._grid))
        return np.stack(results)

    @staticmethod
    def _search(search: Any, first: Array, second: Array, before: Array | None) -> Array:
        try:
            flow: Array = search.calc(first, second, None if before is None else before.copy())
        except cv2.error as error:
            raise PipelineError(f"OpenCV can't compute the flow of frames of {first.shape}: {error}") from error
        return flow


@implements(OPTICAL_FLOW, "gpu")
class OpticalFlowGpu(GpuOperator):
    """Copies the frames to the CPU, and the vectors to the GPU."""

    traits = replace(GpuOperator.traits, waits=True, only_launches=False, repeatable=False)

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._search = OpticalFlowCpu(node, setup)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        samples = zip(*(self.on_host(each, batch) for each in inputs), strict=True)
        vectors = each_sample(lambda given: self._search.run(None, 0, given, None), samples)
        return [upload(batch, TensorListCPU(vectors, _LAYOUT))]


def _means(flow: Array, grid: int) -> Array:
    """Return the mean vectors of squares of pixels; those at the end repeat the last pixels."""
    height, width, _ = flow.shape
    padded = np.pad(flow, ((0, -height % grid), (0, -width % grid), (0, 0)), mode="edge")
    cells = padded.reshape(padded.shape[0] // grid, grid, padded.shape[1] // grid, grid, 2)
    return cells.mean(axis=(1, 3))


def _enlarged(hints: Array, grid: int, frames: Sequence[int]) -> Array:
    """Return a vector for each pixel of all frames but the last."""
    count, height, width = frames
    expected = (count - 1, -(-height // grid), -(-width // grid), 2)
    if hints.shape != expected:
        raise ArgumentValueError(f"the hints have shape {hints.shape}, but the frames need {expected}")
    return hints.astype(np.float32).repeat(grid, axis=1).repeat(grid, axis=2)[:, :height, :width]
