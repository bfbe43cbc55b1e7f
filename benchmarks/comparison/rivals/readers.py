"""Readers of tar archives inside of a pipeline, without a dataset: ours and NVIDIA DALI's."""

from __future__ import annotations

from typing import Any

from benchmarks.comparison.job import Job
from benchmarks.comparison.jobs.shards import Shards
from benchmarks.comparison.rival import Cores, Rival, Stream, repeat


class OurReader(Rival):
    """``dali_proxy.DALIGenericIterator`` over ``fn.readers.webdataset``."""

    name = "dali-proxy-reader"
    title = "`DALIGenericIterator` over `fn.readers.webdataset`: tar archives, no dataset"
    packages = ("dali-proxy",)

    def does(self, job: Job) -> bool:
        return isinstance(job, Shards)

    def prepare(self, job: Job) -> None:
        assert isinstance(job, Shards)
        job.archives()

    def stream(self, job: Job, cores: Cores) -> Stream:
        import dali_proxy
        from dali_proxy import pipeline

        yield from read(pipeline, dali_proxy.DALIGenericIterator, job, cores)


class NvidiaReader(OurReader):
    """The same graph in NVIDIA DALI's own pipeline and iterator."""

    name = "nvidia-reader"
    packages = ("nvidia-dali-cuda130",)
    modules = ("nvidia.dali.plugin.pytorch",)

    def stream(self, job: Job, cores: Cores) -> Stream:
        from nvidia import dali
        from nvidia.dali.plugin.pytorch import DALIGenericIterator

        yield from read(dali, DALIGenericIterator, job, cores)


def read(library: Any, iterator: Any, job: Job, cores: Cores) -> Stream:
    """Yield the batches of a pipeline with a reader."""
    assert isinstance(job, Shards)

    @library.pipeline_def
    def graph() -> Any:
        return job.graph_of_reader(library)

    pipe = graph(batch_size=job.batch_size, num_threads=cores.threads, device_id=None, seed=1)
    for (batch,) in repeat(iterator(pipe, ["images", "index"], size=job.length, auto_reset=True)):
        yield batch["index"].flatten(), (batch["images"],)
