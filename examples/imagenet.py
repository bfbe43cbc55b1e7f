"""Train an ImageNet-style classifier: random-resized crops, mirroring, mixed precision, centre crops for validation.

    python examples/imagenet.py
    python examples/imagenet.py --data /data/imagenet --image-size 224 --batch-size 256 --epochs 90 --num-threads 8

--data names a folder with train/ and val/, each with one folder of JPEGs per class.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

import common
import dali_proxy
from dali_proxy import fn, pipeline_def, types
from networks import classifier


class ImageFolder(Dataset):
    """An ordinary dataset: it reads a file, passes the bytes to a transform, and returns the result with the label."""

    def __init__(self, folder: Path, transform: Callable[[np.ndarray], Any]) -> None:
        self.transform = transform
        self.classes = sorted(path.name for path in folder.iterdir() if path.is_dir())
        self.samples = [
            (path, label)
            for label, name in enumerate(self.classes)
            for path in sorted((folder / name).iterdir())
            if path.suffix.lower() in (".jpg", ".jpeg", ".png")
        ]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path, label = self.samples[index]
        return self.transform(np.fromfile(path, np.uint8)), label


@pipeline_def
def training_pipe(decoder: str, size: int):
    encoded = fn.external_source(name="images", no_copy=True)
    images = fn.decoders.image_random_crop(encoded, device=decoder, random_area=(0.2, 1.0))
    images = fn.resize(images, size=(size, size), interp_type=types.INTERP_LINEAR)
    mirror = fn.random.coin_flip()
    return fn.crop_mirror_normalize(images, dtype=types.FLOAT, mean=common.MEAN, std=common.STD, mirror=mirror)


@pipeline_def
def validation_pipe(decoder: str, size: int):
    encoded = fn.external_source(name="images", no_copy=True)
    images = fn.decoders.image(encoded, device=decoder)
    images = fn.resize(images, resize_shorter=size * 256 / 224, interp_type=types.INTERP_LINEAR)
    return fn.crop_mirror_normalize(images, dtype=types.FLOAT, mean=common.MEAN, std=common.STD, crop=(size, size))


def train(options: argparse.Namespace, network: nn.Module, loader: dali_proxy.DataLoader) -> common.Meter:
    """Train with mixed precision. float16 needs scaled gradients; bfloat16 doesn't."""
    device = options.device
    optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=options.learning_rate, total_steps=options.epochs * len(loader)
    )
    scaler = torch.amp.GradScaler(device.type, enabled=options.precision == "float16")
    meter = common.Meter(options.epochs, len(loader))
    network.train()
    for _ in range(options.epochs):
        for images, labels in meter.follow(loader):
            with autocast(options):
                logits = network(images.to(device, non_blocking=True))
                loss = nn.functional.cross_entropy(logits.float(), labels.to(device), label_smoothing=0.1)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            schedule.step()
            meter.add(loss, len(images))
    meter.close()
    return meter


@torch.no_grad()
def accuracy(options: argparse.Namespace, network: nn.Module, loader: dali_proxy.DataLoader) -> float:
    """Return the fraction of images that are classified correctly."""
    network.eval()
    right = total = 0
    for images, labels in loader:
        with autocast(options):
            guesses = network(images.to(options.device)).argmax(dim=1)
        right += int((guesses.cpu() == labels).sum())
        total += len(labels)
    return right / total


def autocast(options: argparse.Namespace) -> torch.autocast:
    dtype = getattr(torch, options.precision)
    return torch.autocast(options.device.type, dtype=dtype, enabled=dtype != torch.float32)


def main() -> None:
    parser = common.make_parser(__doc__, epochs=8)
    parser.add_argument(
        "--precision", default="bfloat16", choices=["float32", "float16", "bfloat16"], help="(%(default)s)"
    )
    options = common.parse(parser)
    pipe_options, loader_options = common.pipeline_options(options), common.loader_options(options)
    # One server for each pipeline. Both run during the whole training, so that you can validate every epoch.
    with (
        common.class_folders(options.data) as (train_folder, val_folder),
        dali_proxy.DALIServer(training_pipe(**pipe_options)) as train_server,
        dali_proxy.DALIServer(validation_pipe(**pipe_options)) as val_server,
    ):
        train_set = ImageFolder(train_folder, transform=train_server.proxy)
        train_loader = dali_proxy.DataLoader(train_server, train_set, shuffle=True, drop_last=True, **loader_options)
        network = classifier(len(train_set.classes)).to(options.device)
        meter = train(options, network, train_loader)
        stats = train_server.stats()

        val_set = ImageFolder(val_folder, transform=val_server.proxy)
        val_loader = dali_proxy.DataLoader(val_server, val_set, **loader_options)
        score = accuracy(options, network, val_loader)
        if options.picture:
            common.save_picture(options.picture, next(iter(train_loader))[0])
    meter.report(stats, accuracy=f"{score:.1%} of {len(val_set)} (guessing: {1 / len(train_set.classes):.1%})")


if __name__ == "__main__":
    main()
