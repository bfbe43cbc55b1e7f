"""torch's DataLoader, whose workers decode, and transforms on the GPU in the process of the training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader

from benchmarks.comparison.job import Job
from benchmarks.comparison.jobs.images import SIZE, Images, decode
from benchmarks.comparison.rival import Batch, Cores, Rival, Samples, Stream, repeat


class DecodedSamples(Samples):
    """Decoded images of different sizes, and their windows."""

    def __getitem__(self, index: int) -> Any:
        encoded, corner, size, mirrored = self.job.inputs(index)
        image = torch.from_numpy(decode(encoded)).permute(2, 0, 1)
        return image, torch.from_numpy(corner), torch.from_numpy(size), bool(mirrored), index


class TorchvisionOnGpu(Rival):
    """``transforms.v2`` on the GPU, image after image, because sizes differ."""

    name = "torchvision-gpu"
    title = "`DataLoader`: workers decode with simplejpeg; `transforms.v2` on the GPU"
    packages: tuple[str, ...] = ("torchvision",)
    modules: tuple[str, ...] = ("torchvision.transforms.v2",)
    device = "cuda"

    def does(self, job: Job) -> bool:
        return type(job) is Images

    def unavailable(self) -> str | None:
        if self.device == "cuda" and not torch.cuda.is_available():
            return "there is no GPU"
        return super().unavailable()

    def stream(self, job: Job, cores: Cores) -> Stream:
        loader = DataLoader(
            DecodedSamples(job),
            batch_size=job.batch_size,
            num_workers=cores.workers,
            collate_fn=list,
            persistent_workers=True,
        )
        finish = job.finisher()
        for samples in repeat(loader):
            indices, (images,) = self.transform(samples)
            yield indices, finish((images,))

    def transform(self, samples: Sequence[Any]) -> Batch:
        """Return the batch of decoded samples."""
        from torchvision.transforms.v2 import functional

        made = []
        for image, (top, left), (height, width), mirrored, _ in samples:
            moved = image.to(self.device, non_blocking=True)
            part = functional.resized_crop(moved, int(top), int(left), int(height), int(width), SIZE, antialias=True)
            made.append(functional.horizontal_flip(part) if mirrored else part)
        return torch.tensor([index for *_, index in samples]), (torch.stack(made),)


class KorniaOnGpu(TorchvisionOnGpu):
    """Kornia's functions on the GPU, image after image."""

    name = "kornia-gpu"
    title = "`DataLoader`: workers decode with simplejpeg; `kornia.geometry` on the GPU"
    packages = ("kornia",)
    modules = ("kornia",)

    def transform(self, samples: Sequence[Any]) -> Batch:
        from kornia.geometry.transform import hflip, resize

        made = []
        for image, (top, left), (height, width), mirrored, _ in samples:
            window = image[:, int(top) : int(top + height), int(left) : int(left + width)]
            floats = window.to(self.device, non_blocking=True).float()[None]
            part = resize(floats, tuple(SIZE), "bilinear", align_corners=False, antialias=True)
            made.append(hflip(part) if mirrored else part)
        images = torch.cat(made).round_().clamp_(0, 255).to(torch.uint8)
        return torch.tensor([index for *_, index in samples]), (images,)
