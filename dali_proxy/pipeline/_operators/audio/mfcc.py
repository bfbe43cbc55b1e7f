"""Mel frequency cepstral coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from dali_proxy.pipeline._audio.cepstrum import DCT_TYPES, cosine_matrix, transform_axis
from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._kernels.audio.matrix_axis import AxisMatrices, plan_matrix_axis
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate, samples_of
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from dali_proxy.pipeline._operator_api.output_specs import describe, unknown_extents
from dali_proxy.pipeline._operators.audio.signals import as_floats, check_axis, check_numbers
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array


def _check(node: GraphNode) -> None:
    argument = node.argument
    kind = argument("dct_type")
    if kind not in DCT_TYPES:
        raise ArgumentValueError(f"Unsupported DCT type: {kind}. Supported types are: 1, 2, 3, 4")
    if kind == 1 and argument("normalize"):
        raise ArgumentValueError("Ortho-normalization is not supported for DCT type I: it has no such basis")
    if argument("n_mfcc") < 1:
        raise ArgumentValueError(f"number of MFCCs should be > 0, not {argument('n_mfcc')}")
    if argument("axis") < 0:
        raise ArgumentValueError(f"Provided axis cannot be negative: it is {argument('axis')}")


MFCC = declare_operator(
    name="mfcc",
    doc="""Computes mel frequency cepstral coefficients of mel spectrograms: their discrete cosine transform.

The output is float32. It has at most as many coefficients as the axis has entries.""",
    inputs=(Input("data", "Mel spectrograms, usually in decibels; computed in float32."),),
    arguments=(
        Argument("n_mfcc", Kind.INT, "Number of coefficients.", 20),
        Argument("dct_type", Kind.INT, "Type of the discrete cosine transform: 1 to 4.", 2),
        Argument("normalize", Kind.BOOL, "Use an orthonormal basis; not with `dct_type=1`.", False),
        Argument("axis", Kind.INT, "Axis to transform.", 0),
        Argument(
            "lifter",
            Kind.FLOAT,
            "If it isn't 0, multiply coefficient i by 1 + lifter / 2 * sin(pi * (i + 1) / lifter).",
            0.0,
        ),
    ),
    devices=("cpu", "gpu"),
    check=_check,
)


def _matrix(node: GraphNode, length: int) -> Array:
    """Return the matrix of the transform of vectors of a length."""
    argument = node.argument
    if argument("dct_type") == 1 and length == 1:
        raise ArgumentValueError("DCT type I requires an extent of more than 1")
    return cosine_matrix(
        length,
        min(argument("n_mfcc"), length),
        argument("dct_type"),
        orthonormal=argument("normalize"),
        lifter=argument("lifter"),
    )


@implements(MFCC, "cpu")
class Mfcc(SampleOperator[None]):
    """Multiplies by the matrix of the transform, in single precision."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[None, Sequence[OutputSpec]]:
        return None, [describe(inputs[0].layout, unknown_extents(batch, self.node, inputs), np.dtype(np.float32))]

    def run(self, state: None, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        data = as_floats(inputs[0])
        axis = check_axis(self.node.argument("axis"), data.ndim)
        return transform_axis(_matrix(self.node, data.shape[axis]), data, axis)


@implements(MFCC, "gpu")
class MfccGpu(GpuOperator):
    """One launch per batch."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._matrices = AxisMatrices(partial(_matrix, node))

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = self.contiguous(inputs[0], batch.stream)
        source, axis = samples_of(data), check_axis(self.node.argument("axis"), data.ndim)
        check_numbers(source.dtype)
        shapes = source.shapes.copy()
        shapes[:, axis] = np.minimum(self.node.argument("n_mfcc"), shapes[:, axis])
        output, target = allocate(shapes, np.dtype(np.float32), data.layout())
        self.launch(plan_matrix_axis(source, target, axis, self._matrices), batch)
        return [output]
