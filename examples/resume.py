"""Stop training at any batch and resume it later, with the same images and the same losses as without the stop.

    python examples/resume.py --stop-after 5 --checkpoint training.pt
    python examples/resume.py --checkpoint training.pt --num-workers 1

The checkpoint has the states of the loader, the network and the optimizer. The second run starts in the middle of the
epoch, and doesn't read earlier samples again. It may have a different number of workers. You can also resume after
Ctrl-C or a crash, from the last checkpoint: one is written every --save-every batches.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
from torch import nn

import common
import dali_proxy
from imagenet import ImageFolder, accuracy, training_pipe, validation_pipe
from networks import classifier


class Checkpoint:
    """The complete state of a training run, in one file."""

    def __init__(self, path: Path | None, **parts: nn.Module | torch.optim.Optimizer | dali_proxy.DataLoader) -> None:
        self.path = path
        self.parts = parts

    def save(self, losses: list[torch.Tensor]) -> None:
        if self.path is None:
            return
        parts = {name: part.state_dict() for name, part in self.parts.items()}
        state = {**parts, "losses": losses, "random": torch.get_rng_state()}
        beside = self.path.with_suffix(".new")
        torch.save(state, beside)
        os.replace(beside, self.path)  # so there is always a complete file

    def load(self) -> list[torch.Tensor]:
        """Restore all parts; return the losses so far, an empty list if nothing was saved."""
        if self.path is None or not self.path.exists():
            return []
        state = torch.load(self.path)
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        torch.set_rng_state(state["random"])
        print(f"resumed     after batch {len(state['losses'])}")
        return state["losses"]


def train(options: argparse.Namespace, network: nn.Module, loader: dali_proxy.DataLoader) -> common.Meter:
    optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate, weight_decay=1e-2)
    checkpoint = Checkpoint(options.checkpoint, network=network, optimizer=optimizer, loader=loader)
    meter = common.Meter(options.epochs, len(loader))
    meter.losses = checkpoint.load()
    network.train()
    for _ in range(loader.state_dict()["epoch"], options.epochs):
        for images, labels in meter.follow(loader):  # in the first epoch, the remaining batches
            loss = nn.functional.cross_entropy(network(images.to(options.device)), labels.to(options.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meter.add(loss, len(images))
            steps = len(meter.losses)
            if steps % options.save_every == 0 or steps == options.stop_after:
                checkpoint.save(meter.losses)
            if steps == options.stop_after:
                print(f"stopped     after batch {steps}")
                raise SystemExit
    meter.close()
    return meter


def main() -> None:
    parser = common.make_parser(__doc__, epochs=4)
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="save there; resume from there if it exists")
    parser.add_argument("--save-every", default=20, type=int, metavar="BATCHES", help="(%(default)s)")
    parser.add_argument("--stop-after", type=int, metavar="BATCHES", help="stop after this batch, as if interrupted")
    options = common.parse(parser)
    pipe_options, loader_options = common.pipeline_options(options), common.loader_options(options)
    with (
        common.class_folders(options.data) as (train_folder, val_folder),
        dali_proxy.DALIServer(training_pipe(**pipe_options)) as train_server,
        dali_proxy.DALIServer(validation_pipe(**pipe_options)) as val_server,
    ):
        train_set = ImageFolder(train_folder, transform=train_server.proxy)
        loader = dali_proxy.DataLoader(train_server, train_set, shuffle=True, drop_last=True, **loader_options)
        network = classifier(len(train_set.classes)).to(options.device)
        meter = train(options, network, loader)
        stats = train_server.stats()

        val_set = ImageFolder(val_folder, transform=val_server.proxy)
        options.precision = "float32"
        score = accuracy(options, network, dali_proxy.DataLoader(val_server, val_set, **loader_options))
        if options.picture:
            common.save_picture(options.picture, next(iter(loader))[0])
    meter.report(stats, accuracy=f"{score:.1%} of {len(val_set)} (guessing: {1 / len(train_set.classes):.1%})")


if __name__ == "__main__":
    main()
