"""Train on a Hugging Face dataset without changing it: pass the proxy as a transform to `with_transform`.

    python examples/huggingface.py
    python examples/huggingface.py --data /data/imagenet --image-size 224 --batch-size 256

--data names a folder with train/ and val/, each with one folder of JPEGs per class, for the builder "imagefolder". Any
dataset with a column of images works the same way, for example load_dataset("beans").

Needs the package datasets.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the images are local

import datasets
import torch
from torch import nn

import common
import dali_proxy
from imagenet import training_pipe, validation_pipe
from networks import classifier


class EncodedImages:
    """A transform of rows: it passes each encoded image to the proxy and keeps the labels.

    This is a class of the module and not a lambda, because datasets computes a fingerprint of transforms by pickling
    them.
    """

    def __init__(self, proxy: dali_proxy.Proxy) -> None:
        self.proxy = proxy

    def __call__(self, rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return {"image": [self.proxy(encoded_bytes(image)) for image in rows["image"]], "label": rows["label"]}


def encoded_bytes(image: dict[str, Any]) -> bytes:
    """Return the bytes of an image that wasn't decoded; datasets of local files have paths instead."""
    return image["bytes"] or Path(image["path"]).read_bytes()


def load(folder: Path, cache: Path) -> datasets.Dataset:
    """Load a folder of class folders, with the columns "image" and "label"."""
    dataset = datasets.load_dataset("imagefolder", data_dir=str(folder), split="train", cache_dir=str(cache))
    return dataset.cast_column("image", datasets.Image(decode=False))  # the pipeline decodes


def train(options: argparse.Namespace, network: nn.Module, loader: dali_proxy.DataLoader) -> common.Meter:
    optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate)
    meter = common.Meter(options.epochs, len(loader))
    network.train()
    for _ in range(options.epochs):
        for batch in meter.follow(loader):  # a mapping, like the rows of the dataset
            loss = nn.functional.cross_entropy(
                network(batch["image"].to(options.device)), batch["label"].to(options.device)
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meter.add(loss, len(batch["label"]))
    meter.close()
    return meter


@torch.no_grad()
def accuracy(options: argparse.Namespace, network: nn.Module, loader: dali_proxy.DataLoader) -> float:
    """Return the fraction of images that are classified correctly."""
    network.eval()
    right = [network(batch["image"].to(options.device)).argmax(dim=1).cpu() == batch["label"] for batch in loader]
    return float(torch.cat(right).float().mean())


def main() -> None:
    options = common.parse(common.make_parser(__doc__, epochs=8))
    pipe_options, loader_options = common.pipeline_options(options), common.loader_options(options)
    with (
        common.class_folders(options.data) as (train_folder, val_folder),
        common.temporary_folder() as cache,
        dali_proxy.DALIServer(training_pipe(**pipe_options)) as train_server,
        dali_proxy.DALIServer(validation_pipe(**pipe_options)) as val_server,
    ):
        train_set, val_set = load(train_folder, cache), load(val_folder, cache)
        classes = train_set.features["label"].num_classes
        loader = dali_proxy.DataLoader(
            train_server,
            train_set.with_transform(EncodedImages(train_server.proxy)),
            shuffle=True,
            drop_last=True,
            **loader_options,
        )
        network = classifier(classes).to(options.device)
        meter = train(options, network, loader)
        stats = train_server.stats()
        if options.picture:
            common.save_picture(options.picture, next(iter(loader))["image"])

        val_view = val_set.with_transform(EncodedImages(val_server.proxy))
        score = accuracy(options, network, dali_proxy.DataLoader(val_server, val_view, **loader_options))
    meter.report(stats, accuracy=f"{score:.1%} of {len(val_set)} (guessing: {1 / classes:.1%})")


if __name__ == "__main__":
    main()
