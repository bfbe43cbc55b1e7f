"""Resampling of audio, and the conversion between audio dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dali_proxy.pipeline._audio.resampling import SincFilter, check_quality, range_factors, resample, to_range
from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import convert
from dali_proxy.pipeline._kernels.audio.resample_signal import plan_resample_signal
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate, each_sample, samples_of
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_dtype import check_dtype, check_samples
from dali_proxy.pipeline._operator_api.output_specs import describe, unknown_extents
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import DALIDataType

_DTYPES = (
    DALIDataType.INT8,
    DALIDataType.UINT8,
    DALIDataType.INT16,
    DALIDataType.UINT16,
    DALIDataType.INT32,
    DALIDataType.UINT32,
    DALIDataType.FLOAT,
)
#: Arguments of all operators that resample audio.
QUALITY = Argument(
    "quality",
    Kind.FLOAT,
    "Quality from 0 to 100: the filter has 3 lobes on each side at 0, 16 at 50 and 64 at 100.",
    50.0,
)
ANTIALIAS = Argument(
    "antialias",
    Kind.BOOL,
    "Remove frequencies above half of the lower sample rate. With False, and by default in scripts that import "
    "`nvidia.dali`, they are folded to lower frequencies, as in DALI.",
    True,
    dali_default=False,
)


def _check_quality(node: GraphNode) -> None:
    try:
        check_quality(node.argument("quality"))
    except ValueError as error:
        raise ArgumentValueError(str(error)) from error


AUDIO_RESAMPLE = declare_operator(
    name="audio_resample",
    doc="""Resamples audio with a sinc filter that has a Hann window.

It is a low-pass filter: frequencies up to 0.85 of half of the lower sample rate pass, and those above 1.13 of it lose
at least 44 dB. With `quality` 100, these are 0.97 and 1.03.

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
        ANTIALIAS,
    ),
    devices=("cpu", "gpu"),
    check=_check_quality,
)


@dataclass(frozen=True)
class _Sizes:
    """The new size of each sample: a ratio of sample rates, or a length."""

    scales: Array | None
    lengths: Array | None

    @classmethod
    def from_batch(cls, node: GraphNode, batch: Batch) -> _Sizes:
        arguments = batch.arguments(node)
        rates = [arguments.given(name) for name in ("in_rate", "out_rate")]
        if rates[0] != rates[1]:
            raise ArgumentValueError("The parameters ``in_rate`` and ``out_rate`` must be specified together")
        ways = (rates[0], arguments.given("scale"), arguments.given("out_length"))
        if sum(ways) != 1:
            raise ArgumentValueError(
                "The sampling rates, ``scale`` and ``out_length`` cannot be used together"
                if any(ways)
                else "No resampling factor specified! Please supply either the scale, the output length or the input "
                "and output sampling rates"
            )
        if ways[0]:
            before, after = (arguments.scalars(name, np.float32) for name in ("in_rate", "out_rate"))
            if not (before > 0).all() or not (after > 0).all():
                raise ArgumentValueError("Input and output sampling rates must be positive")
            return cls(after.astype(np.float64) / before, None)
        optional, scalars = arguments.optional, arguments.scalars
        return cls(optional(scalars, "scale", np.float32), optional(scalars, "out_length", np.int64))

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
            raise ArgumentValueError(f"The scaling factor must be non-negative. Got scale == {scale}")
        return scale, int(np.ceil(length * scale))


def _check(shape: Sequence[int], dtype: np.dtype[Any]) -> None:
    if len(shape) not in (1, 2):
        raise ArgumentValueError(
            f"the samples must be signals of 1 dimension, or of 2 with channels last, not of shape {tuple(shape)}"
        )
    check_samples(dtype, _DTYPES)


def _dtype(node: GraphNode, source: np.dtype[Any]) -> np.dtype[Any]:
    wanted = node.argument("dtype")
    return source if wanted is None else check_dtype(wanted, _DTYPES)


@implements(AUDIO_RESAMPLE, "cpu")
class AudioResample(SampleOperator[_Sizes]):
    """Computes in single precision."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_Sizes, Sequence[OutputSpec]]:
        source = inputs[0].dtype
        dtype = None if source is None else _dtype(self.node, source)
        sizes = _Sizes.from_batch(self.node, batch)
        return sizes, [describe(inputs[0].layout, unknown_extents(batch, self.node, inputs), dtype)]

    def run(self, state: _Sizes, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        _check(data.shape, data.dtype)
        dtype = _dtype(self.node, data.dtype)
        scale, length = state.resolve(sample, len(data))
        signal = to_range(data, dtype).reshape(len(data), data.shape[1] if data.ndim == 2 else 1)
        quality, antialias = self.node.argument("quality"), self.node.argument("antialias")
        result = resample(signal, scale, length, quality, antialias)
        return convert(result.reshape(length, *data.shape[1:]), dtype)


@implements(AUDIO_RESAMPLE, "gpu")
class AudioResampleGpu(GpuOperator):
    """One launch per batch."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = self.contiguous(inputs[0], batch.stream)
        source, sizes = samples_of(data), _Sizes.from_batch(self.node, batch)
        shapes, scales = source.shapes.copy(), np.ones(len(source))

        def resolve(sample: int, shape: list[int]) -> None:
            _check(shape, source.dtype)
            scales[sample], shapes[sample, 0] = sizes.resolve(sample, shape[0])

        each_sample(resolve, range(len(source)), source.shapes.tolist())
        output, target = allocate(shapes, _dtype(self.node, source.dtype), data.layout())
        gain, offset = range_factors(source.dtype, target.dtype)
        quality, antialias = self.node.argument("quality"), self.node.argument("antialias")
        filters = [SincFilter.of(quality, scale, antialias) for scale in scales.tolist()]
        self.launch(plan_resample_signal(source, target, scales, gain=gain, offset=offset, filters=filters), batch)
        return [output]
