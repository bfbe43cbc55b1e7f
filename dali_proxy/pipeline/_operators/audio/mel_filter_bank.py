"""Mel spectrograms: spectrograms with few frequencies that are evenly spaced for the ear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._audio.mel import FORMULAS, MelFilters, mel_filters
from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._kernels.audio.matrix_axis import AxisMatrices, plan_matrix_axis
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate, samples_of
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from dali_proxy.pipeline._operator_api.output_specs import describe, known_extents
from dali_proxy.pipeline._operators.audio.signals import as_floats, check_numbers
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array

MEL_FILTER_BANK = declare_operator(
    name="mel_filter_bank",
    doc="""Converts spectrograms to mel spectrograms by a bank of triangular filters.

The frequencies are the axis "f" of the layout. Without a layout, they are the last axis but one, or the only axis. The
output is float32.""",
    inputs=(Input("data", "Spectrograms: the bins are frequencies from 0 to half the sample rate."),),
    arguments=(
        Argument("nfilter", Kind.INT, "Number of filters.", 128),
        Argument("sample_rate", Kind.FLOAT, "Sample rate of the signal, in hertz.", 44100.0),
        Argument("freq_low", Kind.FLOAT, "Lower end of the first filter, in hertz.", 0.0),
        Argument("freq_high", Kind.FLOAT, "Upper end of the last filter, in hertz; by default half the rate.", 0.0),
        Argument("normalize", Kind.BOOL, "Scale filters to an integral of 1, instead of a peak of 1.", True),
        Argument(
            "mel_formula",
            Kind.STRING,
            'Scale of pitches: "slaney" is linear up to 1000 Hz and logarithmic above, as in librosa; "htk" is '
            "2595 * log10(1 + f / 700).",
            "slaney",
            choices=FORMULAS,
            unknown='Unsupported mel_formula value "{}".',
        ),
    ),
    devices=("cpu", "gpu"),
)


def _frequency_axis(layout: str, ndim: int) -> int:
    if layout:
        if "f" not in layout:
            raise ArgumentValueError(f"'f' axis not present in the layout. Got: `{layout}`")
        return layout.index("f")
    if not ndim:
        raise ArgumentValueError("samples without dimensions have no axis of frequencies")
    return max(0, ndim - 2)


class _Bank:
    """The filters of an operator, computed once for each number of bins."""

    def __init__(self, node: GraphNode) -> None:
        argument = self._argument = node.argument
        rate, low = argument("sample_rate"), argument("freq_low")
        if argument("nfilter") < 1:
            raise ArgumentValueError(f"number of filters should be > 0, not {argument('nfilter')}")
        if not rate > 0:
            raise ArgumentValueError(f"sample rate should be > 0, not {rate}")
        if not low >= 0:
            raise ArgumentValueError(f"argument 'freq_low' must be 0 or more, not {low}")
        self._high = argument("freq_high") if argument("freq_high") > 0 else rate / 2
        if not low < self._high <= rate:
            raise ArgumentValueError(
                f"freq_high should be within the range (freq_low, sample_rate/2], not {self._high}; freq_low is {low}"
            )
        self._by_bins: dict[int, MelFilters] = {}

    def filters(self, bins: int) -> MelFilters:
        """Return the filters of spectra with a number of bins."""
        filters = self._by_bins.get(bins)
        if filters is None:
            argument = self._argument
            filters = self._by_bins[bins] = mel_filters(
                bins,
                argument("nfilter"),
                argument("sample_rate"),
                argument("freq_low"),
                self._high,
                argument("mel_formula"),
                normalize=argument("normalize"),
            )
        return filters


@implements(MEL_FILTER_BANK, "cpu")
class MelFilterBank(SampleOperator[str]):
    """Computes weighted sums of bins. The state is the layout."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._bank = _Bank(node)

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[str, Sequence[OutputSpec]]:
        layout = inputs[0].layout
        known = known_extents(batch, self.node, inputs)
        if known is not None:
            axis = _frequency_axis(layout, len(known))
            known = (*known[:axis], self.node.argument("nfilter"), *known[axis + 1 :])
        return layout, [describe(layout, known, np.dtype(np.float32))]

    def run(self, state: str, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        data = as_floats(inputs[0])
        axis = _frequency_axis(state, data.ndim)
        return self._bank.filters(data.shape[axis]).apply(data, axis, out)


@implements(MEL_FILTER_BANK, "gpu")
class MelFilterBankGpu(GpuOperator):
    """One launch per batch."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        bank = _Bank(node)
        self._matrices = AxisMatrices(lambda bins: bank.filters(bins).weights)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = self.contiguous(inputs[0], batch.stream)
        source, axis = samples_of(data), _frequency_axis(data.layout(), data.ndim)
        check_numbers(source.dtype)
        shapes = source.shapes.copy()
        shapes[:, axis] = self.node.argument("nfilter")
        output, target = allocate(shapes, np.dtype(np.float32), data.layout())
        self.launch(plan_matrix_axis(source, target, axis, self._matrices), batch)
        return [output]
