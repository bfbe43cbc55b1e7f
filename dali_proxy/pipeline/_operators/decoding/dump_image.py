"""Writes images to files, to look at what a pipeline produces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, each_sample
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_dtype import check_samples
from dali_proxy.pipeline._operator_api.output_specs import describe, known_extents
from dali_proxy.pipeline._operator_api.traits import Traits
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import UINT8


def _check_layout(node: GraphNode) -> None:
    if node.argument("input_layout") != "HWC":
        raise ArgumentValueError(f"argument 'input_layout' must be 'HWC', not {node.argument('input_layout')!r}")


DUMP_IMAGE = declare_operator(
    name="dump_image",
    doc="""Writes each image to a file in the current folder, and returns the images unchanged.

It runs even if no output of the pipeline depends on it. The file of sample 3 is `3-{suffix}-0.ppm`, in the format PPM,
or PGM for grey images. Each batch overwrites the files of the last one.""",
    inputs=(Input("data", "Images, HWC, UINT8 with 1 or 3 channels; 3 channels are RGB."),),
    arguments=(
        Argument("suffix", Kind.STRING, "Part of the names of the files.", ""),
        Argument("input_layout", Kind.LAYOUT, 'Layout of the images: "HWC".', "HWC"),
    ),
    devices=("cpu", "gpu"),
    side_effects=True,
    check=_check_layout,
)


def _write(image: Array, sample: int, suffix: str) -> None:
    check_samples(image.dtype, (UINT8,))
    if image.ndim != 3 or image.shape[2] not in (1, 3):
        raise PipelineError(f"images must be HWC with 1 or 3 channels, but the shape of the sample is {image.shape}")
    height, width, channels = image.shape
    header = f"P{6 if channels == 3 else 5}\n{width} {height}\n255\n"
    Path(f"{sample}-{suffix}-0.ppm").write_bytes(header.encode() + image.tobytes())


@implements(DUMP_IMAGE, "cpu")
class DumpImage(SampleOperator[None]):
    """Writes a file for each sample."""

    traits = Traits(waits=True)

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[None, Sequence[OutputSpec]]:
        (data,) = inputs
        return None, [describe(data.layout, known_extents(batch, self.node, inputs), data.dtype)]

    def run(self, state: None, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (image,) = inputs
        _write(image, sample, self.node.argument("suffix"))
        if out is None:
            return image
        np.copyto(out, image)
        return out


@implements(DUMP_IMAGE, "gpu")
class DumpImageGpu(GpuOperator):
    """Waits for the images, and writes them one after the other."""

    traits = replace(GpuOperator.traits, waits=True, only_launches=False, repeatable=False)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        write = partial(_write, suffix=self.node.argument("suffix"))
        each_sample(write, self.on_host(inputs[0], batch), range(batch.size))
        return inputs
