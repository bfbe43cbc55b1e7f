"""Calls of operators on signals."""

from __future__ import annotations

import io
from functools import cache

import numpy as np

from tests.parity.drawing import Array, Draw, Type
from tests.parity.machine import case

#: The smallest Fourier transform: DALI refuses several smaller ones.
SIZE = 4


def draw_signals(draw: Draw, least: int, most: int, *, dtype: str = "float32", high: float = 1) -> list[Array]:
    """Add an input: a batch of 1-D signals."""
    low = 0.0 if np.dtype(dtype).kind == "u" else -high
    return draw.arrays(1, [dtype], least=least, most=most, empty=False, low=low, high=high)


@case("power_spectrum")
def power_spectrum(draw: Draw) -> None:
    ndim = draw.integer(1, 3)
    draw.arrays(ndim, ["float32"], layout=draw.one(None, "tfc"[:ndim]), empty=False, least=SIZE, most=9)
    draw.maybe("nfft", lambda: draw.integer(SIZE, 20))
    draw.maybe("power", lambda: draw.integer(1, 2))
    draw.maybe("axis", lambda: draw.integer(-1, ndim - 1))


@case("spectrogram")
def spectrogram(draw: Draw) -> None:
    length = draw.integer(SIZE, 24)
    centered = draw.flag()
    samples = draw_signals(draw, 1 if centered else length, 80)
    if draw.flag():
        draw.call.inputs = [([sample.reshape(draw.one((-1, 1), (1, -1))) for sample in samples], None)]
    draw.give(window_length=length, window_step=draw.integer(1, 15), center_windows=centered)
    draw.maybe("nfft", lambda: length + draw.integer(0, 9))
    draw.maybe("window_fn", lambda: [draw.real(-2, 2) for _ in range(length)])
    draw.maybe("power", lambda: draw.integer(1, 2))
    draw.maybe("reflect_padding", draw.flag)
    draw.maybe("layout", lambda: draw.one("ft", "tf"))


@case("mel_filter_bank")
def mel_filter_bank(draw: Draw) -> None:
    layout = draw.one("ft", "tf", "cft", "f", None)
    draw.arrays(len(layout or "ft"), ["float32"], layout=layout, least=3, most=40, low=0, high=10)
    rate = draw.one(8000.0, 16000.0, 44100.0)
    draw.give(sample_rate=rate)
    draw.maybe("nfilter", lambda: draw.integer(1, 30))
    draw.maybe("freq_low", lambda: draw.real(0, 3000))
    draw.maybe("freq_high", lambda: rate / 2 - draw.real(0, 500))
    draw.maybe("normalize", draw.flag)
    draw.maybe("mel_formula", lambda: draw.one("slaney", "htk"))


@case("to_decibels")
def to_decibels(draw: Draw) -> None:
    ndim = draw.integer(0, 3)
    draw.arrays(ndim, ["float32"], layout=draw.one(None, "cft"[:ndim]), low=draw.one(-1, 0), high=draw.one(1e-6, 50))
    draw.maybe("multiplier", lambda: draw.one(10.0, 20.0, 3.5))
    draw.maybe("reference", lambda: draw.one(1e-4, 1.0, 30.0))
    draw.maybe("cutoff_db", lambda: draw.one(-10.0, -60.0, -300.0))


@case("mfcc")
def mfcc(draw: Draw) -> None:
    ndim = draw.integer(2, 3)
    draw.arrays(ndim, ["float32"], layout=draw.one(None, "cft"[-ndim:]), empty=False, least=2, most=30)
    draw.maybe("n_mfcc", lambda: draw.integer(1, 30))
    draw.maybe("axis", lambda: draw.integer(0, ndim - 1))
    draw.maybe("dct_type", lambda: draw.integer(1, 4))
    draw.maybe("lifter", lambda: draw.one(1.0, 22.0, -3.0))
    if draw.call.constants.get("dct_type") != 1:
        draw.maybe("normalize", draw.flag)


