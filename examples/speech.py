"""Train a classifier of spoken words: sounds become mel spectrograms in decibels, in the pipeline.

    python examples/speech.py --picture spectrograms.png
    python examples/speech.py --data /data/speech_commands --seconds 1 --epochs 30 --num-threads 8

--data names a folder with train/ and val/, each with one folder of WAV, FLAC, Ogg or MP3 files per class. Without it,
the example synthesizes words of two vowels, such as "ai" and "ia", by voices of different pitch and speed.
"""

from __future__ import annotations

import argparse
import wave
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset
from tqdm import tqdm

import common
import dali_proxy
from dali_proxy.pipeline import DataNode, fn, pipeline_def, types
from networks import convolution

RATE = 16_000  # samples per second, to which all sounds are resampled
STEP = RATE // 100  # columns of a spectrogram are 10 ms apart
MEL_BANDS = 64
#: Resonances of the vocal tract, in hertz, that listeners hear as a vowel (Peterson and Barney, 1952).
VOWELS = {"a": (730, 1090, 2440), "i": (270, 2290, 3010), "u": (300, 870, 2240)}
TRAIN, VAL = 24, 8  # sounds per word


class Words(Dataset):
    """An ordinary dataset: it reads a file, passes the bytes to a transform, and returns the result with the label."""

    def __init__(self, folder: Path, transform: Callable[[np.ndarray], Any]) -> None:
        self.transform = transform
        self.classes = sorted(path.name for path in folder.iterdir() if path.is_dir())
        self.samples = [
            (path, label)
            for label, name in enumerate(self.classes)
            for path in sorted((folder / name).iterdir())
            if path.suffix.lower() in (".wav", ".flac", ".ogg", ".mp3")
        ]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path, label = self.samples[index]
        return self.transform(np.fromfile(path, np.uint8)), label


@pipeline_def
def speech_pipe(seconds: float, augment: bool):
    """Return spectrograms, float [1, MEL_BANDS, 100 per second], with mean 0 and standard deviation 1."""
    encoded = fn.external_source(name="sounds", no_copy=True)
    sound, _ = fn.decoders.audio(encoded, dtype=types.FLOAT, sample_rate=RATE, downmix=True)
    start: float | DataNode = 0.0
    if augment:
        sound += fn.random.uniform(range=(0.0, 0.02)) * fn.random.normal(sound)
        start = fn.random.uniform(range=(-0.1, 0.1)) * RATE
    # All sounds get the same length: silence is added, also before the sound if `start` is negative.
    sound = fn.slice(
        sound,
        start,
        seconds * RATE,
        axes=[0],
        normalized_anchor=False,
        normalized_shape=False,
        out_of_bounds_policy="pad",
    )
    spectrum = fn.spectrogram(fn.preemphasis_filter(sound), nfft=512, window_length=400, window_step=STEP)
    bands = fn.mel_filter_bank(spectrum, sample_rate=RATE, nfilter=MEL_BANDS)
    bands = fn.normalize(fn.to_decibels(bands, cutoff_db=-60))
    if augment:
        # Hide a few frequencies and a moment (SpecAugment, Park et al. 2019).
        for axis, extent in enumerate((MEL_BANDS, 100 * seconds)):
            anchor = fn.random.uniform(range=(0.0, extent), shape=[1])
            bands = fn.erase(bands, axes=[axis], anchor=anchor, shape=6.0)
    return fn.expand_dims(bands, axes=[0])


def write_words(folder: Path, seed: int) -> None:
    """Write train/ and val/, each with a folder of WAV files for every pair of vowels."""
    words = ["".join(pair) for pair in permutations(VOWELS, 2)]
    with tqdm(total=len(words) * (TRAIN + VAL), desc="writing sounds", unit="sound", disable=None) as bar:
        for split, count in (("train", TRAIN), ("val", VAL)):
            dice = np.random.default_rng([seed, count])
            for word in words:
                (folder / split / word).mkdir(parents=True)
                for number in range(count):
                    write_sound(folder / split / word / f"{number:02}.wav", speak(word, dice))
                    bar.update()


