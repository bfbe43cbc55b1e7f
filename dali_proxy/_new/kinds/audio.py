"""Train a classifier of sounds, from mel spectrograms.

The folder of --data has train/ and val/, each with a folder of WAV, FLAC, Ogg or MP3 files for each class.
"""

from __future__ import annotations

import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from dali_proxy import dynamic, types

SCORE = "accuracy"
RATE = 16_000  # samples per second, to which sounds are resampled
LENGTH = RATE  # samples of each sound: longer ones are cut, and shorter ones padded with silence
BANDS = 64  # frequencies of a spectrogram


class Samples(torch.utils.data.Dataset[tuple[Any, int]]):
    """Encoded sounds, and the numbers of their classes."""

    def __init__(self, folder: Path, transform: Callable[..., Any]) -> None:
        suffixes = (".wav", ".flac", ".ogg", ".mp3")
        self.files = sorted(path for path in folder.glob("*/*") if path.suffix.lower() in suffixes)
        if not self.files:
            raise FileNotFoundError(f"{folder} has no folders of sounds")
        self.classes = sorted({path.parent.name for path in self.files})
        self.transform = transform

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path = self.files[index]
        return self.transform(path.read_bytes()), self.classes.index(path.parent.name)


def spectrogram(encoded: Any, start: Any, noise: Any) -> Any:
    """Return the spectrogram of a sound in decibels, [1, BANDS, time], with mean 0 and standard deviation 1."""
    sound, _ = dynamic.decoders.audio(encoded, sample_rate=RATE, downmix=True, dtype=types.FLOAT)
    sound = sound + noise * dynamic.random.normal(sound)
    where: dict[str, Any] = {"axes": [0], "normalized_anchor": False, "normalized_shape": False}
    sound = dynamic.slice(sound, start, float(LENGTH), out_of_bounds_policy="pad", **where)
    powers = dynamic.spectrogram(sound, nfft=512, window_length=400, window_step=160)
    bands = dynamic.mel_filter_bank(powers, sample_rate=RATE, nfilter=BANDS)
    decibels = dynamic.normalize(dynamic.to_decibels(bands, cutoff_db=-60.0))
    return dynamic.expand_dims(decibels, axes=[0])


def augment(encoded: Any) -> Any:
    """Return a spectrogram for the training: moved in time, with noise, and without a few frequencies and moments."""
    uniform = dynamic.random.uniform
    bands = spectrogram(encoded, uniform(range=(-0.1, 0.1)) * RATE, uniform(range=(0.0, 0.02)))
    for axis, extent in ((1, BANDS), (2, LENGTH // 160)):  # SpecAugment
        anchor = uniform(range=(0.0, extent), shape=[1])
        bands = dynamic.erase(bands, axes=[axis], anchor=anchor, shape=6.0)
    return bands


def prepare(encoded: Any) -> Any:
    """Return a spectrogram for the validation."""
    return spectrogram(encoded, 0.0, 0.0)


def make_network(dataset: Samples) -> nn.Module:
    """Return a small network from spectrograms to logits. Replace it by your own."""
    layers: list[nn.Module] = []
    for channels, width in ((1, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(64 * 16, len(dataset.classes)))


def compute_loss(network: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    """Return the loss of a batch."""
    bands, labels = batch
    return nn.functional.cross_entropy(network(bands), labels)


def compute_scores(network: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    """Return for each sample whether its class is right."""
    bands, labels = batch
    return network(bands).argmax(dim=1) == labels


def write_data(folder: Path) -> None:
    """Write rising, falling and steady tones with noise."""
    random = np.random.default_rng(0)
    time = np.linspace(0, 1, LENGTH)
    for split, count in (("train", 32), ("val", 12)):
        for name, slope in (("falling", -0.7), ("rising", 0.7), ("steady", 0.0)):
            (folder / split / name).mkdir(parents=True)
            for number in range(count):
                pitch = random.uniform(600, 2000) * (1 + slope * (time - 0.5))
                sound = 0.5 * np.sin(2 * np.pi * np.cumsum(pitch) / RATE) + random.normal(0, 0.05, LENGTH)
                with wave.open(str(folder / split / name / f"{number:03}.wav"), "wb") as file:
                    file.setparams((1, 2, RATE, 0, "NONE", ""))
                    file.writeframes((sound.clip(-1, 1) * 32767).astype("<i2").tobytes())
