"""This project's server and loader, with default options."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchmarks.comparison.job import Arrays, Job
from benchmarks.comparison.rival import Cores, Rival, Stream, repeat


class Proxied(torch.utils.data.Dataset[Any]):
    """A dataset that passes the inputs to a proxy."""

    def __init__(self, job: Job, proxy: Any) -> None:
        self.job, self.proxy = job, proxy

    def __len__(self) -> int:
        return self.job.length

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.proxy(**named(self.job.inputs(index))), index


class Ours(Rival):
    """``dali_proxy.DataLoader`` with the server in its own process."""

    name = "dali-proxy"
    title = "`DALIServer` and `DataLoader` with default options"
    packages = ("dali-proxy",)

    def stream(self, job: Job, cores: Cores) -> Stream:
        import dali_proxy
        from dali_proxy import pipeline

        with dali_proxy.DALIServer(make_pipeline(pipeline, job, cores)) as server:
            loader = dali_proxy.DataLoader(
                server,
                Proxied(job, server.proxy),
                batch_size=job.batch_size,
                num_workers=cores.workers,
                persistent_workers=True,
            )
            for outputs, indices in repeat(loader):
                yield indices, as_tuple(outputs)


def make_pipeline(library: Any, job: Job, cores: Cores, **options: Any) -> Any:
    """Create the pipeline of a job, with an input for each part of a sample."""

    @library.pipeline_def
    def graph() -> Any:
        return job.graph(
            library, *[library.fn.external_source(name=name, no_copy=True) for name in named(job.inputs(0))]
        )

    return graph(batch_size=job.batch_size, num_threads=cores.threads, device_id=None, seed=1, **options)


def named(inputs: Arrays) -> dict[str, np.ndarray]:
    """Return the inputs of a pipeline by name."""
    return {f"in{number}": value for number, value in enumerate(inputs)}


def as_tuple(outputs: Any) -> tuple[torch.Tensor, ...]:
    """Return the outputs of a pipeline as a tuple, also if there is only one."""
    return (outputs,) if isinstance(outputs, torch.Tensor) else tuple(outputs)
