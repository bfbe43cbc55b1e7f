"""SPDL: a pipeline of threads, in the process of the training or in a subprocess with a shared-memory arena."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from benchmarks.comparison.job import Job
from benchmarks.comparison.rival import Cores, Rival, Samples, Stream, finished, one_thread, repeat, stack

BUFFER = 3
"""Batches that wait for the training, as in SPDL's examples."""

ARENA = 256 << 20
"""Bytes of the arena: more than five batches of any job."""


class SpdlThreads(Rival):
    """``PipelineBuilder``: threads decode, one batch after the other. Most of the work releases the GIL."""

    name = "spdl"
    title = "`PipelineBuilder`, threads in the process of the training"
    packages = ("spdl",)
    modules = ("spdl.pipeline",)

    def stream(self, job: Job, cores: Cores) -> Stream:
        one_thread()
        pipeline = builder(job, cores).build(num_threads=cores.threads)
        with pipeline.auto_stop():
            yield from finished(pipeline.get_iterator(), job)


class SpdlSubprocess(Rival):
    """The same pipeline in a subprocess, whose batches come through a ring of shared memory."""

    name = "spdl-subprocess"
    title = "`run_pipeline_in_subprocess` with a `SharedMemoryRingBuffer`"
    packages = ("spdl",)
    modules = ("spdl.pipeline",)

    def stream(self, job: Job, cores: Cores) -> Stream:
        from spdl.pipeline import SharedMemoryRingBuffer, run_pipeline_in_subprocess

        batches: Iterable[Any] = run_pipeline_in_subprocess(
            builder(job, cores).get_config(),
            num_threads=cores.threads,
            buffer_size=BUFFER,
            initializer=one_thread,
            arena=SharedMemoryRingBuffer(ARENA),
        )
        yield from finished(repeat(batches), job)


def builder(job: Job, cores: Cores) -> Any:
    """Describe the pipeline of a job: a thread makes a whole batch, which has the least overhead."""
    from spdl.pipeline import PipelineBuilder

    return (
        PipelineBuilder()
        .add_source(Batches(job))
        .pipe(partial(_load, Samples(job)), concurrency=cores.threads, output_order="input")
        .add_sink(BUFFER)
    )


class Batches:
    """The indices of the batches of an epoch."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def __iter__(self) -> Iterator[range]:
        for first in range(0, self.job.length, self.job.batch_size):
            yield range(first, first + self.job.batch_size)


def _load(samples: Samples, indices: range) -> Any:
    return stack(samples[index] for index in indices)
