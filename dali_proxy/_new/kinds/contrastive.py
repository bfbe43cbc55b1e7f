"""Train an encoder of images without labels: two random views of an image get similar features (SimCLR).

The folder of --data has train/ and val/, each with JPEG or PNG files, also in subfolders.
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
from dali_proxy.torchvision import ColorJitter, GaussianBlur, RandomApply, RandomGrayscale

SCORE = "retrieval"  # of images for which the most similar one of a batch is their own other view
SIZE = 96  # height and width of the network's input
TEMPERATURE = 0.1
BATCH: dict[str, Any] = {"track_running_stats": False}  # validation uses the statistics of its batches, too
DECODER = "cpu"  # "gpu" decodes on the GPU, where the batches stay
NORMAL: dict[str, Any] = {"mean": [123.7, 116.3, 103.5], "std": [58.4, 57.1, 57.4]}


class Samples(torch.utils.data.Dataset[Any]):
    """Encoded images."""

    def __init__(self, folder: Path, transform: Callable[..., Any]) -> None:
        self.files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
        if not self.files:
            raise FileNotFoundError(f"{folder} has no images")
        self.transform = transform

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.files[index].read_bytes())


COLORS = [RandomApply([ColorJitter(0.3, 0.3, 0.3, 0.05)], p=0.8), RandomGrayscale(p=0.1)]
BLUR = RandomApply([GaussianBlur(9, (0.1, 2.0))], p=0.5)


def augment(encoded: Any) -> Any:
    """Return two views of an image, CHW. The image is decoded once; each view has its own random numbers."""
    image = dynamic.decoders.image(encoded, device=DECODER)
    return view(image), view(image)


prepare = augment  # the validation compares views, too


def view(image: Any) -> Any:
    """Return a random view of an image, CHW."""
    image = dynamic.random_resized_crop(image, size=(SIZE, SIZE), random_area=(0.4, 1.0))
    for step in (*COLORS, BLUR):
        image = step(image)
    return dynamic.crop_mirror_normalize(image, mirror=dynamic.random.coin_flip(), **NORMAL)


def make_network(dataset: Samples) -> nn.Module:
    """Return a small network from images to features. Replace it by your own."""
    layers: list[nn.Module] = []
    for channels, width in ((3, 16), (16, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.BatchNorm2d(width, **BATCH), nn.ReLU()]
    head = (nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 64))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), *head)


def similarities(network: nn.Module, batch: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the similarities of all views, first the first ones, and for each view the number of its counterpart."""
    features = nn.functional.normalize(network(torch.cat(batch)))
    matrix = (features @ features.T).fill_diagonal_(-torch.inf)
    count = len(batch[0])
    return matrix, (torch.arange(2 * count, device=matrix.device) + count) % (2 * count)


def compute_loss(network: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    """Return the NT-Xent loss of a batch."""
    matrix, counterparts = similarities(network, batch)
    return nn.functional.cross_entropy(matrix / TEMPERATURE, counterparts)


def compute_scores(network: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    """Return for each view whether the most similar view of the batch is of the same image."""
    matrix, counterparts = similarities(network, batch)
    return matrix.argmax(dim=1) == counterparts


def write_data(folder: Path) -> None:
    """Draw images, each of shapes in other colors."""
    random = np.random.default_rng(0)
    for split, count in (("train", 96), ("val", 32)):
        (folder / split).mkdir(parents=True)
        for number in range(count):
            image = Image.new("RGB", (160, 120), tuple(random.integers(0, 256, 3).tolist()))
            pen, colors = ImageDraw.Draw(image), random.integers(0, 256, (3, 3)).tolist()
            for shape in range(30):
                x, y, width, height = (int(each) for each in random.integers((0, 0, 8, 8), (140, 100, 50, 50)))
                draw = (pen.ellipse, pen.rectangle)[(number + shape % 3 // 2) % 2]
                draw((x, y, x + width, y + height), fill=tuple(colors[shape % 3]))
            image.save(folder / split / f"{number:03}.jpg")
