"""Decoding and resampling of audio: errors, and behaviour that DALI doesn't have."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._audio import flac, resampling
from dali_proxy.pipeline._audio.flac import FlacFile
from pipeline.errors import PipelineError
from tests.pipeline.operators.both import Array, Output, run_ours

soundfile = pytest.importorskip("soundfile")

SIGNAL = np.sin(np.arange(300, dtype=np.float32))


def encode(signal: Array, container: str = "WAV", **options: Any) -> Array:
    file = io.BytesIO()
    soundfile.write(file, signal, 16_000, format=container, **options)
    return np.frombuffer(file.getvalue(), np.uint8)


def resampled(*samples: Array, **arguments: Any) -> Array:
    def graph(fn: Any, types: Any, data: Any) -> Any:
        given = {name: getattr(types, value) if name == "dtype" else value for name, value in arguments.items()}
        return fn.audio_resample(data, **given)

    return run_ours(graph, list(samples))[0].samples[0]


def decoded(*files: Array, **arguments: Any) -> list[Output]:
    def graph(fn: Any, types: Any, data: Any) -> Any:
        given = {name: getattr(types, value) if name == "dtype" else value for name, value in arguments.items()}
        return tuple(fn.decoders.audio(data, **given))

    return run_ours(graph, list(files))


@pytest.mark.parametrize(
    ("sample", "arguments", "match"),
    [
        (SIGNAL, {}, "No resampling factor specified!"),
        (SIGNAL, {"scale": 2.0, "out_length": 3}, "``scale`` and ``out_length`` cannot be used together"),
        (SIGNAL, {"in_rate": 2.0}, "``in_rate`` and ``out_rate`` must be specified together"),
        (SIGNAL, {"in_rate": 0.0, "out_rate": 1.0}, "sampling rates must be positive"),
        (SIGNAL, {"scale": -1.0}, "scaling factor must be non-negative. Got scale == -1"),
        (SIGNAL, {"out_length": -1}, "'out_length' must be 0 or more, not -1"),
        (SIGNAL, {"scale": 2.0, "quality": 101.0}, r"``quality`` out of range: 101 Valid range is \[0..100\]"),
        (SIGNAL, {"scale": 2.0, "dtype": "FLOAT64"}, "'dtype' must be one of INT8, UINT8"),
        (SIGNAL.astype(np.float64), {"scale": 2.0}, "must be one of INT8, UINT8, .* not FLOAT64"),
        (SIGNAL[:0], {"out_length": 3}, "sample 0: Cannot produce a non-empty signal from an empty input"),
        (SIGNAL.reshape(3, 10, 10), {"scale": 2.0}, r"with channels last, not of shape \(3, 10, 10\)"),
    ],
)
def test_resampling_with_a_bad_argument_or_sample_is_an_error(
    sample: Array, arguments: dict[str, Any], match: str
) -> None:
    with pytest.raises(PipelineError, match=match):
        resampled(sample, **arguments)


def test_resampling_a_long_signal_is_exact_to_its_end() -> None:
    """Positions don't drift: the same tone, sampled at the new rate."""
    before, after = (np.sin(2 * np.pi * 100 * np.arange(rate) / rate) for rate in (8000, 11025))
    result = resampled(before.astype(np.float32), in_rate=8000.0, out_rate=11025.0)
    assert result.shape == after.shape
    assert np.abs(result - after)[200:-200].max() < 1e-3


def test_resampling_is_computed_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = resampled(SIGNAL, scale=0.7)
    monkeypatch.setattr("dali_proxy.pipeline._audio.resampling._BLOCK", 100)
    assert np.array_equal(resampled(SIGNAL, scale=0.7), whole)


