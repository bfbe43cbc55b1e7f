"""torch's DataLoader as most people use it: pillow in the workers, a float32 tensor per sample."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader

from benchmarks.crop import random_window
from benchmarks.datasets import make_dataset
from benchmarks.rivals.base import Batch, Rival
from benchmarks.workload import ARRAY_SHAPES, IMAGE_KINDS, IMAGE_SIZE, MEAN, STD, Setup


class TorchPillow(Rival):
    """The plain DataLoader: the default collate, the default prefetching, pinned memory if there is a GPU."""

    name = "torch-pillow"
    kinds = (*IMAGE_KINDS, *ARRAY_SHAPES)
    devices = ("cpu", "cuda")
    yardstick = False

    def unavailable(self) -> str | None:
        """Return None: it can always run."""
        return None

    def stream(self, setup: Setup) -> Iterator[Batch]:
        """Load with a DataLoader and copy its batches to the device."""
        dataset = make_dataset(setup, torch.from_numpy if setup.kind in ARRAY_SHAPES else PillowTransform(setup.kind))
        pin = setup.device_id is not None
        loader = DataLoader(dataset, batch_size=setup.batch_size, num_workers=setup.workers, pin_memory=pin)
        for images, indices in loader:
            yield images.to(setup.device, non_blocking=True), indices


class PillowTransform:
    """A transform that decodes, crops, resizes, mirrors and normalises one image, with pillow's antialiasing."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.mean = np.array(MEAN, np.float32)
        self.scale = 1 / np.array(STD, np.float32)

    def __call__(self, sample: np.ndarray) -> torch.Tensor:
        """Create float32 ``[3, 224, 224]`` from a path, an encoded or a decoded image."""
        image = self.open(sample)
        x, y, width, height = random_window(*image.size)
        box = (x, y, x + width, y + height)
        image = image.resize((IMAGE_SIZE, IMAGE_SIZE), Image.Resampling.BILINEAR, box=box)
        if torch.rand(()) < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = (np.asarray(image, np.float32) - self.mean) * self.scale
        return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))

    def open(self, sample: np.ndarray) -> Image.Image:
        """Open the image of a sample."""
        if self.kind == "decoded":
            return Image.fromarray(sample)
        source = sample.tobytes()
        return Image.open(source.decode() if self.kind == "paths" else io.BytesIO(source)).convert("RGB")
