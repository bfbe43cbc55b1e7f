"""torch's DataLoader written as well as we can: libjpeg-turbo, uint8 until the batch is normalised.

Measurements behind these choices, for one image on one core: decoding by simplejpeg 0.83 ms (pillow 1.33,
OpenCV 0.95); resizing with antialiasing by torch's uint8 kernel 0.25 ms (pillow 0.76, OpenCV's INTER_AREA 0.60);
normalising a batch into memory that is reused 0.06 ms an image (into fresh memory 0.3 to 1.0).
"""

from __future__ import annotations

import importlib.util
import math
import random
from collections.abc import Iterator

import numpy as np
import simplejpeg
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from benchmarks.crop import random_window
from benchmarks.datasets import ImageDataset
from benchmarks.rivals.base import Batch, Rival
from benchmarks.workload import IMAGE_KINDS, IMAGE_SIZE, MEAN, STD, Setup


class TorchBest(Rival):
    """A DataLoader whose workers write uint8 images into one tensor per batch; the training process normalises it."""

    name = "torch-best"
    kinds = IMAGE_KINDS
    devices = ("cpu", "cuda")
    yardstick = False

    def unavailable(self) -> str | None:
        """Return a message if simplejpeg isn't installed."""
        return None if importlib.util.find_spec("simplejpeg") else "simplejpeg is not installed"

    def stream(self, setup: Setup) -> Iterator[Batch]:
        """Load uint8 batches and normalise them on the device, into the same memory every time."""
        pin = setup.device_id is not None
        dataset = BatchDataset(setup)
        loader = DataLoader(
            dataset,
            batch_size=setup.batch_size,
            num_workers=setup.workers,
            collate_fn=_as_it_is,
            pin_memory=pin,
        )
        mean = torch.tensor(MEAN, device=setup.device).view(1, 3, 1, 1)
        scale = 1 / torch.tensor(STD, device=setup.device).view(1, 3, 1, 1)
        buffer = torch.empty((setup.batch_size, 3, IMAGE_SIZE, IMAGE_SIZE), device=setup.device)
        for images, indices in loader:
            batch = buffer[: len(images)]
            batch.copy_(images.to(setup.device, non_blocking=True))
            yield batch.sub_(mean).mul_(scale), indices


class BatchDataset(Dataset[Batch]):
    """A dataset that loads a whole batch at once, directly into the memory that is sent."""

    def __init__(self, setup: Setup) -> None:
        self.images = ImageDataset(setup, self.transform)
        self.kind = setup.kind

    def __len__(self) -> int:
        return len(self.images)

    def __getitems__(self, indices: list[int]) -> Batch:
        # Shared memory, allocated as in torch's default_collate: it is sent without another copy.
        shape = (len(indices), 3, IMAGE_SIZE, IMAGE_SIZE)
        storage = torch.UntypedStorage._new_shared(math.prod(shape), device="cpu")
        images = torch.empty(0, dtype=torch.uint8).set_(storage).view(shape)
        for position, index in enumerate(indices):
            images[position], _ = self.images[index]
        return images, torch.tensor(indices)

    def transform(self, sample: np.ndarray) -> torch.Tensor:
        """Create uint8 ``[3, 224, 224]`` from a path, an encoded or a decoded image."""
        if self.kind == "paths":
            sample = np.fromfile(sample.tobytes().decode(), np.uint8)
        if self.kind != "decoded":
            sample = simplejpeg.decode_jpeg(sample, fastdct=True, fastupsample=True)
        x, y, width, height = random_window(sample.shape[1], sample.shape[0])
        window = torch.from_numpy(sample[y : y + height, x : x + width]).permute(2, 0, 1)[None]
        image = functional.interpolate(window, (IMAGE_SIZE, IMAGE_SIZE), mode="bilinear", antialias=True)[0]
        return image.flip(2) if random.random() < 0.5 else image


def _as_it_is(batch: Batch) -> Batch:
    return batch
