"""torch's DataLoader, whose workers decode with torchcodec."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader

from benchmarks.comparison.job import Arrays, Job
from benchmarks.comparison.jobs.images import Images
from benchmarks.comparison.jobs.videos import SIZE, Videos
from benchmarks.comparison.rival import Cores, Rival, Samples, Stream, finished, repeat, stack
from benchmarks.comparison.rivals.torchvision import TorchvisionSamples


class TorchcodecImages(TorchvisionSamples):
    """``decode_jpeg`` of torchcodec, and the functions of torchvision's ``transforms.v2``."""

    def decode(self, encoded: torch.Tensor) -> Any:
        from torchcodec.decoders import decode_jpeg

        return decode_jpeg(encoded)


class TorchcodecVideos(Samples):
    """Frames from a ``VideoDecoder`` for each sample, as in torchcodec's examples for training."""

    def __getitem__(self, index: int) -> tuple[Arrays, int]:
        from torchcodec.decoders import VideoDecoder

        assert isinstance(self.job, Videos)
        (numbers,) = self.job.drawn(index)
        decoder = VideoDecoder(self.job.path(index), seek_mode="approximate")
        if self.job.following:
            frames = decoder.get_frames_in_range(int(numbers[0]), int(numbers[-1]) + 1).data
        else:
            frames = decoder.get_frames_at(numbers.tolist()).data
        small = torch.nn.functional.interpolate(frames, SIZE, mode="bilinear")
        return (small.permute(0, 2, 3, 1).numpy(),), index


class Torchcodec(Rival):
    """torch's DataLoader with torchcodec in its workers."""

    name = "torchcodec"
    title = "`DataLoader`: workers run `decode_jpeg` with torchvision's `transforms.v2`, or `VideoDecoder`"
    packages = ("torchcodec",)
    modules = ("torchcodec.decoders", "torchvision.transforms.v2")

    def does(self, job: Job) -> bool:
        return type(job) is Images or isinstance(job, Videos)

    def stream(self, job: Job, cores: Cores) -> Stream:
        loader = DataLoader(
            (TorchcodecVideos if isinstance(job, Videos) else TorchcodecImages)(job),
            batch_size=job.batch_size,
            num_workers=cores.workers,
            collate_fn=stack,
            persistent_workers=True,
        )
        yield from finished(repeat(loader), job)
