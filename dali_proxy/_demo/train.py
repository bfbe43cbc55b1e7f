"""Training of the demo's network, with measurements of the time that the loop waits."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from tqdm import tqdm

from dali_proxy._new.kinds.classification import compute_loss, compute_scores


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


def train(network: nn.Module, batches: Iterable[Any], *, epochs: int, steps: int, quiet: bool = False) -> Training:
    """Train a network on its device, with a progress bar in a terminal unless `quiet` is set."""
    device = next(network.parameters()).device
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=epochs * steps)
    count, waiting, computing, mean_loss = 0, 0.0, 0.0, 0.0
    network.train()
    with tqdm(total=epochs * steps, desc="training", unit="batch", disable=quiet or None) as bar:
        for epoch in range(epochs):
            losses = []
            mark = time.perf_counter()
            for batch in batches:
                arrived = time.perf_counter()
                loss = compute_loss(network, [each.to(device) for each in batch])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                schedule.step()
                losses.append(loss.item())  # waits for the GPU, so that its work counts as computing
                waiting += arrived - mark
                mark = time.perf_counter()
                computing += mark - arrived
                count += len(batch[0])
                bar.update()
            mean_loss = sum(losses) / max(len(losses), 1)
            bar.set_postfix(epoch=f"{epoch + 1}/{epochs}", loss=f"{mean_loss:.2f}")
    return Training(count, waiting, computing, mean_loss)


@torch.no_grad()
def accuracy(network: nn.Module, batches: Iterable[Any]) -> float:
    """Return the fraction of images that the network classifies correctly, 0 to 1."""
    device = next(network.parameters()).device
    network.eval()
    scores = [compute_scores(network, [each.to(device) for each in batch]) for batch in batches]
    return torch.cat(scores).float().mean().item()
