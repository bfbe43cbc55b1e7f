"""Spectrograms: the power spectra of the windows of a signal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._audio.spectrum import hann_window, spectrogram, window_count
from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._kernels.audio.spectrogram import SpectrogramPlan
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate, samples_of
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from dali_proxy.pipeline._operator_api.output_specs import describe
from dali_proxy.pipeline._operators.audio.signals import as_floats, as_signal, check_power, signals_of
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array

SPECTROGRAM = declare_operator(
    name="spectrogram",
    doc="""Computes spectrograms of signals: the power spectra of overlapping windows, float32.

The output has `nfft` // 2 + 1 frequencies, and one column (or row, see `layout`) for each window.""",
    inputs=(Input("data", "Signals with one channel: 1-D, or all other extents are 1; computed in float32."),),
    arguments=(
        Argument("nfft", Kind.INT, "Size of the transform, at least `window_length`, which is the default."),
        Argument("window_length", Kind.INT, "Length of the windows, in samples.", 512),
        Argument("window_step", Kind.INT, "Distance between windows, in samples.", 256),
        Argument(
            "window_fn",
            Kind.FLOATS,
            "Factors of the `window_length` samples; by default those of DALI's Hann window, "
            "0.5 - 0.5 cos(2 pi (i + 0.5) / `window_length`). The window of librosa and torch has no 0.5 beside i: "
            "`window_fn=np.hanning(window_length + 1)[:-1].tolist()`.",
            (),
        ),
        Argument("power", Kind.INT, "Exponent of the magnitudes: 1 or 2.", 2),
        Argument(
            "center_windows",
            Kind.BOOL,
            "Center window i at i * `window_step`; windows then exceed the signal. Otherwise, window i starts "
            "there, and all windows lie in the signal.",
            True,
        ),
        Argument(
            "reflect_padding",
            Kind.BOOL,
            "Mirror the signal at its ends for windows that exceed it, instead of padding it with zeros.",
            True,
        ),
        Argument("layout", Kind.LAYOUT, 'Layout of the output: "ft" (frequency, time) or "tf".', "ft"),
    ),
    devices=("cpu", "gpu"),
)


class _Windows:
    """The windows of an operator, and the size of their transform."""

    def __init__(self, node: GraphNode) -> None:
        argument = node.argument
        length, self.step = argument("window_length"), argument("window_step")
        for name in ("window_length", "window_step"):
            if argument(name) < 1:
                raise ArgumentValueError(f"Invalid {name.replace('_', ' ')}: {argument(name)}")
        factors = argument("window_fn") or ()
        if factors and len(factors) != length:
            raise ArgumentValueError(
                f"Window function should match the specified `window_length`: {len(factors)} values, not {length}"
            )
        self.factors = np.array(factors, np.float32) if factors else hann_window(length)
        self.size = length if argument("nfft") is None else argument("nfft")
        if self.size < length:
            raise ArgumentValueError(f"Window length ({length}) can't be bigger than the FFT size ({self.size})")
        self.power = check_power(argument("power"))
        self.layout = argument("layout")
        if self.layout not in ("ft", "tf"):
            raise ArgumentValueError(f"Unexpected layout: {self.layout}; supported are ft and tf")
        self.centered, self.reflected = argument("center_windows"), argument("reflect_padding")

    @property
    def bins(self) -> int:
        """Number of frequencies."""
        return int(self.size // 2 + 1)

    def count(self, length: int) -> int:
        """Return the number of windows in a signal.

        Raises:
            ArgumentValueError: there are none.
        """
        if not length:
            raise ArgumentValueError("Spectogram does not support empty (0-volume) samples")
        count = window_count(length, len(self.factors), self.step, centered=self.centered)
        if not count:
            raise ArgumentValueError(f"Signal is too short ({length}): a window has {len(self.factors)} samples")
        return count


@implements(SPECTROGRAM, "cpu")
class Spectrogram(SampleOperator[None]):
    """Transforms all windows of a sample at once, in single precision."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._windows = _Windows(node)

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[None, Sequence[OutputSpec]]:
        windows = self._windows
        extents = [windows.bins if axis == "f" else None for axis in windows.layout]
        return None, [describe(windows.layout, extents, np.dtype(np.float32))]

    def run(self, state: None, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        signal, windows = as_signal(as_floats(inputs[0])), self._windows
        windows.count(len(signal))
        return spectrogram(
            signal,
            windows.factors,
            windows.step,
            windows.size,
            windows.power,
            centered=windows.centered,
            reflected=windows.reflected,
            by_bin=windows.layout == "ft",
        )


@implements(SPECTROGRAM, "gpu")
class SpectrogramGpu(GpuOperator):
    """Transforms windows in shared memory, in one launch per batch."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._windows = _Windows(node)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        windows = self._windows
        data = self.contiguous(inputs[0], batch.stream)
        source = signals_of(samples_of(data))
        counts = [windows.count(length) for length in source.shapes[:, 0].tolist()]
        shapes = np.full((len(source), 2), windows.bins, np.int64)
        shapes[:, windows.layout.index("t")] = counts
        output, target = allocate(shapes, np.dtype(np.float32), windows.layout)
        plan = SpectrogramPlan(
            source,
            target,
            window=windows.factors,
            step=windows.step,
            size=windows.size,
            power=windows.power,
            padding=1 + windows.reflected if windows.centered else 0,
            time_first=windows.layout == "tf",
        )
        self.launch(plan.launch(self.kernels.scratch(plan.scratch_bytes, batch.stream)), batch)
        return [output]
