"""Learn without labels, as SimCLR does: two random views of each image, made by calling the proxy twice.

    python examples/contrastive.py --picture views.png
    python examples/contrastive.py --data /data/images --image-size 224 --batch-size 512 --epochs 200

--data names a folder with train/ and val/, each with one folder of JPEGs per class. Training ignores the classes. They
are used only at the end: an image gets the class of its nearest neighbour among the features.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset

import common
import dali_proxy
from dali_proxy import fn, pipeline_def, types
from imagenet import ImageFolder, validation_pipe
from networks import encoder


class TwoViews(Dataset):
    """Each sample is two views of one image."""

    def __init__(self, folder: Path, transform: Callable[[np.ndarray], Any]) -> None:
        self.transform = transform
        self.paths = sorted(path for path in folder.glob("*/*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        encoded = np.fromfile(self.paths[index], np.uint8)
        return self.transform(encoded), self.transform(encoded)  # every call draws new random numbers


@pipeline_def
def view_pipe(decoder: str, size: int):
    """A random crop with random brightness and a random tint; the arithmetic runs in the pipeline."""
    encoded = fn.external_source(name="images", no_copy=True)
    images = fn.decoders.image_random_crop(encoded, device=decoder, random_area=(0.2, 1.0))
    images = fn.resize(images, size=(size, size), interp_type=types.INTERP_LINEAR)
    brightness = fn.random.uniform(range=(0.6, 1.4))
    tint = fn.random.uniform(range=(0.8, 1.2), shape=[3])  # one factor each for red, green and blue
    images = images * (brightness * tint)
    return fn.crop_mirror_normalize(
        images, dtype=types.FLOAT, mean=common.MEAN, std=common.STD, mirror=fn.random.coin_flip()
    )


def nt_xent(first: torch.Tensor, second: torch.Tensor, temperature: float) -> torch.Tensor:
    """Normalised temperature-scaled cross entropy, equation 1 of https://arxiv.org/abs/2002.05709.

    Each view must find the view of the same image among all other views of the batch.
    """
    views = functional.normalize(torch.cat([first, second]), dim=1)
    similarity = views @ views.T / temperature
    similarity.fill_diagonal_(-torch.inf)
    count = len(first)
    partner = torch.arange(2 * count, device=views.device).roll(count)
    return functional.cross_entropy(similarity, partner)


def train(options: argparse.Namespace, network: nn.Module, loader: dali_proxy.DataLoader) -> common.Meter:
    optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate)
    meter = common.Meter(options.epochs, len(loader))
    network.train()
    for _ in range(options.epochs):
        for first, second in meter.follow(loader):
            # One pass for both views, so that batch normalisation can't tell them apart.
            features = network(torch.cat([first, second]).to(options.device))
            left, right = features.chunk(2)
            loss = nt_xent(left, right, options.temperature)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meter.add(loss, len(first))
    meter.close()
    return meter


@torch.no_grad()
def features_of(
    options: argparse.Namespace, backbone: nn.Module, loader: Iterable[Any]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return features and labels of all images of a loader."""
    backbone.eval()
    batches = [(backbone(images.to(options.device)).cpu(), labels) for images, labels in loader]
    features, labels = (torch.cat(column) for column in zip(*batches, strict=True))
    return functional.normalize(features, dim=1), labels


def main() -> None:
    parser = common.make_parser(__doc__, epochs=8, batch_size=48)
    parser.add_argument("--temperature", default=0.2, type=float, help="(%(default)s)")
    options = common.parse(parser)
    pipe_options, loader_options = common.pipeline_options(options), common.loader_options(options)
    with (
        common.class_folders(options.data) as (train_folder, val_folder),
        dali_proxy.DALIServer(view_pipe(**pipe_options)) as view_server,
        dali_proxy.DALIServer(validation_pipe(**pipe_options)) as plain_server,
    ):
        loader = dali_proxy.DataLoader(
            view_server,
            TwoViews(train_folder, transform=view_server.proxy),
            shuffle=True,
            drop_last=True,
            **loader_options,
        )
        backbone = nn.Sequential(encoder(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        head = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 64))
        network = nn.Sequential(backbone, head).to(options.device)
        meter = train(options, network, loader)
        stats = view_server.stats()
        if options.picture:
            first, second = next(iter(loader))
            common.save_picture(options.picture, torch.stack([first, second], dim=1).flatten(0, 1))

        known, guessed = (
            dali_proxy.DataLoader(plain_server, ImageFolder(folder, plain_server.proxy), **loader_options)
            for folder in (train_folder, val_folder)
        )
        known_features, known_labels = features_of(options, backbone, known)
        features, labels = features_of(options, backbone, guessed)
    nearest = known_labels[(features @ known_features.T).argmax(dim=1)]
    score = float((nearest == labels).float().mean())
    chance = 1 / len(known_labels.unique())
    meter.report(stats, accuracy=f"{score:.1%} of {len(labels)} by the nearest neighbour (guessing: {chance:.1%})")


if __name__ == "__main__":
    main()
