"""Train a classifier of videos, from clips of a few frames.

The folder of --data has train/ and val/, each with a folder of videos for each class.

Videos need the extra video: pip install 'dali-proxy[video]'
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from torch import nn

from dali_proxy import dynamic

SCORE = "accuracy"
FRAMES = 8  # of a clip
STRIDE = 2  # distance of two frames of a clip in the video
SIZE = 64  # height and width of the network's input
NORMAL: dict[str, Any] = {"mean": [123.7, 116.3, 103.5], "std": [58.4, 57.1, 57.4]}


class Samples(torch.utils.data.Dataset[tuple[Any, int]]):
    """Encoded videos, and the numbers of their classes."""

    def __init__(self, folder: Path, transform: Callable[..., Any]) -> None:
        suffixes = (".mp4", ".mkv", ".mov", ".avi", ".webm")
        self.files = sorted(path for path in folder.glob("*/*") if path.suffix.lower() in suffixes)
        if not self.files:
            raise FileNotFoundError(f"{folder} has no folders of videos")
        self.classes = sorted({path.parent.name for path in self.files})
        self.transform = transform

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path = self.files[index]
        with av.open(path) as file:
            frames = file.streams.video[0].frames  # 0 if the container doesn't say how many there are
        start = torch.randint(max(1, frames - FRAMES * STRIDE + 1), ()).item()
        clip = self.transform(encoded=path.read_bytes(), start=np.int32(start))
        return clip, self.classes.index(path.parent.name)


def clip(encoded: Any, start: Any) -> Any:
    """Return `FRAMES` frames from `start` on, FHWC. At the end of the video, the last one is repeated."""
    return dynamic.decoders.video(encoded, start_frame=start, stride=STRIDE, sequence_length=FRAMES, pad_mode="edge")


def augment(encoded: Any, start: Any) -> Any:
    """Return a random crop of a clip for the training, CFHW. All frames of a clip are cropped alike."""
    frames = dynamic.random_resized_crop(clip(encoded, start), size=(SIZE, SIZE), random_area=(0.6, 1.0))
    frames = dynamic.brightness(frames, brightness=dynamic.random.uniform(range=(0.7, 1.3)))
    return dynamic.crop_mirror_normalize(frames, output_layout="CFHW", **NORMAL)


def prepare(encoded: Any, start: Any) -> Any:
    """Return a clip for the validation, CFHW."""
    frames = dynamic.resize(clip(encoded, start), size=(SIZE, SIZE))
    return dynamic.crop_mirror_normalize(frames, output_layout="CFHW", **NORMAL)


def make_network(dataset: Samples) -> nn.Module:
    """Return a small network from clips to logits. Replace it by your own."""
    layers: list[nn.Module] = []
    for channels, width in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv3d(channels, width, 3, stride=(1, 2, 2), padding=1), nn.BatchNorm3d(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool3d((4, 2, 2)), nn.Flatten(), nn.Linear(1024, len(dataset.classes)))


def compute_loss(network: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    """Return the loss of a batch."""
    clips, labels = batch
    return nn.functional.cross_entropy(network(clips), labels)


def compute_scores(network: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    """Return for each sample whether its class is right."""
    clips, labels = batch
    return network(clips).argmax(dim=1) == labels


def write_data(folder: Path) -> None:
    """Write videos of a bright square that moves down, right or up."""
    random = np.random.default_rng(0)
    for split, count in (("train", 24), ("val", 8)):
        for name, step in (("down", (2, 0)), ("right", (0, 2)), ("up", (-2, 0))):
            (folder / split / name).mkdir(parents=True)
            for number in range(count):
                video = random.integers(0, 60, (20, 64, 64, 3), np.uint8)
                place = random.integers(0, 50, 2)
                for frame in video:
                    y, x = place = (place + step) % 52
                    frame[y : y + 12, x : x + 12] = 230
                write_video(folder / split / name / f"{number:03}.mp4", video)


def write_video(path: Path, frames: np.ndarray[Any, Any]) -> None:
    """Write frames, FHWC, as a video."""
    with av.open(path, "w") as file:
        stream = file.add_stream("mpeg4", rate=10, height=frames.shape[1], width=frames.shape[2])
        for frame in frames:
            file.mux(stream.encode(av.VideoFrame.from_ndarray(frame)))
        file.mux(stream.encode())
