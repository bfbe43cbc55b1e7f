"""NVIDIA DALI's proxy, set up as in its documentation."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from benchmarks.datasets import make_dataset
from benchmarks.graph import make_pipeline
from benchmarks.rivals.base import Batch, Rival, without_dali
from benchmarks.workload import ARRAY_SHAPES, IMAGE_KINDS, Setup


class NvidiaProxy(Rival):
    """``nvidia.dali.plugin.pytorch.experimental.proxy`` with the same graph and the same dataset as ours.

    It marks ranges with NVTX, which a torch built without CUDA refuses. There the marks do nothing: nothing here uses
    them, and the proxy runs as it does elsewhere.
    """

    name = "nvidia-proxy"
    kinds = (*IMAGE_KINDS, *ARRAY_SHAPES)
    devices = ("cpu", "cuda")
    yardstick = False

    def unavailable(self) -> str | None:
        """Return a message if DALI, which is optional, isn't installed."""
        return without_dali()

    def stream(self, setup: Setup) -> Iterator[Batch]:
        """Load through NVIDIA's server."""
        if torch.version.cuda is None:
            torch.cuda.nvtx.range_push = lambda message: 0
            torch.cuda.nvtx.range_pop = lambda: 0
        from nvidia import dali
        from nvidia.dali.plugin.pytorch.experimental import proxy

        # Twice the workers, as the documentation of its DALIServer recommends.
        pipeline = make_pipeline(dali, setup, prefetch_queue_depth=2 * setup.workers)
        with proxy.DALIServer(pipeline) as server:
            dataset = make_dataset(setup, server.proxy)
            yield from proxy.DataLoader(
                server,
                dataset,
                batch_size=setup.batch_size,
                num_workers=setup.workers,
                multiprocessing_context="fork",  # its proxy can't be pickled
            )
