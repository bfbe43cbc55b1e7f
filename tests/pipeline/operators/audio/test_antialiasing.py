"""Resampling to a lower rate: tones above half of it, compared with scipy, soxr and NVIDIA DALI."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._audio import resampling
from pipeline import dynamic
from tests.pipeline.operators.both import Array, as_dali, run_dali, run_ours

RATES = [(44_100, 16_000), (48_000, 22_050), (48_000, 8_000), (44_100, 43_999)]


def tone(frequency: float, rate: int) -> Array:
    return np.sin(2 * np.pi * frequency * np.arange(rate) / rate).astype(np.float32)


def level(signal: Array) -> float:
    """Return the amplitude of a tone, without the ends of the signal."""
    middle = signal[len(signal) // 4 : -len(signal) // 4]
    return float(np.sqrt(2 * np.square(middle, dtype=np.float64).mean()))


def resampled(signal: Array, before: int, after: int, **arguments: Any) -> Array:
    def graph(fn: Any, types: Any, data: Any) -> Any:
        return fn.audio_resample(data, in_rate=before, out_rate=after, **arguments)

    return run_ours(graph, [signal])[0].samples[0]


@pytest.mark.parametrize(("before", "after"), RATES)
def test_tones_above_half_of_the_new_rate_are_removed(before: int, after: int) -> None:
    limit = after / 2
    for part in (1.13, 1.2, 1.3, 1.7):
        if part * limit < before / 2:
            assert level(resampled(tone(part * limit, before), before, after)) < 0.0064, part
            assert level(resampled(tone(part * limit, before), before, after, antialias=False)) > 0.98
    for part in (0.1, 0.5, 0.85):
        assert level(resampled(tone(part * limit, before), before, after)) == pytest.approx(1, abs=4e-3)


def test_quality_100_removes_tones_just_above_half_of_the_new_rate() -> None:
    assert level(resampled(tone(8250, 44_100), 44_100, 16_000, quality=100)) < 0.0064
    assert level(resampled(tone(7750, 44_100), 44_100, 16_000, quality=100)) > 0.99


@pytest.mark.parametrize(("before", "after"), RATES)
def test_noise_equals_that_of_scipy_and_soxr(before: int, after: int) -> None:
    """Below the transition of the filters: noise, of which the part above 0.8 of the limit is removed."""
    scipy_signal, soxr = pytest.importorskip("scipy.signal"), pytest.importorskip("soxr")
    noise = np.random.default_rng(0).normal(0, 0.3, before).astype(np.float32)
    ours = resampled(noise, before, after)
    factor = np.gcd(before, after)
    references = {
        "scipy": scipy_signal.resample_poly(noise, after // factor, before // factor),
        "soxr": soxr.resample(noise, before, after, quality="VHQ"),
    }
    sections = scipy_signal.ellip(10, 0.01, 90, 0.8, output="sos")
    for name, reference in references.items():
        assert len(reference) == len(ours) == after, name
        difference = scipy_signal.sosfiltfilt(sections, ours.astype(np.float64) - reference)[1000:-1000]
        assert np.sqrt(np.square(difference).mean()) < 5e-4, name
    aliased = resampled(noise, before, after, antialias=False).astype(np.float64) - references["soxr"]
    if after < before / 2:
        assert np.sqrt(np.square(scipy_signal.sosfiltfilt(sections, aliased)).mean()) > 0.1


def test_higher_rates_are_computed_as_in_dali() -> None:
    signal = np.random.default_rng(0).normal(0, 0.3, 3000).astype(np.float32)
    found = [resampled(signal, 16_000, 44_100, antialias=antialias) for antialias in (False, True)]
    assert np.array_equal(*found)


@pytest.mark.parametrize("scale", [0.3333, 0.05, 0.01, 1e-3, 1e-5, 1e-30])
def test_any_ratio_keeps_the_mean(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    signal = np.full((40_000, 1), 0.5, np.float32)
    length = int(np.ceil(len(signal) * scale))
    result = resampling.resample(signal, scale, length, 50)
    assert np.isfinite(result).all()
    inner = result[len(result) // 3 : -len(result) // 3]
    if length > 200:
        np.testing.assert_allclose(inner, 0.5, atol=1e-3)
    monkeypatch.setattr(resampling, "_matrices", lambda *_: None)
    np.testing.assert_allclose(resampling.resample(signal, scale, length, 50), result, rtol=0, atol=2e-6)


@pytest.mark.parity
def test_scripts_for_dali_keep_its_numbers() -> None:
    signal = np.random.default_rng(0).normal(0, 0.3, 3000).astype(np.float32)

    def graph(fn: Any, types: Any, data: Any) -> Any:
        return fn.audio_resample(data, in_rate=44_100, out_rate=16_000)

    (theirs,) = run_dali(graph, [signal])[0].samples
    with as_dali():
        (ours,) = run_ours(graph, [signal])[0].samples
    assert np.abs(ours - theirs).max() < 3e-3
    assert np.abs(run_ours(graph, [signal])[0].samples[0] - theirs).max() > 0.1


def test_decoders_and_readers_remove_tones_above_half_of_the_rate(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    file = io.BytesIO()
    soundfile.write(file, 0.5 * tone(10_000, 44_100), 44_100, format="WAV", subtype="FLOAT")
    encoded = np.frombuffer(file.getvalue(), np.uint8)
    (tmp_path / "tone.wav").write_bytes(file.getvalue())
    (tmp_path / "list").write_text(json.dumps({"audio_filepath": str(tmp_path / "tone.wav")}))

    def graph(fn: Any, types: Any, data: Any, **arguments: Any) -> Any:
        decoded = fn.decoders.audio(data, sample_rate=16_000, downmix=True, **arguments)[0]
        read = fn.readers.nemo_asr(
            manifest_filepaths=[str(tmp_path / "list")],
            sample_rate=16_000,
            read_sample_rate=False,
            read_text=False,
            **arguments,
        )
        return decoded, read

    for output in run_ours(graph, [encoded]):
        assert level(output.samples[0]) < 1e-3
    for output in run_ours(lambda *given: graph(*given, antialias=False), [encoded]):
        assert level(output.samples[0]) == pytest.approx(0.5, abs=0.01)
    with as_dali():
        for output in run_ours(graph, [encoded]):
            assert level(output.samples[0]) == pytest.approx(0.5, abs=0.01)


def test_dynamic_mode_removes_tones_above_half_of_the_rate() -> None:
    signal = dynamic.tensor(tone(10_000, 44_100))
    result = np.asarray(dynamic.audio_resample(signal, in_rate=44_100, out_rate=16_000))
    dynamic.set_num_threads(None)  # ends the default threads
    assert level(result) < 1e-3
