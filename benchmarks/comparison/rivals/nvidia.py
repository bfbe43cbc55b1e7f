"""NVIDIA DALI's proxy, set up as in its documentation, with the same graph as ours."""

from __future__ import annotations

import torch

from benchmarks.comparison.job import Job
from benchmarks.comparison.jobs.videos import Videos
from benchmarks.comparison.rival import Cores, Rival, Stream, repeat
from benchmarks.comparison.rivals.ours import Proxied, as_tuple, make_pipeline


class NvidiaProxy(Rival):
    """``nvidia.dali.plugin.pytorch.experimental.proxy``.

    It marks ranges with NVTX, which a torch built without CUDA refuses. There the marks do nothing.
    """

    name = "nvidia-proxy"
    title = "`plugin.pytorch.experimental.proxy`: `DALIServer` and `DataLoader`, the same graph as ours"
    packages = ("nvidia-dali-cuda130",)
    modules = ("nvidia.dali.plugin.pytorch.experimental.proxy",)

    def does(self, job: Job) -> bool:
        return not isinstance(job, Videos)  # its decoder of videos needs a GPU

    def stream(self, job: Job, cores: Cores) -> Stream:
        from nvidia import dali
        from nvidia.dali.plugin.pytorch.experimental import proxy

        if not torch.cuda.is_available():
            torch.cuda.nvtx.range_push = lambda message: 0
            torch.cuda.nvtx.range_pop = lambda: 0
        # Twice the workers, as the documentation of its DALIServer recommends.
        with proxy.DALIServer(make_pipeline(dali, job, cores, prefetch_queue_depth=2 * cores.workers)) as server:
            loader = proxy.DataLoader(
                server,
                Proxied(job, server.proxy),
                batch_size=job.batch_size,
                num_workers=cores.workers,
                persistent_workers=True,
                multiprocessing_context="fork",  # its proxy can't be pickled
            )
            for outputs, indices in repeat(loader):
                yield indices, as_tuple(outputs)
