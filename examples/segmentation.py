"""Train a segmentation network: each sample is an image and its mask, which get the same random crop.

    python examples/segmentation.py --picture masks.png
    python examples/segmentation.py --data /data/streets --classes 19 --image-size 512

--data names a folder with train/ and val/, each with images/ (JPEG, PNG) and masks/ (PNG of the same name, whose pixels
are class numbers, also as indices of a palette, as in VOC and DAVIS). Without it, the example places objects on
photographs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

import common
import dali_proxy
import scenes
from dali_proxy import fn, pipeline_def, types
from networks import UNet


class Pairs(Dataset):
    """Images and masks with the same names, as encoded bytes."""

    def __init__(self, folder: Path, transform: Callable[..., Any]) -> None:
        self.transform = transform
        self.images = sorted((folder / "images").iterdir())
        self.masks = [folder / "masks" / f"{path.stem}.png" for path in self.images]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        # The two inputs are passed by name, and each of the two outputs has a placeholder.
        image, mask = self.transform(
            image=np.fromfile(self.images[index], np.uint8), mask=np.fromfile(self.masks[index], np.uint8)
        )
        return image, mask


@pipeline_def
def training_pipe(decoder: str, size: int):
    """Return images, float [3, size, size], and masks, uint8 [size, size, 1]."""
    encoded = fn.external_source(name="image", no_copy=True)
    encoded_mask = fn.external_source(name="mask", no_copy=True)
    # Random numbers are drawn once and used for both.
    anchor, shape = fn.random_crop_generator(fn.peek_image_shape(encoded), random_area=(0.3, 1.0))
    mirror = fn.random.coin_flip()

    image = fn.decoders.image(encoded, device=decoder)
    image = fn.slice(image, start=anchor, shape=shape, axes=[0, 1])
    image = fn.resize(image, size=(size, size), interp_type=types.INTERP_LINEAR)
    image = fn.crop_mirror_normalize(image, dtype=types.FLOAT, mean=common.MEAN, std=common.STD, mirror=mirror)

    # If a mask has a palette, its classes are the indices, not the colors.
    mask = fn.decoders.image(encoded_mask, device=decoder, output_type=types.GRAY, palette_indices=True)
    mask = fn.slice(mask, start=anchor, shape=shape, axes=[0, 1])
    # Nearest neighbour, because interpolating the numbers of two classes would give a third class.
    mask = fn.resize(mask, size=(size, size), interp_type=types.INTERP_NN)
    mask = fn.flip(mask, horizontal=mirror)
    return image, mask


@pipeline_def
def validation_pipe(decoder: str, size: int):
    """The same without random numbers: the whole image."""
    image = fn.decoders.image(fn.external_source(name="image", no_copy=True), device=decoder)
    mask = fn.external_source(name="mask", no_copy=True)
    mask = fn.decoders.image(mask, device=decoder, output_type=types.GRAY, palette_indices=True)
    image = fn.resize(image, size=(size, size), interp_type=types.INTERP_LINEAR)
    image = fn.crop_mirror_normalize(image, dtype=types.FLOAT, mean=common.MEAN, std=common.STD)
    return image, fn.resize(mask, size=(size, size), interp_type=types.INTERP_NN)


def train(options: argparse.Namespace, network: nn.Module, loader: dali_proxy.DataLoader) -> common.Meter:
    optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate)
    meter = common.Meter(options.epochs, len(loader))
    network.train()
    for _ in range(options.epochs):
        for images, masks in meter.follow(loader):
            logits = network(images.to(options.device))
            loss = nn.functional.cross_entropy(logits, masks[..., 0].to(options.device).long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meter.add(loss, len(images))
    meter.close()
    return meter


@torch.no_grad()
def mean_iou(options: argparse.Namespace, network: nn.Module, loader: Iterable[Any]) -> float:
    """Return the mean intersection over union of all classes except the background, over all pixels."""
    network.eval()
    counts = torch.zeros(options.classes, options.classes, dtype=torch.long)  # [truth, guess]
    for images, masks in loader:
        guesses = network(images.to(options.device)).argmax(dim=1).cpu()
        pairs = masks[..., 0].cpu().long() * options.classes + guesses
        counts += torch.bincount(pairs.flatten(), minlength=counts.numel()).view_as(counts)
    intersection = counts.diag()
    union = counts.sum(0) + counts.sum(1) - intersection
    return float((intersection / union.clamp(min=1))[1:].mean())


def main() -> None:
    parser = common.make_parser(__doc__, epochs=8, batch_size=16)
    parser.add_argument("--classes", default=1 + len(scenes.CLASSES), type=int, help="with background (%(default)s)")
    options = common.parse(parser)
    pipe_options, loader_options = common.pipeline_options(options), common.loader_options(options)
    with ExitStack() as stack:
        folder = options.data or stack.enter_context(common.temporary_folder())
        if options.data is None:
            scenes.write_scenes(folder, options.seed)
        server = stack.enter_context(dali_proxy.DALIServer(training_pipe(**pipe_options)))
        train_set = Pairs(folder / "train", transform=server.proxy)
        loader = dali_proxy.DataLoader(server, train_set, shuffle=True, **loader_options)
        network = UNet(options.classes).to(options.device)
        meter = train(options, network, loader)
        stats = server.stats()
        if options.picture:
            images, masks = next(iter(loader))
            common.save_picture(options.picture, images, masks=masks)

        val_server = stack.enter_context(dali_proxy.DALIServer(validation_pipe(**pipe_options)))
        val_set = Pairs(folder / "val", transform=val_server.proxy)
        score = mean_iou(options, network, dali_proxy.DataLoader(val_server, val_set, **loader_options))
    meter.report(stats, IoU=f"{score:.1%}, mean of the classes on {len(val_set)} images")


if __name__ == "__main__":
    main()
