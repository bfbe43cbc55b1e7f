"""Train on tar files with an unchanged webdataset: pass the proxy to `map_tuple` in place of a decoder.

    python examples/webdataset_shards.py
    python examples/webdataset_shards.py --data /data/shards --classes 1000 --image-size 224 --batch-size 256

--data names a folder with train/ and val/, each with *.tar files of samples with the members NAME.jpg and NAME.cls (the
number of the class). Without it, the example writes shards from a few photographs.

Needs the package webdataset.
"""

# webdataset loads its names when they are used.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path

import torch
import webdataset
from torch import nn

import common
import dali_proxy
from imagenet import ImageFolder, training_pipe, validation_pipe
from networks import classifier

SHARDS = 4  # at least as many as there are workers: each worker reads different shards


def write_shards(images: Path, folder: Path) -> int:
    """Distribute a folder of class folders over tar files, and return the number of classes."""
    folder.mkdir(parents=True)
    source = ImageFolder(images, transform=bytes)
    for shard in range(SHARDS):
        with webdataset.TarWriter(str(folder / f"{shard:04}.tar")) as writer:
            for index in range(shard, len(source), SHARDS):
                encoded, label = source[index]
                writer.write({"__key__": f"{index:06}", "jpg": encoded, "cls": label})
    return len(source.classes)


def read_shards(folder: Path, proxy: dali_proxy.Proxy, *, shuffle: bool, seed: int) -> webdataset.WebDataset:
    """Read samples from all tar files of a folder: the proxy gets the encoded images, labels become numbers.

    The loader makes the batches. If webdataset makes them, for a loader with batch_size=None, it must collate them:
    `.batched(64, collation_fn=torch.utils.data.default_collate)`. Without this function, it keeps the images in lists.
    """
    shards = sorted(str(path) for path in folder.glob("*.tar"))
    dataset = webdataset.WebDataset(shards, shardshuffle=len(shards) if shuffle else False, seed=seed)
    if shuffle:
        dataset = dataset.shuffle(200, seed=seed)
    return dataset.to_tuple("jpg", "cls").map_tuple(proxy, int)


def train(options: argparse.Namespace, network: nn.Module, loader: dali_proxy.DataLoader) -> common.Meter:
    optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate)
    meter = common.Meter(options.epochs, steps=None)  # a stream doesn't know its length
    network.train()
    for _ in range(options.epochs):
        for images, labels in meter.follow(loader):
            loss = nn.functional.cross_entropy(network(images.to(options.device)), labels.to(options.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meter.add(loss, len(images))
    meter.close()
    return meter


@torch.no_grad()
def accuracy(options: argparse.Namespace, network: nn.Module, loader: dali_proxy.DataLoader) -> tuple[float, int]:
    """Return the fraction of images that are classified correctly, and the number of images."""
    network.eval()
    batches = [network(images.to(options.device)).argmax(dim=1).cpu() == labels for images, labels in loader]
    right = torch.cat(batches)
    return float(right.float().mean()), len(right)


def main() -> None:
    parser = common.make_parser(__doc__, epochs=8)
    parser.add_argument("--classes", type=int, help="number of classes in --data")
    options = common.parse(parser)
    if options.data and not options.classes:
        parser.error("--data needs --classes")
    pipe_options, loader_options = common.pipeline_options(options), common.loader_options(options)
    with ExitStack() as stack:
        folder, classes = options.data, options.classes
        if folder is None:
            folder = stack.enter_context(common.temporary_folder())
            for split, images in zip(("train", "val"), stack.enter_context(common.class_folders(None)), strict=True):
                classes = write_shards(images, folder / split)

        server = stack.enter_context(dali_proxy.DALIServer(training_pipe(**pipe_options)))
        dataset = read_shards(folder / "train", server.proxy, shuffle=True, seed=options.seed)
        loader = dali_proxy.DataLoader(server, dataset, drop_last=True, **loader_options)
        network = classifier(classes).to(options.device)
        meter = train(options, network, loader)
        stats = server.stats()
        if options.picture:
            common.save_picture(options.picture, next(iter(loader))[0])

        val_server = stack.enter_context(dali_proxy.DALIServer(validation_pipe(**pipe_options)))
        val_set = read_shards(folder / "val", val_server.proxy, shuffle=False, seed=options.seed)
        score, count = accuracy(options, network, dali_proxy.DataLoader(val_server, val_set, **loader_options))
    meter.report(stats, accuracy=f"{score:.1%} of {count} (guessing: {1 / classes:.1%})")


if __name__ == "__main__":
    main()
