"""torch's DataLoader and the fastest functions that we know."""

from __future__ import annotations

from torch.utils.data import DataLoader

from benchmarks.comparison.job import Job
from benchmarks.comparison.rival import Cores, Rival, Samples, Stream, finished, repeat, stack


class TorchLoader(Rival):
    """``torch.utils.data.DataLoader`` with workers that stay between epochs."""

    name = "torch"
    title = "`DataLoader(persistent_workers=True)`; simplejpeg, OpenCV, torch's kernels, soundfile in its workers"
    packages = ("torch", "simplejpeg", "opencv-python-headless", "soundfile")

    def stream(self, job: Job, cores: Cores) -> Stream:
        loader = DataLoader(
            Samples(job),
            batch_size=job.batch_size,
            num_workers=cores.workers,
            collate_fn=stack,
            persistent_workers=True,
        )
        yield from finished(repeat(loader), job)
