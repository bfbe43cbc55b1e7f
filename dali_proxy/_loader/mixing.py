"""Mix the images of a batch and their labels: MixUp and CutMix."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.functional import one_hot

from pipeline.errors import ArgumentTypeError, ArgumentValueError

__all__ = ["CutMix", "MixUp"]


class _Mix:
    """Mixes each image with the previous one of the batch, and the labels in the same proportion."""

    def __init__(self, num_classes: int | None = None, alpha: float = 1.0, *, images: Any = 0, labels: Any = 1) -> None:
        if not alpha > 0:
            raise ArgumentValueError(f"alpha must be positive, not {alpha}")
        if num_classes is not None and num_classes < 1:
            raise ArgumentValueError(f"num_classes must be positive, not {num_classes}")
        self.num_classes, self.alpha, self.images, self.labels = num_classes, float(alpha), images, labels

    def __call__(self, batch: Any) -> Any:
        """Return the batch with mixed images, and probabilities as labels."""
        images, labels = self._tensor(batch, self.images), self._tensor(batch, self.labels)
        if images.ndim != 4 or len(images) != len(labels):
            raise ArgumentValueError(
                f"{type(self).__name__} needs images (N, C, H, W) and N labels, not images of shape "
                f"{tuple(images.shape)} and labels of shape {tuple(labels.shape)}"
            )
        share = float(torch.distributions.Beta(self.alpha, self.alpha).sample())
        mixed, share = self.mix(images, share)
        targets = self._probabilities(labels)
        replaced = {self.images: mixed, self.labels: share * targets + (1 - share) * targets.roll(1, 0)}
        if isinstance(batch, Mapping):
            return {**batch, **replaced}
        values = [replaced.get(position, value) for position, value in enumerate(batch)]
        return type(batch)(*values) if hasattr(batch, "_fields") else type(batch)(values)

    def mix(self, images: torch.Tensor, share: float) -> tuple[torch.Tensor, float]:
        """Return the mixed images, and the share that each image has in its result."""
        raise NotImplementedError

    def _tensor(self, batch: Any, place: Any) -> torch.Tensor:
        try:
            value = batch[place]
        except (LookupError, TypeError):
            value = None
        if isinstance(value, torch.Tensor):
            return value
        raise ArgumentTypeError(
            f"{type(self).__name__} found no tensor at {place!r} of the batch ({type(batch).__name__}): say with "
            "images= and labels= where they are"
        )

    def _probabilities(self, labels: torch.Tensor) -> torch.Tensor:
        if labels.ndim == 2 and labels.is_floating_point():
            return labels
        if labels.ndim != 1 or labels.is_floating_point():
            raise ArgumentValueError(
                f"{type(self).__name__} needs class numbers (N,) or probabilities (N, num_classes), not {labels.dtype} "
                f"of shape {tuple(labels.shape)}"
            )
        if self.num_classes is None:
            raise ArgumentValueError(f"{type(self).__name__} needs num_classes to mix class numbers")
        return one_hot(labels.long(), self.num_classes).float()


class MixUp(_Mix):
    """Blends each image with the previous one of its batch, and the labels alike.

    A function for `DataLoader(batch_transform=...)`. The method is that of Zhang et al., "mixup: Beyond Empirical Risk
    Minimization", arXiv:1710.09412, with one share per batch.

    Args:
        num_classes: number of classes. None if each label is already a row of probabilities.
        alpha: both parameters of the beta distribution from which the share is drawn.
        images: position or key of the images in the batch: (N, C, H, W), floats or bytes.
        labels: position or key of the labels: class numbers (N,), or probabilities (N, classes). The result has
            probabilities, of float32 if the labels are numbers.

    Raises:
        ArgumentTypeError: a batch has no such tensors.
        ArgumentValueError: a number isn't positive, or images and labels don't belong together.

    Example:
        >>> images, labels = torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 2, 1])
        >>> MixUp(num_classes=3)((images, labels))[1].sum(dim=1)
        tensor([1., 1., 1., 1.])
    """

    def mix(self, images: torch.Tensor, share: float) -> tuple[torch.Tensor, float]:
        exact = images.to(torch.promote_types(images.dtype, torch.float32))
        blended = torch.lerp(exact.roll(1, 0), exact, share)
        return (blended if images.is_floating_point() else blended.round()).to(images.dtype), share


class CutMix(_Mix):
    """Replaces a rectangle of each image by that of the previous one, and mixes the labels by area.

    A function for `DataLoader(batch_transform=...)`, with the arguments and errors of `MixUp`. The method is that of
    Yun et al., "CutMix: Regularization Strategy to Train Strong Classifiers", arXiv:1905.04899, with one rectangle per
    batch.

    Example:
        >>> images, labels = torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 2, 1])
        >>> CutMix(num_classes=3)((images, labels))[0].shape
        torch.Size([4, 3, 8, 8])
    """

    def mix(self, images: torch.Tensor, share: float) -> tuple[torch.Tensor, float]:
        height, width = images.shape[-2:]
        part = math.sqrt(1 - share) / 2  # of the height and of the width, on both sides of the centre
        y, x = (int(torch.randint(extent, ())) for extent in (height, width))
        top, bottom = max(y - int(part * height), 0), min(y + int(part * height), height)
        left, right = max(x - int(part * width), 0), min(x + int(part * width), width)
        mixed = images.clone()
        mixed[..., top:bottom, left:right] = images.roll(1, 0)[..., top:bottom, left:right]
        return mixed, 1 - (bottom - top) * (right - left) / (height * width)
