"""Spectrograms: the power spectra of the windows of a signal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline._audio.spectrum import hann_window, spectrogram, window_count
from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from pipeline._operator_api.output_specs import describe
from pipeline._operators.audio.signals import as_floats, as_signal, check_power
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array

__all__ = ["SPECTROGRAM"]

SPECTROGRAM = register(
    OperatorSchema(
        name="spectrogram",
        doc="""Computes spectrograms of signals: the power spectra of overlapping windows, float32.

The output has `nfft` // 2 + 1 frequencies, and one column (or row, see `layout`) for each window.""",
        inputs=(Input("data", "Signals with one channel: 1-D, or all other extents are 1; computed in float32."),),
        arguments=(
            Argument("nfft", Kind.INT, "Size of the transform, at least `window_length`, which is the default."),
            Argument("window_length", Kind.INT, "Length of the windows, in samples.", 512),
            Argument("window_step", Kind.INT, "Distance between windows, in samples.", 256),
            Argument("window_fn", Kind.FLOATS, "Factors of the `window_length` samples; by default a Hann window.", ()),
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
    )
)


@implements(SPECTROGRAM, "cpu")
class Spectrogram(SampleOperator[None]):
    """Transforms all windows of a sample at once, with pocketfft, in single precision."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        argument = node.argument
        length, self._step = argument("window_length"), argument("window_step")
        for name in ("window_length", "window_step"):
            if argument(name) < 1:
                raise ArgumentValueError(f"argument {name!r} must be 1 or more, not {argument(name)}")
        factors = argument("window_fn") or ()
        if factors and len(factors) != length:
            raise ArgumentValueError(
                f"argument 'window_fn' must have window_length={length} values, not {len(factors)}"
            )
        self._window = np.array(factors, np.float32) if factors else hann_window(length)
        self._size = length if argument("nfft") is None else argument("nfft")
        if self._size < length:
            raise ArgumentValueError(f"argument 'nfft' must be window_length={length} or more, not {self._size}")
        self._power = check_power(argument("power"))
        if argument("layout") not in ("ft", "tf"):
            raise ArgumentValueError(f"argument 'layout' must be 'ft' or 'tf', not {argument('layout')!r}")

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[None, Sequence[OutputSpec]]:
        layout, bins = self.node.argument("layout"), self._size // 2 + 1
        return None, [describe(layout, [bins if axis == "f" else None for axis in layout], np.dtype(np.float32))]

    def run(self, state: None, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        signal = as_signal(as_floats(inputs[0]))
        centered = self.node.argument("center_windows")
        if not signal.size:
            raise ArgumentValueError("Spectogram does not support empty (0-volume) samples")
        if not window_count(len(signal), len(self._window), self._step, centered=centered):
            raise ArgumentValueError(
                f"Signal is too short: it has {len(signal)} samples, and a window has {len(self._window)}"
            )
        result = spectrogram(
            signal,
            self._window,
            self._step,
            self._size,
            self._power,
            centered=centered,
            reflected=self.node.argument("reflect_padding"),
        )
        return np.ascontiguousarray(result.T) if self.node.argument("layout") == "ft" else result
