"""Resampling of audio, and the conversion between audio dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline._audio.resampling import check_quality, resample, to_range
from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._imaging import convert
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from pipeline._operator_api.output_dtype import check_dtype, check_samples
from pipeline._operator_api.output_specs import describe, unknown_extents
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array
from pipeline.types import DALIDataType

__all__ = ["AUDIO_RESAMPLE", "QUALITY"]

_DTYPES = (
    DALIDataType.INT8,
    DALIDataType.UINT8,
    DALIDataType.INT16,
    DALIDataType.UINT16,
    DALIDataType.INT32,
    DALIDataType.UINT32,
    DALIDataType.FLOAT,
)
#: Argument of all operators that resample audio.
QUALITY = Argument(
    "quality",
    Kind.FLOAT,
    "Quality from 0 to 100: the filter has 3 lobes on each side at 0, 16 at 50 and 64 at 100.",
    50.0,
)

AUDIO_RESAMPLE = register(
    OperatorSchema(
        name="audio_resample",
        doc="""Resamples audio with a sinc filter that has a Hann window.

One of these is required: `scale`, `out_length`, or `in_rate` and `out_rate`. If the dtype changes, values are scaled to
its range: -1 to 1 for real numbers; the middle of the range is silence for unsigned integers.""",
        inputs=(Input("data", "Signals, 1-D, or 2-D with channels last."),),
        arguments=(
            Argument("dtype", Kind.DTYPE, "Dtype of the output; by default the input's."),
            Argument("in_rate", Kind.FLOAT, "Sample rate of the input; needs `out_rate`.", None, per_sample=True),
            Argument("out_rate", Kind.FLOAT, "Sample rate of the output, in any unit.", None, per_sample=True),
            Argument("out_length", Kind.INT, "Number of samples of the output.", None, per_sample=True),
            Argument("scale", Kind.FLOAT, "Ratio of the sample rates, output to input.", None, per_sample=True),
            QUALITY,
        ),
    )
)


@dataclass(frozen=True)
class _Sizes:
    """The new size of each sample: a ratio of sample rates, or a length."""

    scales: Array | None
    lengths: Array | None

    def resolve(self, sample: int, length: int) -> tuple[float, int]:
        """Return the ratio and the new length for a sample of some length."""
        if self.lengths is not None:
            wanted = int(self.lengths[sample])
            if wanted < 0:
                raise ArgumentValueError(f"argument 'out_length' must be 0 or more, not {wanted}")
            if wanted and not length:
                raise ArgumentValueError("Cannot produce a non-empty signal from an empty input")
            return wanted / max(1, length), wanted
        assert self.scales is not None
        scale = float(self.scales[sample])
        if not 0 <= scale < np.inf:
            raise ArgumentValueError(f"the ratio of the sample rates must be finite and 0 or more, not {scale}")
        return scale, int(np.ceil(length * scale))


@implements(AUDIO_RESAMPLE, "cpu")
class AudioResample(SampleOperator[_Sizes]):
    """Computes in single precision."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        try:
            check_quality(node.argument("quality"))
        except ValueError as error:
            raise ArgumentValueError(str(error)) from error

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_Sizes, Sequence[OutputSpec]]:
        dtype = self._dtype(inputs[0].dtype)
        return self._sizes(batch), [describe(inputs[0].layout, unknown_extents(batch, self.node, inputs), dtype)]

    def run(self, state: _Sizes, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        if data.ndim not in (1, 2):
            raise ArgumentValueError(
                f"the samples must be signals of 1 dimension, or of 2 with channels last, not of shape {data.shape}"
            )
        check_samples(data.dtype, _DTYPES)
        dtype = self._dtype(data.dtype)
        assert dtype is not None
        scale, length = state.resolve(sample, len(data))
        signal = to_range(data, dtype).reshape(len(data), data.shape[1] if data.ndim == 2 else 1)
        result = resample(signal, scale, length, self.node.argument("quality"))
        return convert(result.reshape(length, *data.shape[1:]), dtype)

    def _dtype(self, source: np.dtype[Any] | None) -> np.dtype[Any] | None:
        wanted = self.node.argument("dtype")
        return source if wanted is None else check_dtype(wanted, _DTYPES)

    def _sizes(self, batch: Batch) -> _Sizes:
        arguments = batch.arguments(self.node)
        rates = [arguments.given(name) for name in ("in_rate", "out_rate")]
        if rates[0] != rates[1]:
            raise ArgumentValueError("arguments 'in_rate' and 'out_rate' must be specified together")
        ways = (rates[0], arguments.given("scale"), arguments.given("out_length"))
        if sum(ways) != 1:
            what = "are used together" if any(ways) else "are all missing"
            raise ArgumentValueError(
                f"'scale', 'out_length', and the sampling rates 'in_rate' and 'out_rate' {what}: pass one of these"
            )
        if ways[0]:
            before, after = (arguments.scalars(name, np.float32) for name in ("in_rate", "out_rate"))
            assert before is not None
            assert after is not None
            if not (before > 0).all() or not (after > 0).all():
                raise ArgumentValueError("arguments 'in_rate' and 'out_rate' must be more than 0")
            return _Sizes(after.astype(np.float64) / before, None)
        return _Sizes(arguments.scalars("scale", np.float32), arguments.scalars("out_length", np.int64))
