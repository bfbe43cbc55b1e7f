"""The demo's network: four convolutions, small enough to train on two cores in seconds."""

from __future__ import annotations

from torch import nn


def small_network(classes: int) -> nn.Sequential:
    """Return a convolutional classifier.

    Args:
        classes: Number of classes.

    Returns:
        A module from float32 ``[N, 3, H, W]`` to logits ``[N, classes]``, with about 100,000 parameters.
    """
    layers: list[nn.Module] = []
    channels = 3
    for width in (16, 32, 64, 128):
        layers += [
            nn.Conv2d(channels, width, kernel_size=3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        ]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
