"""Train a classifier of images.

The folder of --data has train/ and val/, each with a folder of JPEG or PNG files for each class.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import nn

from dali_proxy import dynamic

SCORE = "accuracy"
SIZE = 96  # height and width of the network's input
DECODER = "cpu"  # "gpu" decodes on the GPU, where the batches stay
NORMAL: dict[str, Any] = {"mean": [123.7, 116.3, 103.5], "std": [58.4, 57.1, 57.4]}


class Samples(torch.utils.data.Dataset[tuple[Any, int]]):
    """Encoded images, and the numbers of their classes."""

    def __init__(self, folder: Path, transform: Callable[..., Any]) -> None:
        self.files = sorted(path for path in folder.glob("*/*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
        if not self.files:
            raise FileNotFoundError(f"{folder} has no folders of images")
        self.classes = sorted({path.parent.name for path in self.files})
        self.transform = transform

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path = self.files[index]
        return self.transform(path.read_bytes()), self.classes.index(path.parent.name)


def augment(encoded: Any) -> Any:
    """Return a random crop of an image for the training, CHW."""
    image = dynamic.decoders.image_random_crop(encoded, device=DECODER, random_area=(0.3, 1.0))
    image = dynamic.resize(image, size=(SIZE, SIZE))
    return dynamic.crop_mirror_normalize(image, mirror=dynamic.random.coin_flip(), **NORMAL)


def prepare(encoded: Any) -> Any:
    """Return the middle of an image for the validation, CHW."""
    image = dynamic.resize(dynamic.decoders.image(encoded, device=DECODER), resize_shorter=SIZE)
    return dynamic.crop_mirror_normalize(image, crop=(SIZE, SIZE), **NORMAL)


def make_network(dataset: Samples) -> nn.Module:
    """Return a small network from images to logits. Replace it by your own."""
    layers: list[nn.Module] = []
    for channels, width in ((3, 16), (16, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, len(dataset.classes)))


def compute_loss(network: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    """Return the loss of a batch."""
    images, labels = batch
    return nn.functional.cross_entropy(network(images), labels)


def compute_scores(network: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    """Return for each sample whether its class is right."""
    images, labels = batch
    return network(images).argmax(dim=1) == labels


def write_data(folder: Path) -> None:
    """Draw circles, squares and triangles on noise."""
    random = np.random.default_rng(0)
    for split, count in (("train", 48), ("val", 16)):
        for corners, name in ((0, "circle"), (3, "triangle"), (4, "square")):
            (folder / split / name).mkdir(parents=True)
            for number in range(count):
                image = Image.fromarray(random.integers(0, 80, (120, 160, 3), np.uint8))
                x, y, radius = (int(each) for each in random.integers((50, 45, 25), (110, 75, 44)))
                color = tuple(random.integers(120, 256, 3).tolist())
                if corners:
                    turn = int(random.integers(0, 360))
                    ImageDraw.Draw(image).regular_polygon((x, y, radius), corners, turn, fill=color)
                else:
                    ImageDraw.Draw(image).ellipse((x - radius, y - radius, x + radius, y + radius), fill=color)
                image.save(folder / split / name / f"{number:03}.jpg")
