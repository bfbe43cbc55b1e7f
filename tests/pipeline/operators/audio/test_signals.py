"""Spectra, filters and levels of signals: errors, and behaviour that DALI doesn't have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._audio.decibels import to_decibels
from dali_proxy.pipeline._audio.spectrum import power_spectrum
from pipeline.errors import PipelineError
from tests.pipeline.operators.both import Array, run_ours

SIGNAL = np.sin(np.arange(1000, dtype=np.float32))
TABLE = np.ones((20, 3), np.float32)


def run(operator: str, *samples: Array, layout_of_data: str | None = None, **arguments: Any) -> Array:
    """Return the first sample of the first output."""

    def graph(fn: Any, types: Any, data: Any) -> Any:
        return getattr(fn, operator)(data, **arguments)

    return run_ours(graph, list(samples), layouts=[layout_of_data])[0].samples[0]


@pytest.mark.parametrize(
    ("operator", "sample", "arguments", "match"),
    [
        ("power_spectrum", SIGNAL, {"power": 3}, r"fn.power_spectrum.*`power` can be only 1"),
        ("power_spectrum", SIGNAL, {"axis": 1}, r"sample 0: Axis 1 is out of bounds \[0,1\)"),
        ("power_spectrum", SIGNAL[:0], {}, r"of shape \(0,\) has no elements to transform"),
        ("power_spectrum", SIGNAL > 0, {}, "must be numbers, not bool"),
        ("spectrogram", SIGNAL, {"nfft": 511}, r"Window length \(512\) can't be bigger than the FFT size \(511\)"),
        ("spectrogram", SIGNAL, {"window_length": 0}, "Invalid window length: 0"),
        (
            "spectrogram",
            SIGNAL,
            {"window_fn": [1.0]},
            "Window function should match the specified `window_length`: 1 values, not 512",
        ),
        ("spectrogram", SIGNAL, {"layout": "xy"}, "Unexpected layout: xy"),
        ("spectrogram", SIGNAL[:0], {}, r"Spectogram does not support empty \(0-volume\) samples"),
        ("spectrogram", SIGNAL[:9], {"center_windows": False}, "Signal is too short \\(9\\)"),
        ("spectrogram", TABLE, {}, "Input data must be 1D or all but one dimensions must be degenerate .* Got: 20 x 3"),
        ("mel_filter_bank", TABLE, {"nfilter": 0}, "number of filters should be > 0"),
        ("mel_filter_bank", TABLE, {"sample_rate": 0.0}, "sample rate should be > 0, not 0.0"),
        ("mel_filter_bank", TABLE, {"freq_low": -1.0}, "'freq_low' must be 0 or more, not -1.0"),
        (
            "mel_filter_bank",
            TABLE,
            {"freq_low": 9e3, "freq_high": 8e3},
            r"freq_high should be within the range \(freq_low, sample_rate/2\]",
        ),
        ("mel_filter_bank", TABLE, {"mel_formula": "bark"}, 'Unsupported mel_formula value "bark"'),
        ("to_decibels", TABLE, {"reference": 0.0}, "`reference` argument can't be zero"),
        ("mfcc", TABLE, {"dct_type": 5}, "Unsupported DCT type: 5. Supported types are: 1, 2, 3, 4"),
        ("mfcc", TABLE, {"dct_type": 1, "normalize": True}, "Ortho-normalization is not supported for DCT type I"),
        ("mfcc", TABLE, {"n_mfcc": 0}, "number of MFCCs should be > 0"),
        ("mfcc", TABLE, {"axis": -1}, "axis cannot be negative"),
        ("mfcc", TABLE, {"axis": 2}, r"Axis 2 is out of bounds \[0,2\)"),
        ("mfcc", TABLE[:1], {"dct_type": 1}, "requires an extent of more than 1"),
        ("preemphasis_filter", SIGNAL, {"border": "wrap"}, '``border`` mode "wrap" is not supported'),
        ("nonsilent_region", SIGNAL, {"window_length": 0}, "'window_length' must be 1 or more, not 0"),
        ("nonsilent_region", SIGNAL, {"reference_power": 0.0}, "`reference_power` has to be positive. Got: 0"),
        ("nonsilent_region", TABLE, {}, r"1-D, not empty, and numbers; not of shape \(20, 3\)"),
        ("nonsilent_region", SIGNAL[:0], {}, r"1-D, not empty, and numbers; not of shape \(0,\)"),
    ],
)
def test_bad_argument_or_sample_is_an_error(
    operator: str, sample: Array, arguments: dict[str, Any], match: str
) -> None:
    with pytest.raises(PipelineError, match=match):
        run(operator, sample, **arguments)


def test_mel_filter_bank_of_a_layout_without_frequencies_is_an_error() -> None:
    with pytest.raises(PipelineError, match=r"'f' axis not present in the layout\. Got: `xy`"):
        run("mel_filter_bank", TABLE, layout_of_data="xy")


@pytest.mark.parametrize("operator", ["power_spectrum", "spectrogram", "to_decibels"])
def test_integers_are_computed_in_float32(operator: str) -> None:
    samples = np.arange(600, dtype=np.int16)
    result = run(operator, samples)
    assert result.dtype == np.float32
    assert np.array_equal(result, run(operator, samples.astype(np.float32)))


def test_spectrogram_of_a_long_signal_is_computed_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run("spectrogram", SIGNAL, window_length=16, window_step=3)
    monkeypatch.setattr("dali_proxy.pipeline._audio.spectrum._BLOCK", 100)
    blocks = run("spectrogram", SIGNAL, window_length=16, window_step=3)
    np.testing.assert_allclose(blocks, whole, rtol=1e-5, atol=1e-6)  # OpenCV transforms a few rows in another way


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 12, 511])
def test_power_spectrum_equals_numpy(size: int) -> None:
    signal = np.random.default_rng(0).uniform(-1, 1, (3, 7, 2)).astype(np.float32)
    expected = np.abs(np.fft.rfft(signal, size, axis=1)) ** 2
    np.testing.assert_allclose(power_spectrum(signal, size, 2, 1), expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize(("cutoff", "largest"), [(-80.0, 1e30), (-400.0, 1.0), (-80.0, np.inf)])
def test_decibels_of_extreme_magnitudes(cutoff: float, largest: float) -> None:
    magnitudes = np.array([[0, 1e-38, 1e-20, 1, largest]], np.float32)
    with np.errstate(divide="ignore"):
        expected = np.maximum(10 * np.log10(magnitudes.astype(np.float64)), cutoff)
    found = to_decibels(magnitudes, 10, 1.0, cutoff)
    np.testing.assert_allclose(found[:, 1:], expected[:, 1:], rtol=1e-5)


def test_mel_filter_with_an_invalid_bin_leaves_the_others_valid() -> None:
    table = np.ones((65, 2), np.float32)
    table[-2] = np.nan
    result = run("mel_filter_bank", table, nfilter=10)
    assert np.isnan(result[-1]).all()
    assert not np.isnan(result[:-1]).any()


def test_preemphasis_reflects_an_only_element() -> None:
    assert run("preemphasis_filter", np.array([4.0], np.float32), border="reflect", preemph_coeff=0.5) == [2.0]


def test_preemphasis_of_an_empty_sample_is_empty() -> None:
    assert run("preemphasis_filter", SIGNAL[:0]).shape == (0,)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_nonsilent_region_ends_at_the_last_sound(dtype: Any) -> None:
    """Sums don't lose precision, however loud the sound before the silence is."""
    samples = np.zeros(5000, dtype)
    samples[1000:2000] = 30_000
    samples[3000] = 1

    def graph(fn: Any, types: Any, data: Any) -> Any:
        return fn.nonsilent_region(data, window_length=10, cutoff_db=-110.0)

    start, length = (output.samples[0] for output in run_ours(graph, [samples]))
    assert (start.item(), start.item() + length.item()) == (991, 3010)


def test_spectrogram_with_the_window_of_torch_equals_it() -> None:
    import torch  # takes a second

    factors = np.hanning(401)[:-1]
    ours = run("spectrogram", SIGNAL, window_length=400, window_step=160, nfft=512, window_fn=factors.tolist())
    signal, window = torch.from_numpy(SIGNAL), torch.hann_window(400)
    spectrum = torch.stft(signal, 512, 160, 400, window, center=True, pad_mode="reflect", return_complex=True)
    theirs = spectrum.abs().square().numpy()
    assert np.abs(ours - theirs).max() < 1e-5 * theirs.max()
    plain = run("spectrogram", SIGNAL, window_length=400, window_step=160, nfft=512)
    assert np.abs(plain - theirs).max() > 1e-3 * theirs.max()
