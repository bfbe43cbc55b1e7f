"""Mix the images of a batch and their labels: MixUp and CutMix."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import torch
from torch.nn.functional import one_hot

from dali_proxy._common.nested import tuple_like
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError


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
        places = self.images if isinstance(self.images, list) else [self.images]
        several, labels = [self._tensor(batch, place) for place in places], self._tensor(batch, self.labels)
        for images in several:
            if images.ndim != 4 or len(images) != len(labels):
                raise ArgumentValueError(
                    f"{type(self).__name__} needs images (N, C, H, W) and N labels, not images of shape "
                    f"{tuple(images.shape)} and labels of shape {tuple(labels.shape)}"
                )
            self.check(images)
        share = float(torch.distributions.Beta(self.alpha, self.alpha).sample())
        mixed, share = self.mix(several, share)
        targets = self._probabilities(labels)
        mixed_labels = share * targets + (1 - share) * targets.roll(1, 0)
        return _with_items(batch, {**dict(zip(places, mixed, strict=True)), self.labels: mixed_labels})

    def check(self, images: torch.Tensor) -> None:
        """Check that a batch of images has the layout that `mix` needs."""

    def mix(self, several: Sequence[torch.Tensor], share: float) -> tuple[list[torch.Tensor], float]:
        """Return several mixed batches of images, and the share that each image has in its result."""
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
        classes = labels.long()
        if len(wrong := classes[(classes < 0) | (classes >= self.num_classes)]):
            raise ArgumentValueError(
                f"{type(self).__name__} got the class {int(wrong[0])}, but with num_classes={self.num_classes} classes "
                f"are numbers from 0 to {self.num_classes - 1}"
            )
        return one_hot(classes, self.num_classes).float()


class MixUp(_Mix):
    """Blends each image with the previous one of its batch, and the labels alike.

    A function for `DataLoader(batch_transform=...)`. The method is that of Zhang et al., "mixup: Beyond Empirical Risk
    Minimization", arXiv:1710.09412, with one share per batch.

    Args:
        num_classes: number of classes. None if each label is already a row of probabilities.
        alpha: both parameters of the beta distribution from which the share is drawn.
        images: position or key of the images in the batch: (N, C, H, W), floats or bytes. `MixUp` also accepts
            (N, H, W, C). A list names several, such as
            the views of a teacher and a student, which are mixed alike.
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

    def mix(self, several: Sequence[torch.Tensor], share: float) -> tuple[list[torch.Tensor], float]:
        return [_blended(images, share) for images in several], share


class CutMix(_Mix):
    """Replaces a rectangle of each image by that of the previous one, and mixes the labels by area.

    A function for `DataLoader(batch_transform=...)`, with the arguments and errors of `MixUp`. The method is that of
    Yun et al., "CutMix: Regularization Strategy to Train Strong Classifiers", arXiv:1905.04899, with one rectangle per
    batch. Images must be (N, C, H, W), as `crop_mirror_normalize` returns them. Of several, which may differ in size,
    each has the rectangle at the same place, in proportion, and the labels are mixed by its area in the first one.

    Example:
        >>> images, labels = torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 2, 1])
        >>> CutMix(num_classes=3)((images, labels))[0].shape
        torch.Size([4, 3, 8, 8])
    """

    def check(self, images: torch.Tensor) -> None:
        channels, height, width = images.shape[1:]
        if width <= 4 < min(channels, height):
            raise ArgumentValueError(
                f"CutMix needs images (N, C, H, W), but shape {tuple(images.shape)} is (N, H, W, C): use "
                "crop_mirror_normalize in the pipeline, which returns CHW, or transpose(image, perm=[2, 0, 1])"
            )

    def mix(self, several: Sequence[torch.Tensor], share: float) -> tuple[list[torch.Tensor], float]:
        part = math.sqrt(1 - share) / 2  # of the height and of the width, on both sides of the centre
        vertical, horizontal = torch.rand(2).tolist()
        mixed, shares = [], []
        for images in several:
            height, width = images.shape[-2:]
            y, x = int(vertical * height), int(horizontal * width)
            top, bottom = max(y - int(part * height), 0), min(y + int(part * height), height)
            left, right = max(x - int(part * width), 0), min(x + int(part * width), width)
            mixed.append(images.clone())
            mixed[-1][..., top:bottom, left:right] = images.roll(1, 0)[..., top:bottom, left:right]
            shares.append(1 - (bottom - top) * (right - left) / (height * width))
        return mixed, shares[0]


def _blended(images: torch.Tensor, share: float) -> torch.Tensor:
    exact = images.to(torch.promote_types(images.dtype, torch.float32))
    blended = torch.lerp(exact.roll(1, 0), exact, share)
    return (blended if images.is_floating_point() else blended.round()).to(images.dtype)


def _with_items(batch: Any, replaced: Mapping[Any, Any]) -> Any:
    """Return a copy of a batch with other items at some positions or keys."""
    if isinstance(batch, Mapping) and not isinstance(batch, MutableMapping):
        return {**batch, **replaced}
    if isinstance(batch, tuple):
        return tuple_like(batch, [replaced.get(position, value) for position, value in enumerate(batch)])
    copied = copy.copy(batch)
    for place, value in replaced.items():
        copied[place] = value
    return copied
