"""Detection of leading and trailing silence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline._audio.silence import nonsilent_region
from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from pipeline._operator_api.output_specs import describe
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array

__all__ = ["NONSILENT_REGION"]

NONSILENT_REGION = register(
    OperatorSchema(
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
        outputs=2,
    )
)


@implements(NONSILENT_REGION, "cpu")
class NonsilentRegion(SampleOperator[None]):
    """Sums squares in 64 bits: exactly for integers of 8 and 16 bits, otherwise in double precision."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        if node.argument("window_length") < 1:
            raise ArgumentValueError(
                f"argument 'window_length' must be 1 or more, not {node.argument('window_length')}"
            )
        reference = node.argument("reference_power")
        if reference is not None and not reference > 0:
            raise ArgumentValueError(f"argument 'reference_power' must be more than 0, not {reference}")

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[None, Sequence[OutputSpec]]:
        return None, [describe("", (), np.dtype(np.int32))] * 2

    def run(self, state: None, sample: int, inputs: Sequence[Array], out: Array | None) -> tuple[Array, ...]:
        (data,) = inputs
        if data.ndim != 1 or not data.size or data.dtype.kind not in "iuf":
            raise ArgumentValueError(
                f"the samples must be signals: 1-D, not empty, and numbers; not of shape {data.shape} and dtype "
                f"{data.dtype}"
            )
        window, cutoff, reference = map(self.node.argument, ("window_length", "cutoff_db", "reference_power"))
        start, length = nonsilent_region(data, window, cutoff, reference)
        return np.array(start, np.int32), np.array(length, np.int32)
