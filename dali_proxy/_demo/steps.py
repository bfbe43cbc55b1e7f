"""The demo's steps that need a server. Each step starts one, like a user's script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

import dali_proxy
from dali_proxy._demo.compare import Comparison, EndlessSampler, compare
from dali_proxy._demo.pillow import pillow_augment
from dali_proxy._demo.settings import Settings
from dali_proxy._demo.train import Training, accuracy, train
from dali_proxy._new.kinds import classification
from dali_proxy._new.kinds.classification import NORMAL, Samples, augment, make_network, prepare


class Steps:
    """Training, evaluation, timing and drawing, with the same settings.

    The dataset, the pipelines and the network are those of the script that ``dali-proxy new classification`` writes.
    """

    def __init__(self, settings: Settings, device_id: int | None) -> None:
        self.settings = settings
        self.device_id = device_id
        self.device = torch.device("cpu" if device_id is None else f"cuda:{device_id}")
        classification.DECODER = "cpu" if device_id is None else "gpu"  # users edit it in their script

    def server(self, function: Callable[..., Any]) -> dali_proxy.DALIServer:
        """Return a server of `augment` or `prepare`."""
        s = self.settings
        return dali_proxy.DALIServer(
            function, batch_size=s.batch_size, num_threads=2, device_id=self.device_id, seed=s.seed
        )

    def train(self, folder: Path) -> tuple[nn.Module, Training, str]:
        """Train a new network on the images of a folder. Also return what limited the speed."""
        s = self.settings
        with self.server(augment) as server:
            dataset = Samples(folder, server.proxy)
            loader = dali_proxy.DataLoader(
                server,
                dataset,
                batch_size=s.batch_size,
                num_workers=s.num_workers,
                shuffle=True,
                drop_last=True,
                persistent_workers=s.num_workers > 0,
            )
            torch.manual_seed(s.seed)
            network = make_network(dataset).to(self.device)
            training = train(network, loader, epochs=s.epochs, steps=len(loader), quiet=s.quiet)
            return network, training, server.stats().limited_by

    def judge(self, network: nn.Module, folder: Path) -> float:
        """Return the fraction of a folder's images that a network classifies correctly, 0 to 1."""
        s = self.settings
        with self.server(prepare) as server:
            dataset = Samples(folder, server.proxy)
            loader = dali_proxy.DataLoader(server, dataset, batch_size=s.batch_size, num_workers=s.num_workers)
            return accuracy(network, loader)

    def compare(self, folder: Path) -> Comparison:
        """Compare the speed of the server with a plain DataLoader whose workers do the same with pillow."""
        s = self.settings
        with self.server(augment) as server:
            ours = Samples(folder, server.proxy)
            plain = Samples(folder, pillow_augment)
            sampler = EndlessSampler(len(plain), s.seed)
            return compare(
                dali_proxy.DataLoader(
                    server, ours, batch_size=s.batch_size, sampler=sampler, num_workers=s.num_workers
                ),
                DataLoader(plain, batch_size=s.batch_size, sampler=sampler, num_workers=s.num_workers),
                seconds=s.seconds,
                rounds=s.rounds,
            )

    def draw(self, folder: Path) -> None:
        """Save an image of one augmented batch."""
        s = self.settings
        with self.server(augment) as server:
            dataset = Samples(folder, server.proxy)
            order = torch.Generator().manual_seed(s.seed)
            loader = dali_proxy.DataLoader(server, dataset, batch_size=s.batch_size, shuffle=True, generator=order)
            images, labels = next(iter(loader))
        captions = [dataset.classes[label] for label in labels.tolist()]
        dali_proxy.show(images, labels=captions, **NORMAL, path=s.picture)
