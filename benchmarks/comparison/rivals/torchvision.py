"""torch's DataLoader with torchvision's decoder and transforms v2."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader

from benchmarks.comparison.job import Arrays, Job
from benchmarks.comparison.jobs.images import SIZE, Images
from benchmarks.comparison.rival import Cores, Rival, Samples, Stream, finished, repeat, stack


class TorchvisionSamples(Samples):
    """Images from ``decode_jpeg``, and the functions of ``transforms.v2`` on uint8, as its documentation advises."""

    def __getitem__(self, index: int) -> tuple[Arrays, int]:
        from torchvision.transforms.v2 import functional

        encoded, (top, left), (height, width), mirrored = self.job.inputs(index)
        image = self.decode(torch.from_numpy(encoded))
        image = functional.resized_crop(image, int(top), int(left), int(height), int(width), SIZE, antialias=True)
        return ((functional.horizontal_flip(image) if mirrored else image).numpy(),), index

    def decode(self, encoded: torch.Tensor) -> Any:
        from torchvision.io import ImageReadMode, decode_jpeg

        return decode_jpeg(encoded, mode=ImageReadMode.RGB)


class Torchvision(Rival):
    """torch's DataLoader, whose workers run ``torchvision.io.decode_jpeg`` and ``torchvision.transforms.v2``."""

    name = "torchvision"
    title = "`DataLoader`: workers run `decode_jpeg` and `transforms.v2`"
    packages: tuple[str, ...] = ("torchvision",)
    modules: tuple[str, ...] = ("torchvision.io", "torchvision.transforms.v2")
    samples: type[Samples] = TorchvisionSamples

    def does(self, job: Job) -> bool:
        return type(job) is Images

    def stream(self, job: Job, cores: Cores) -> Stream:
        loader = DataLoader(
            self.samples(job),
            batch_size=job.batch_size,
            num_workers=cores.workers,
            collate_fn=stack,
            persistent_workers=True,
        )
        yield from finished(repeat(loader), job)
