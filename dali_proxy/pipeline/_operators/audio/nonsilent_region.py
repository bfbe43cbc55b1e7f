"""Detection of leading and trailing silence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._audio.silence import nonsilent_region
from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._kernels.audio.silence import SilencePlan
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate, samples_of
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_specs import describe
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array


def _check(node: GraphNode) -> None:
    if node.argument("window_length") < 1:
        raise ArgumentValueError(f"argument 'window_length' must be 1 or more, not {node.argument('window_length')}")
    reference = node.argument("reference_power")
    if reference is not None and not reference > 0:
        raise ArgumentValueError(f"`reference_power` has to be positive. Got: {reference}")


NONSILENT_REGION = declare_operator(
    name="nonsilent_region",
    doc="""Finds the part of a signal without the silence at its start and end.

A window is silent if its mean power is below `cutoff_db`, relative to `reference_power`. The outputs are the first
sample of the first window that isn't silent, and the number of samples up to the end of the last one, both int32
without dimensions. The length is 0 if the whole signal is silent.""",
    inputs=(Input("data", "Signals, 1-D."),),
    arguments=(
        Argument("cutoff_db", Kind.FLOAT, "Smallest power that isn't silence, in decibels.", -60.0),
        Argument("window_length", Kind.INT, "Length of the windows, in samples.", 2048),
        Argument(
            "reference_power", Kind.FLOAT, "Power of 0 dB; by default the largest power of a window in the sample."
        ),
        Argument("reset_interval", Kind.INT, "Accepted for compatibility; sums are precise for any length.", 8192),
    ),
    devices=("cpu", "gpu"),
    outputs=2,
    check=_check,
)


def _check_signal(shape: Sequence[int], dtype: np.dtype[Any]) -> None:
    if len(shape) != 1 or not all(shape) or dtype.kind not in "iuf":
        raise ArgumentValueError(
            f"the samples must be signals: 1-D, not empty, and numbers; not of shape {tuple(shape)} and dtype {dtype}"
        )


@implements(NONSILENT_REGION, "cpu")
class NonsilentRegion(SampleOperator[None]):
    """Sums squares in 64 bits: exactly for integers of 8 and 16 bits, otherwise in double precision."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[None, Sequence[OutputSpec]]:
        return None, [describe("", (), np.dtype(np.int32))] * 2

    def run(self, state: None, sample: int, inputs: Sequence[Array], out: Array | None) -> tuple[Array, ...]:
        (data,) = inputs
        _check_signal(data.shape, data.dtype)
        window, cutoff, reference = map(self.node.argument, ("window_length", "cutoff_db", "reference_power"))
        start, length = nonsilent_region(data, window, cutoff, reference)
        return np.array(start, np.int32), np.array(length, np.int32)


@implements(NONSILENT_REGION, "gpu")
class NonsilentRegionGpu(GpuOperator):
    """Slides over the signals in three launches per batch."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = self.contiguous(inputs[0], batch.stream)
        source = samples_of(data)
        for shape in source.shapes.tolist():
            _check_signal(shape, source.dtype)
        (start, starts), (length, lengths) = (allocate(source.shapes[:, :0], np.dtype(np.int32)) for _ in range(2))
        window, cutoff, reference = map(self.node.argument, ("window_length", "cutoff_db", "reference_power"))
        plan = SilencePlan(source, starts, lengths, window=window, cutoff=cutoff, reference=reference)
        self.launch(plan, batch)
        return [start, length]
