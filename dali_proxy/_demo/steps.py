"""The demo's steps that need a server. Each step starts one, like a user's script."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader

import dali_proxy
from dali_proxy._demo.compare import Comparison, EndlessSampler, compare
from dali_proxy._demo.dataset import CropDataset
from dali_proxy._demo.model import small_network
from dali_proxy._demo.pillow import PillowAugment
from dali_proxy._demo.pipes import MEAN, STD, evaluation_pipe, training_pipe
from dali_proxy._demo.settings import Settings
from dali_proxy._demo.train import Training, accuracy, train


class Steps:
    """Training, evaluation, timing and drawing, with the same settings.

    Args:
        settings: Settings of the demo.
        device_id: The GPU to use; None for the CPU.
    """

    def __init__(self, settings: Settings, device_id: int | None) -> None:
        self.settings = settings
        self.device_id = device_id
        self.device = torch.device("cpu" if device_id is None else f"cuda:{device_id}")

    def server(self, *, augment: bool) -> dali_proxy.DALIServer:
        """Return a server of random crops, or of whole images."""
        definition = training_pipe if augment else evaluation_pipe
        return dali_proxy.DALIServer(
            definition(
                decoder="cpu" if self.device_id is None else "mixed",
                batch_size=self.settings.batch_size,
                num_threads=2,
                device_id=self.device_id,
                seed=self.settings.seed,
            )
        )

    def train(self, folder: Path) -> tuple[nn.Module, Training, str]:
        """Train a new network on the images of a folder. Also return what limited the speed."""
        s = self.settings
        with self.server(augment=True) as server:
            dataset = CropDataset(folder, transform=server.proxy)
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
            network = small_network(len(dataset.classes)).to(self.device)
            training = train(network, loader, epochs=s.epochs, steps=len(loader), quiet=s.quiet)
            return network, training, server.stats().limited_by

    def judge(self, network: nn.Module, folder: Path) -> float:
        """Return the fraction of a folder's images that a network classifies correctly, 0 to 1."""
        s = self.settings
        with self.server(augment=False) as server:
            dataset = CropDataset(folder, transform=server.proxy)
            loader = dali_proxy.DataLoader(server, dataset, batch_size=s.batch_size, num_workers=s.num_workers)
            return accuracy(network, loader)

    def compare(self, folder: Path) -> Comparison:
        """Compare the speed of the server with a plain DataLoader whose workers do the same with pillow."""
        s = self.settings
        with self.server(augment=True) as server:
            ours = CropDataset(folder, transform=server.proxy)
            plain = CropDataset(folder, transform=PillowAugment())
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
        with self.server(augment=True) as server:
            dataset = CropDataset(folder, transform=server.proxy)
            order = torch.Generator().manual_seed(s.seed)
            loader = dali_proxy.DataLoader(server, dataset, batch_size=s.batch_size, shuffle=True, generator=order)
            images, labels = next(iter(loader))
        captions = [dataset.classes[label] for label in labels.tolist()]
        dali_proxy.show(images, labels=captions, mean=MEAN, std=STD, path=s.picture)