@pytest.mark.parametrize(("rate", "new"), [(16_000, 22_050), (44_100, 16_000), (8_000, 16_000), (16_000, 1_000)])
def test_resampling_by_matrices_equals_the_general_way(rate: int, new: int, monkeypatch: pytest.MonkeyPatch) -> None:
    signal = np.random.default_rng(0).uniform(-1, 1, (30_001, 2)).astype(np.float32)
    length = -(-len(signal) * new // rate)
    found = [resampling.resample(signal, new / rate, length, quality) for quality in (0, 50)]
    monkeypatch.setattr(resampling, "_period", lambda scale: None)
    for quality, result in zip((0, 50), found, strict=True):
        general = resampling.resample(signal, new / rate, length, quality)
        np.testing.assert_allclose(result, general, rtol=0, atol=2e-6)


def test_decoding_mp3() -> None:
    """DALI doesn't support this format."""
    tone = np.sin(2 * np.pi * 440 * np.arange(8000) / 16_000)
    (signal,), (rate,) = (output.samples for output in decoded(encode(tone, "MP3"), downmix=True))
    assert rate == 16_000
    middle = signal[2000:6000] - signal[2000:6000].mean()
    assert np.sqrt(np.square(middle).mean()) == pytest.approx(np.sqrt(0.5), rel=0.05)


def test_decoding_at_a_rate_per_sample() -> None:
    def graph(fn: Any, types: Any, data: Any, rates: Any) -> Any:
        return tuple(fn.decoders.audio(data, sample_rate=rates))

    files = [encode(SIGNAL)] * 3
    signals, rates = run_ours(graph, files, [np.float32(rate) for rate in (0, 8000, 32_000)])
    assert [len(signal) for signal in signals.samples] == [300, 150, 600]
    assert [rate.item() for rate in rates.samples] == [16_000, 8000, 32_000]


@pytest.mark.parametrize(
    ("file", "match"),
    [
        (
            np.arange(99, dtype=np.uint8),
            r"sample 1: not a valid audio file \(it begins with b'\\x00\\x01.*'\): Format not recognised",
        ),
        (np.zeros(0, np.uint8), "not a valid audio file"),
        (encode(SIGNAL)[:20], "not a valid audio file"),
        (encode(np.tile(SIGNAL, 99), "FLAC")[:3000], "audio file"),
        (np.zeros((5, 5), np.uint8), "the bytes of a file are needed"),
    ],
)
def test_decoding_a_damaged_file_is_an_error(file: Array, match: str) -> None:
    with pytest.raises(PipelineError, match=match):
        decoded(encode(SIGNAL) if file.ndim == 1 else file, file)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"dtype": "UINT8"}, "'dtype' must be one of INT16, INT32, FLOAT"),
        ({"quality": -1.0}, "``quality`` out of range: -1 Valid"),
    ],
)
def test_decoding_with_a_bad_argument_is_an_error(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(PipelineError, match=match):
        decoded(encode(SIGNAL), **arguments)


def test_decoding_without_soundfile_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(PipelineError, match=r"decoding audio needs the package 'soundfile'.*'dali-proxy\[audio\]'"):
        decoded(np.zeros(9, np.uint8))


@pytest.mark.parametrize("subtype", ["PCM_S8", "PCM_16", "PCM_24"])
@pytest.mark.parametrize("dtype", ["int16", "int32", "float32"])
def test_flac_of_miniaudio_has_the_values_of_libsndfile(subtype: str, dtype: str) -> None:
    pytest.importorskip("miniaudio")
    signal = np.stack([np.tile(SIGNAL, 40), np.tile(SIGNAL[::-1], 40)], axis=1)
    encoded = encode(signal, "FLAC", subtype=subtype)
    file = FlacFile.open(encoded)
    assert file is not None
    assert (file.samplerate, file.channels, file.frames) == (16_000, 2, len(signal))
    expected, _ = soundfile.read(io.BytesIO(encoded.data), dtype=dtype)
    np.testing.assert_array_equal(file.read(dtype), expected)


def test_flac_that_miniaudio_cannot_decode_goes_to_libsndfile() -> None:
    pytest.importorskip("miniaudio")
    truncated = FlacFile.open(encode(np.tile(SIGNAL, 99), "FLAC")[:3000])
    assert truncated is not None
    assert truncated.read("float32") is None
    unknown_length = encode(SIGNAL, "FLAC").copy()
    unknown_length[21:26] = 0
    for encoded in (unknown_length, encode(SIGNAL, "OGG"), encode(SIGNAL, "FLAC")[:20], np.zeros(0, np.uint8)):
        assert FlacFile.open(encoded) is None


def test_flac_is_decoded_without_miniaudio(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = encode(SIGNAL, "FLAC")
    with_it = decoded(encoded)[0].samples[0]
    monkeypatch.setattr(flac, "_miniaudio", lambda: None)
    np.testing.assert_array_equal(decoded(encoded)[0].samples[0], with_it)


def test_flac_of_unknown_length_is_an_error_that_says_so() -> None:
    """0 means unknown in this format. Missing samples at the end could not be noticed."""
    file = encode(np.tile(SIGNAL, 20), "FLAC").copy()
    file[21] &= 0xF0
    file[22:26] = 0
    with pytest.raises(PipelineError, match="sample 0: the file doesn't say how many samples it has"):
        decoded(file)


def test_flac_with_a_sample_rate_of_zero_is_an_error_that_says_so() -> None:
    file = encode(SIGNAL, "FLAC").copy()
    file[18:20] = 0
    file[20] &= 0x0F
    with pytest.raises(PipelineError, match="its sample rate is 0"):
        decoded(file)