def speak(word: str, dice: np.random.Generator) -> np.ndarray:
    """Synthesize a word: overtones of a falling pitch, as loud as the resonances of the vowels let them be."""
    time = np.linspace(0, 1, int(RATE * dice.uniform(0.4, 0.8)))
    pitch = dice.uniform(90, 240) * (1 - dice.uniform(0, 0.3) * time)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    tract = dice.uniform(0.85, 1.15)  # a short vocal tract has high resonances
    turn = 1 / (1 + np.exp(-20 * (time - dice.uniform(0.4, 0.6))))  # from the first vowel to the second
    resonances = [tract * ((1 - turn) * a + turn * b) for a, b in zip(VOWELS[word[0]], VOWELS[word[1]], strict=True)]
    sound = np.zeros_like(time)
    for overtone in range(1, int(4000 / pitch.max())):
        loudness = sum(1 / (1 + ((overtone * pitch - resonance) / 80) ** 2) for resonance in resonances)
        sound += loudness / overtone**0.5 * np.sin(overtone * phase)
    sound *= np.sin(np.pi * time) ** 0.5  # fade in and out
    return dice.uniform(0.2, 0.9) * sound / np.abs(sound).max()


def write_sound(path: Path, sound: np.ndarray) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((sound * 32767).astype("<i2").tobytes())


def recognizer(classes: int) -> nn.Sequential:
    """Spectrograms [N, 1, MEL_BANDS, T] to logits [N, classes]."""
    layers = [convolution(a, b, stride=2) for a, b in ((1, 16), (16, 32), (32, 64))]
    # The mean over eighths of the time: the order of the vowels matters.
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d((4, 8)), nn.Flatten(), nn.Linear(64 * 4 * 8, classes))


@torch.no_grad()
def accuracy(options: argparse.Namespace, network: nn.Module, loader: Iterable[Any]) -> float:
    """Return the fraction of sounds that are classified correctly."""
    network.eval()
    right = [(network(bands.to(options.device)).argmax(dim=1).cpu() == labels).float() for bands, labels in loader]
    return float(torch.cat(right).mean())


def main() -> None:
    parser = common.make_parser(__doc__, epochs=8, batch_size=16, image_size=None)
    parser.add_argument("--seconds", default=0.8, type=float, help="length of all sounds (%(default)s)")
    options = common.parse(parser)
    # The pipeline runs on the CPU, even if the network is on the GPU.
    pipe_options = {**common.placement(options), "device_id": None, "seconds": options.seconds}
    loader_options = common.loader_options(options)
    with ExitStack() as stack:
        folder = options.data or stack.enter_context(common.temporary_folder())
        if options.data is None:
            write_words(folder, options.seed)
        server = stack.enter_context(dali_proxy.DALIServer(speech_pipe(augment=True, **pipe_options)))
        train_set = Words(folder / "train", transform=server.proxy)
        loader = dali_proxy.DataLoader(server, train_set, shuffle=True, **loader_options)
        network = recognizer(len(train_set.classes)).to(options.device)
        optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate)
        meter = common.Meter(options.epochs, len(loader))
        for _ in range(options.epochs):
            for bands, labels in meter.follow(loader):
                loss = nn.functional.cross_entropy(network(bands.to(options.device)), labels.to(options.device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                meter.add(loss, len(bands))
        meter.close()
        stats = server.stats()
        if options.picture:
            common.save_picture(options.picture, next(iter(loader))[0].flip(2))  # with high frequencies at the top

        val_server = stack.enter_context(dali_proxy.DALIServer(speech_pipe(augment=False, **pipe_options)))
        val_set = Words(folder / "val", transform=val_server.proxy)
        score = accuracy(options, network, dali_proxy.DataLoader(val_server, val_set, **loader_options))
    meter.report(stats, accuracy=f"{score:.1%} of {len(val_set)} (guessing: {1 / len(train_set.classes):.1%})")


if __name__ == "__main__":
    main()
