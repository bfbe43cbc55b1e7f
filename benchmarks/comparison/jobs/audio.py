"""Speech to features: FLAC files of two seconds become log-mel spectrograms."""

from __future__ import annotations

import io
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch

from benchmarks.comparison.files import write_once
from benchmarks.comparison.job import Arrays, Job

RATE = 16_000
SECONDS = 2
FILES = 64
N_FFT, WINDOW, STEP, BANDS = 512, 400, 160, 64
FLOOR = 1e-8
"""The smallest power that is told apart from silence: -80 dB."""

HANN = np.hanning(WINDOW + 1)[:-1].astype(np.float32)


class Mel(Job):
    """Decode, 64 mel bands of windows of 25 ms every 10 ms, decibels."""

    name = "audio"
    title = "FLAC of 2 s to log-mel features"
    bounds = (0.05,)
    unit = "dB"

    def prepare(self) -> None:
        self.folder = write_once("speech", _write)

    @cached_property
    def files(self) -> list[str]:
        """The paths of all recordings."""
        return sorted(str(path) for path in self.folder.iterdir())

    @cached_property
    def _bands(self) -> torch.Tensor:
        return torch.from_numpy(mel_bands()).float()

    @cached_property
    def _window(self) -> torch.Tensor:
        return torch.from_numpy(HANN)

    def stored(self, index: int) -> Arrays:
        return (np.fromfile(self.files[index % len(self.files)], np.uint8),)

    def transform(self, *inputs: np.ndarray) -> Arrays:
        signal, _ = soundfile.read(io.BytesIO(inputs[0]), dtype="float32")
        spectrum = torch.stft(torch.from_numpy(signal), N_FFT, STEP, WINDOW, self._window, return_complex=True)
        power = torch.view_as_real(spectrum).square_().sum(-1)
        return (torch.log10_((self._bands @ power).clamp_(min=FLOOR)).mul_(10).numpy(),)

    def graph(self, library: Any, *inputs: Any) -> Any:
        fn = library.fn
        signal, _ = fn.decoders.audio(inputs[0], downmix=True)
        spectrum = fn.spectrogram(signal, nfft=N_FFT, window_length=WINDOW, window_step=STEP, window_fn=HANN.tolist())
        bands = fn.mel_filter_bank(spectrum, sample_rate=float(RATE), nfilter=BANDS)
        return fn.to_decibels(bands, multiplier=10.0, reference=1.0, cutoff_db=10 * float(np.log10(FLOOR)))

    def reference(self, *inputs: np.ndarray) -> Arrays:
        signal, _ = soundfile.read(io.BytesIO(inputs[0].tobytes()), dtype="float64")
        padded = np.pad(signal, N_FFT // 2, mode="reflect")
        frames = np.lib.stride_tricks.sliding_window_view(padded, N_FFT)[::STEP]
        window = np.pad(HANN, (N_FFT - WINDOW) // 2)
        power = np.abs(np.fft.rfft(frames * window)) ** 2
        return ((10 * np.log10(np.maximum(mel_bands() @ power.T, FLOOR))).astype(np.float32),)


def mel_bands() -> np.ndarray:
    """Return the weights of triangular mel bands by Slaney's formula, float64 ``[BANDS, N_FFT // 2 + 1]``.

    They are the defaults of librosa and DALI: up to 1 kHz, a mel is 200 / 3 Hz; above, 27 mels are a factor of 6.4.
    """
    step, knee, growth = 200 / 3, 1000.0, np.log(6.4) / 27

    def to_hertz(mels: np.ndarray) -> np.ndarray:
        return np.where(mels < knee / step, mels * step, knee * np.exp(growth * (mels - knee / step)))

    highest = knee / step + np.log(RATE / 2 / knee) / growth
    edges = to_hertz(np.linspace(0, highest, BANDS + 2))
    bins = np.fft.rfftfreq(N_FFT, 1 / RATE)
    rising = (bins - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - bins) / np.diff(edges)[1:, None]
    return np.maximum(0, np.minimum(rising, falling)) * (2 / (edges[2:] - edges[:-2]))[:, None]


def _write(folder: Path) -> None:
    """Write recordings with the loudness of speech: noise through slow resonances."""
    rng = np.random.default_rng(0)
    time = np.arange(SECONDS * RATE) / RATE
    for number in range(FILES):
        voiced = sum(np.sin(2 * np.pi * k * (110 + number) * time + 3 * np.sin(4 * time)) / k for k in range(1, 20))
        loudness = np.clip(np.sin(2 * np.pi * 3 * time + number), 0, 1)
        signal = 0.1 * voiced * loudness + 0.005 * rng.normal(size=time.size)
        soundfile.write(folder / f"{number:03}.flac", np.clip(signal, -1, 1), RATE, format="FLAC")
