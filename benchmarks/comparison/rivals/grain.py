"""Grain: a map dataset whose batches processes make in shared memory, or threads."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.comparison.job import Arrays, Job
from benchmarks.comparison.rival import OF_LOADERS, Cores, Rival, Samples, Stream, finished, one_thread, repeat


class GrainProcesses(Rival):
    """``MapDataset.range().map().batch().to_iter_dataset().mp_prefetch()``, for work that needs the processor."""

    name = "grain"
    title = "`MapDataset`, `batch`, `mp_prefetch`: worker processes"
    packages = ("grain",)
    modules = ("grain",)
    jobs = OF_LOADERS

    def stream(self, job: Job, cores: Cores) -> Stream:
        import grain

        # Few reading threads and elements in each worker: reading costs little here, and all work is the processor's.
        options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=2)
        dataset: Any = grain.MapDataset.range(job.length).map(partial(_load, Samples(job))).batch(job.batch_size)
        batches = dataset.to_iter_dataset(options).mp_prefetch(grain.MultiprocessingOptions(num_workers=cores.workers))
        yield from finished(((indices, outputs) for outputs, indices in repeat(batches)), job)


class GrainThreads(Rival):
    """The same with threads of ``ReadOptions`` instead of processes."""

    name = "grain-threads"
    title = "`MapDataset`, `batch`, `to_iter_dataset`: threads"
    packages = ("grain",)
    modules = ("grain",)
    jobs = OF_LOADERS

    def stream(self, job: Job, cores: Cores) -> Stream:
        import grain

        one_thread()
        options = grain.ReadOptions(num_threads=cores.threads, prefetch_buffer_size=4)
        dataset: Any = grain.MapDataset.range(job.length).map(partial(_load, Samples(job))).batch(job.batch_size)
        batches = dataset.to_iter_dataset(options)
        yield from finished(((indices, outputs) for outputs, indices in repeat(batches)), job)


def _load(samples: Samples, index: int) -> tuple[Arrays, int]:
    return samples[index]
