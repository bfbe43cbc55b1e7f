"""Train a segmentation network on patches of volumes, such as CT or MRI scans.

The folder of --data has train/ and val/, each with volumes/ and masks/ of NumPy files of the same names. A volume has
the shape (depth, height, width) and numbers of mean 0 and standard deviation 1; a mask has numbers of classes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from dali_proxy import dynamic

SCORE = "Dice"
CLASSES = 2  # with the background, 0
PATCH = (16, 32, 32)  # depth, height and width; each a multiple of 4


class Samples(torch.utils.data.Dataset[Any]):
    """Volumes and masks, with a dimension for channels."""

    def __init__(self, folder: Path, transform: Callable[..., Any]) -> None:
        self.files = sorted((folder / "volumes").glob("*.npy"))
        if not self.files:
            raise FileNotFoundError(f"{folder / 'volumes'} has no .npy files")
        self.masks = folder / "masks"
        self.transform = transform

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        path = self.files[index]
        volume, mask = np.load(path), np.load(self.masks / path.name)
        return self.transform(volume=volume[..., None].astype(np.float32), mask=mask[..., None].astype(np.uint8))


def patches(volume: Any, mask: Any, **position: Any) -> list[Any]:
    """Return the same patch of a volume and of its mask, DHWC. Volumes that are too small are padded."""
    pair = [dynamic.reinterpret(each, layout="DHWC") for each in (volume, mask)]
    return list(dynamic.crop(pair, crop=PATCH, out_of_bounds_policy="pad", **position))


def augment(volume: Any, mask: Any) -> Any:
    """Return a random patch, mirrored and of another brightness, for the training."""
    position = {f"crop_pos_{axis}": dynamic.random.uniform(range=(0, 1)) for axis in "xyz"}
    pair = patches(volume, mask, **position)
    volume, mask = dynamic.flip(pair, horizontal=dynamic.random.coin_flip(), vertical=dynamic.random.coin_flip())
    volume = volume * dynamic.random.uniform(range=(0.8, 1.2))
    return dynamic.transpose(volume, perm=[3, 0, 1, 2]), mask


def prepare(volume: Any, mask: Any) -> Any:
    """Return the middle of a volume and of its mask, for the validation."""
    volume, mask = patches(volume, mask)
    return dynamic.transpose(volume, perm=[3, 0, 1, 2]), mask


def make_network(dataset: Samples) -> nn.Module:
    """Return a small network from volumes to logits of each voxel. Replace it by your own."""
    layers: list[nn.Module] = []
    for channels, width in ((1, 8), (8, 16)):
        layers += [nn.Conv3d(channels, width, 3, stride=2, padding=1), nn.BatchNorm3d(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv3d(16, CLASSES, 1), nn.Upsample(scale_factor=4, mode="trilinear"))


def compute_loss(network: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    """Return the loss of a batch."""
    volumes, masks = batch
    return nn.functional.cross_entropy(network(volumes), masks.squeeze(-1).long())


def compute_scores(network: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    """Return for each sample the Dice score, as the mean of the classes other than the background."""
    volumes, masks = batch
    guesses, truth = network(volumes).argmax(dim=1).flatten(1), masks.flatten(1)
    dice = []
    for label in range(1, CLASSES):
        guessed, true = guesses == label, truth == label
        total = guessed.sum(dim=1) + true.sum(dim=1)
        dice.append(torch.where(total == 0, 1.0, 2 * (guessed & true).sum(dim=1) / total.clamp(min=1)))
    return torch.stack(dice).mean(dim=0)


def write_data(folder: Path) -> None:
    """Write volumes of noise with a bright ball."""
    random = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(*(np.arange(extent) for extent in (24, 48, 48)), indexing="ij"))
    for split, count in (("train", 64), ("val", 16)):
        for name in ("volumes", "masks"):
            (folder / split / name).mkdir(parents=True)
        for number in range(count):
            center = random.uniform((8, 16, 16), (16, 32, 32)).reshape(3, 1, 1, 1)
            mask = np.linalg.norm(grid - center, axis=0) < random.uniform(5, 9)
            volume = random.normal(0, 0.5, mask.shape) + 1.5 * mask
            np.save(folder / split / "volumes" / f"{number:03}.npy", volume.astype(np.float32))
            np.save(folder / split / "masks" / f"{number:03}.npy", mask.astype(np.uint8))