@case("preemphasis_filter")
def preemphasis_filter(draw: Draw) -> None:
    # DALI ends the process if samples are empty, and reads beyond the only element with "reflect".
    draw.arrays(draw.integer(1, 2), ["float32", "int16", "uint8", "int32"], empty=False, least=2, most=20)
    draw.argument("preemph_coeff", lambda: draw.real(-2, 2))
    draw.maybe("border", lambda: draw.one("zero", "clamp", "reflect"))
    draw.maybe("dtype", lambda: Type(draw.one("FLOAT", "INT16", "UINT8", "INT32")))


@case("nonsilent_region")
def nonsilent_region(draw: Draw) -> None:
    # With real numbers, DALI's moving sum is less precise, so windows at the threshold may differ.
    dtype = draw.one("int16", "uint8", "uint16")
    samples = draw_signals(draw, 1, 60, dtype=dtype, high=100)
    for sample in samples:
        sample[: draw.integer(0, 30)] = draw.integer(0, 1)
        sample[len(sample) - draw.integer(0, 30) :] = 0
    draw.maybe("cutoff_db", lambda: draw.one(-60.0, -10.0, -3.0))
    draw.give(window_length=draw.integer(1, 20))
    draw.maybe("reference_power", lambda: draw.one(1.0, 1000.0))


@case("audio_resample")
def audio_resample(draw: Draw) -> None:
    dtype = draw.one("float32", "int16", "uint8", "int8", "uint16")
    high = 1 if dtype == "float32" else float(np.iinfo(dtype).max)
    shape = draw.integer(1, 2)
    draw.arrays(shape, [dtype], layout=draw.one(None, "tc"[:shape]), least=2, most=60, low=-high, high=high)
    if not all(len(sample) for sample in draw.call.inputs[0][0]):
        draw.give(scale=1.5)
    elif draw.flag():
        draw.argument("in_rate", lambda: draw.one(8000, 16000, 44100), always=True)
        draw.argument("out_rate", lambda: draw.one(8000, 16000, 22050), always=True)
    elif draw.flag():
        draw.argument("out_length", lambda: draw.integer(0, 90), np.int64, always=True)
    else:
        draw.argument("scale", lambda: draw.real(0, 3), always=True)
    draw.maybe("quality", lambda: draw.real(0, 100))
    if draw.gpu:
        draw.maybe("antialias", draw.flag)
    # One unit in the last place of 8 bits is a larger part of the range of a wider dtype.
    draw.maybe("dtype", lambda: Type(draw.one("FLOAT", "INT16", "UINT8", "INT8", "UINT16")))
    wide = draw.call.constants.get("dtype", Type({"int16": "INT16", "uint16": "UINT16"}.get(dtype, "")))
    draw.call.ends = 3e-3 if wide.name in ("INT16", "UINT16") else 0


#: The drawn kinds of audio files: container, encoding.
KINDS = (
    *(("WAV", encoding) for encoding in ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE")),
    *(("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("OGG", "OPUS")),
)


@cache
def encoded(kind: tuple[str, str], channels: int, number: int) -> Array:
    """Return an audio file of a few tones, 100 to 400 samples long."""
    import soundfile  # here: the other cases don't need it

    rng = np.random.default_rng(number)
    times = np.arange(int(rng.integers(100, 400)))[:, None]
    tones = 0.7 * np.sin(times * rng.uniform(0.01, 0.5, channels)) + rng.uniform(-0.05, 0.05, (len(times), channels))
    file = io.BytesIO()
    soundfile.write(file, tones, 16_000, format=kind[0], subtype=kind[1])
    return np.frombuffer(file.getvalue(), np.uint8)


@case("decoders.audio")
def decode_audio(draw: Draw) -> None:
    files = [encoded(draw.one(*KINDS), draw.integer(1, 2), draw.integer(0, 9)) for _ in range(draw.count)]
    draw.call.inputs.append((files, None))
    draw.maybe("dtype", lambda: Type(draw.one("FLOAT", "INT16", "INT32")))
    draw.maybe("downmix", draw.flag)
    draw.maybe("quality", lambda: draw.real(0, 100))
    draw.argument("sample_rate", lambda: draw.one(8000, 16000, 22050))
    if "sample_rate" in draw.call.names:
        draw.call.ends = 3e-3  # as audio_resample
