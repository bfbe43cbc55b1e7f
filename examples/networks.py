"""Small networks, so that the examples train in seconds. Replace them by your own."""

from __future__ import annotations

import torch
from torch import nn


def convolution(channels: int, width: int, stride: int = 1) -> nn.Sequential:
    """A 3x3 convolution with batch normalisation and ReLU."""
    return nn.Sequential(
        nn.Conv2d(channels, width, kernel_size=3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
    )


def encoder(widths: tuple[int, ...] = (16, 32, 64, 128)) -> nn.Sequential:
    """Images [N, 3, H, W] to features [N, widths[-1], H / 2**n, W / 2**n], where n is the number of widths."""
    channels = (3, *widths[:-1])
    return nn.Sequential(*(convolution(a, b, stride=2) for a, b in zip(channels, widths, strict=True)))


def classifier(classes: int, width: int = 128) -> nn.Sequential:
    """Images [N, 3, H, W] to logits [N, classes]."""
    return nn.Sequential(encoder(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


class UNet(nn.Module):
    """Images [N, 3, H, W] to logits [N, classes, H, W]; H and W are multiples of 8."""

    def __init__(self, classes: int, widths: tuple[int, int, int] = (16, 32, 64)) -> None:
        super().__init__()
        channels = (3, *widths[:-1])
        self.down = nn.ModuleList(convolution(a, b, stride=2) for a, b in zip(channels, widths, strict=True))
        self.up = nn.ModuleList(convolution(a + b, b) for a, b in zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.head = nn.Conv2d(widths[0], classes, kernel_size=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        levels = [images]
        for layer in self.down:
            levels.append(layer(levels[-1]))
        features = levels.pop()
        for layer in self.up:
            skipped = levels.pop()
            features = layer(torch.cat([nn.functional.interpolate(features, size=skipped.shape[2:]), skipped], dim=1))
        return nn.functional.interpolate(self.head(features), size=images.shape[2:], mode="bilinear")


class SuperResolution(nn.Module):
    """Frames [N, channels, H, W] to the error of an enlargement, [N, 3, scale * H, scale * W]; zero before training."""

    def __init__(self, channels: int, scale: int, width: int = 32, blocks: int = 2) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, width, kernel_size=3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, kernel_size=3, padding=1),
                nn.ReLU(inplace=True),
                nn.Conv2d(width, width, kernel_size=3, padding=1),
            )
            for _ in range(blocks)
        )
        last = nn.Conv2d(width, 3 * scale**2, kernel_size=3, padding=1)
        self.enlarge = nn.PixelShuffle(scale)
        for parameter in last.parameters():
            nn.init.zeros_(parameter)
        self.last = last

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        seen = self.first(4 * (frames - frames.mean((2, 3), keepdim=True)))  # only the differences of pixels matter
        for block in self.blocks:
            seen = seen + block(seen)
        return self.enlarge(self.last(seen))
