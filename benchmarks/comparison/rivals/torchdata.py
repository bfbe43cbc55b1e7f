"""torchdata: its nodes, and its loader with a state."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch.utils.data import SequentialSampler

from benchmarks.comparison.job import Job
from benchmarks.comparison.rival import OF_LOADERS, Batch, Cores, Rival, Samples, Stream, finished, repeat, stack


class TorchdataNodes(Rival):
    """A graph of ``torchdata.nodes``: processes map batches of indices."""

    name = "torchdata-nodes"
    title = '`SamplerWrapper`, `Batcher`, `ParallelMapper(method="process")`, `Prefetcher`, `Loader`'
    packages = ("torchdata",)
    modules = ("torchdata.nodes",)
    jobs = OF_LOADERS

    def stream(self, job: Job, cores: Cores) -> Stream:
        from torchdata.nodes import Batcher, Loader, ParallelMapper, Prefetcher, SamplerWrapper

        samples = Samples(job)
        indices = Batcher(SamplerWrapper(SequentialSampler(samples)), job.batch_size)
        batches = ParallelMapper(indices, partial(_load, samples), num_workers=cores.workers, method="process")
        yield from finished(repeat(Loader(Prefetcher(batches, prefetch_factor=2))), job)


class StatefulLoader(Rival):
    """``StatefulDataLoader``: torch's loader whose state can be saved in the middle of an epoch."""

    name = "torchdata-stateful"
    title = "`StatefulDataLoader(persistent_workers=True)`, otherwise as torch"
    packages = ("torchdata",)
    modules = ("torchdata.stateful_dataloader",)
    jobs = OF_LOADERS

    def stream(self, job: Job, cores: Cores) -> Stream:
        from torchdata.stateful_dataloader import StatefulDataLoader

        loader = StatefulDataLoader(
            Samples(job),
            batch_size=job.batch_size,
            num_workers=cores.workers,
            collate_fn=stack,
            persistent_workers=True,
        )
        yield from finished(repeat(loader), job)


def _load(samples: Samples, indices: Sequence[int]) -> Batch:
    return stack(samples[index] for index in indices)
