"""The power spectrum along one axis of samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dali_proxy.pipeline._audio.spectrum import power_spectrum
from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from dali_proxy.pipeline._operator_api.output_specs import describe, unknown_extents
from dali_proxy.pipeline._operators.audio.signals import as_floats, check_axis, check_power
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array

POWER_SPECTRUM = declare_operator(
    name="power_spectrum",
    doc="""Computes the power spectrum of signals: the squared magnitudes of their Fourier transform.

The output is float32 and has only the non-negative frequencies: `nfft` // 2 + 1 of them.""",
    inputs=(Input("data", "Numbers, of any shape; computed in float32."),),
    arguments=(
        Argument("nfft", Kind.INT, "Size of the transform; by default the extent of the axis."),
        Argument("power", Kind.INT, "Exponent of the magnitudes: 1 or 2.", 2),
        Argument("axis", Kind.INT, "Axis to transform; negative ones count from the end.", -1),
    ),
)


@implements(POWER_SPECTRUM, "cpu")
class PowerSpectrum(SampleOperator[None]):
    """Transforms samples with pocketfft, in single precision."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._power = check_power(node.argument("power"))
        self._size = node.argument("nfft") or 0

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[None, Sequence[OutputSpec]]:
        return None, [describe(inputs[0].layout, unknown_extents(batch, self.node, inputs), np.dtype(np.float32))]

    def run(self, state: None, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        data = as_floats(inputs[0])
        axis = check_axis(self.node.argument("axis"), data.ndim)
        size = self._size if self._size > 0 else data.shape[axis]
        if not size:
            raise ArgumentValueError(f"a sample of shape {data.shape} has no elements to transform")
        return power_spectrum(data, size, self._power, axis)
