"""Train a segmentation network.

The folder of --data has train/ and val/, each with images/ (JPEG or PNG) and masks/ (PNG of the same names). The pixels
of a mask are numbers of classes, of 8 or 16 bits; IGNORED is ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import nn

from dali_proxy import dynamic, types

SCORE = "IoU"
CLASSES = 3  # with the background, 0
IGNORED = 255
MASKS = types.UINT8  # types.UINT16 if the masks have 16 bits
SIZE = 96  # height and width of the network's input
DECODER = "cpu"  # "gpu" decodes on the GPU, where the batches stay
NORMAL: dict[str, Any] = {"mean": [123.7, 116.3, 103.5], "std": [58.4, 57.1, 57.4]}


class Samples(torch.utils.data.Dataset[Any]):
    """Encoded images and masks."""

    def __init__(self, folder: Path, transform: Callable[..., Any]) -> None:
        files = (folder / "images").glob("*")
        self.images = sorted(path for path in files if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
        if not self.images:
            raise FileNotFoundError(f"{folder / 'images'} has no JPEG or PNG files")
        self.masks = folder / "masks"
        self.transform = transform
        for path in self.images[:8]:
            with Image.open(self.masks / f"{path.stem}.png") as mask:
                classes, mode = np.unique(np.array(mask)), mask.mode
            if mode not in (("L", "P") if MASKS == types.UINT8 else ("I", "I;16")):
                raise ValueError(
                    f"the mask of {path.name} has PIL's mode {mode}, MASKS is {MASKS}: set types.UINT8 for masks with "
                    "a palette or 8 bits (P, L) and types.UINT16 for 16 bits (I;16, I); convert others to L"
                )
            if classes[classes != IGNORED].max(initial=0) >= CLASSES:
                raise ValueError(f"the mask of {path.name} has the values {classes.tolist()[:9]}, CLASSES is {CLASSES}")

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        path = self.images[index]
        return self.transform(image=path.read_bytes(), mask=(self.masks / f"{path.stem}.png").read_bytes())


def augment(image: Any, mask: Any) -> Any:
    """Return the same random crop of an image, CHW, and of its mask, HW1, for the training."""
    start, shape = dynamic.random_crop_generator(dynamic.peek_image_shape(image), random_area=(0.3, 1.0))
    mirror = dynamic.random.coin_flip()
    image = dynamic.decoders.image_slice(image, start=start, shape=shape, axes=[0, 1], device=DECODER)
    image = dynamic.resize(image, size=(SIZE, SIZE))
    mask = dynamic.decoders.image(mask, output_type=types.GRAY, palette_indices=True, dtype=MASKS, device=DECODER)
    mask = dynamic.slice(mask, start=start, shape=shape, axes=[0, 1])
    mask = dynamic.resize(mask, size=(SIZE, SIZE), interp_type=types.INTERP_NN)  # never mix classes
    return dynamic.crop_mirror_normalize(image, mirror=mirror, **NORMAL), dynamic.flip(mask, horizontal=mirror)


def prepare(image: Any, mask: Any) -> Any:
    """Return a whole image, CHW, and its mask, HW1, for the validation."""
    image = dynamic.resize(dynamic.decoders.image(image, device=DECODER), size=(SIZE, SIZE))
    mask = dynamic.decoders.image(mask, output_type=types.GRAY, palette_indices=True, dtype=MASKS, device=DECODER)
    mask = dynamic.resize(mask, size=(SIZE, SIZE), interp_type=types.INTERP_NN)
    return dynamic.crop_mirror_normalize(image, **NORMAL), mask


def make_network(dataset: Samples) -> nn.Module:
    """Return a small network from images to logits of each pixel. Replace it by your own."""
    layers: list[nn.Module] = []
    for channels, width in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(64, CLASSES, 1), nn.Upsample(scale_factor=8, mode="bilinear"))


def compute_loss(network: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    """Return the loss of a batch."""
    images, masks = batch
    return nn.functional.cross_entropy(network(images), masks.squeeze(-1).long(), ignore_index=IGNORED)


def compute_scores(network: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    """Return for each sample the intersection over union, as the mean of the classes other than the background."""
    images, masks = batch
    guesses, truth = network(images).argmax(dim=1), masks.squeeze(-1).long()
    guesses[truth == IGNORED] = IGNORED
    ious = []
    for label in range(1, CLASSES):
        guessed, true = guesses == label, truth == label
        both, either = ((guessed & true).sum(dim=(1, 2)), (guessed | true).sum(dim=(1, 2)))
        ious.append(torch.where(either == 0, 1.0, both / either.clamp(min=1)))
    return torch.stack(ious).mean(dim=0)


def write_data(folder: Path) -> None:
    """Draw a bright disk, class 1, and a bright rectangle, class 2, on noise."""
    random = np.random.default_rng(0)
    for split, count in (("train", 96), ("val", 24)):
        for name in ("images", "masks"):
            (folder / split / name).mkdir(parents=True)
        for number in range(count):
            image = Image.fromarray(random.integers(0, 80, (120, 160, 3), np.uint8))
            mask = Image.new("L", image.size)
            for label in (1, 2):
                x, y, width, height = (int(each) for each in random.integers((0, 0, 30, 30), (100, 60, 60, 60)))
                color = (220, 90, 60) if label == 1 else (60, 150, 220)
                for picture, fill in ((image, color), (mask, label)):
                    pen = ImageDraw.Draw(picture)
                    (pen.ellipse if label == 1 else pen.rectangle)((x, y, x + width, y + height), fill=fill)
            image.save(folder / split / "images" / f"{number:03}.jpg")
            mask.save(folder / split / "masks" / f"{number:03}.png")
