"""Training of the demo's network, with measurements of the time that the loop waits."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional
from tqdm import tqdm

Batches = Iterable[tuple[torch.Tensor, torch.Tensor]]


@dataclass(frozen=True)
class Training:
    """Measurements of a training run.

    Attributes:
        images: Number of images, counting an image once per epoch.
        waiting: Seconds that the loop waited for batches.
        computing: Seconds that it spent in the network.
        loss: Mean loss of the last epoch.
    """

    images: int
    waiting: float
    computing: float
    loss: float


def train(network: nn.Module, batches: Batches, *, epochs: int, steps: int, quiet: bool = False) -> Training:
    """Train a network, with a progress bar.

    Args:
        network: Module from images ``[N, 3, H, W]`` to logits. It stays on its device.
        batches: Yields images and labels; iterated once per epoch.
        epochs: Number of passes over the batches.
        steps: Number of batches in one epoch.
        quiet: Whether to omit the progress bar; outside of a terminal there is none.

    Returns:
        The measurements.
    """
    device = next(network.parameters()).device
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=epochs * steps)
    count, waiting, computing, mean_loss = 0, 0.0, 0.0, 0.0
    network.train()
    with tqdm(total=epochs * steps, desc="training", unit="batch", disable=quiet or None) as bar:
        for epoch in range(epochs):
            losses = []
            mark = time.perf_counter()
            for images, labels in batches:
                arrived = time.perf_counter()
                loss = functional.cross_entropy(network(images.to(device)), labels.to(device))
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                schedule.step()
                losses.append(loss.item())  # waits for the GPU, so that its work counts as computing
                waiting += arrived - mark
                mark = time.perf_counter()
                computing += mark - arrived
                count += len(images)
                bar.update()
            mean_loss = sum(losses) / max(len(losses), 1)
            bar.set_postfix(epoch=f"{epoch + 1}/{epochs}", loss=f"{mean_loss:.2f}")
    return Training(count, waiting, computing, mean_loss)


@torch.no_grad()
def accuracy(network: nn.Module, batches: Batches) -> float:
    """Return the fraction of images that the network classifies correctly, 0 to 1."""
    device = next(network.parameters()).device
    network.eval()
    right = total = 0
    for images, labels in batches:
        guesses = network(images.to(device)).argmax(dim=1).cpu()
        right += int((guesses == labels.cpu()).sum())
        total += len(labels)
    return right / max(total, 1)
