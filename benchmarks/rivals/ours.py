"""This project's server and loader."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.datasets import make_dataset
from benchmarks.graph import make_pipeline
from benchmarks.rivals.base import Batch
from benchmarks.workload import KINDS, Setup


class Ours:
    """``dali_proxy`` with the server in a process of its own, everything else by default."""

    name = "dali-proxy"
    kinds = KINDS
    devices = ("cpu", "cuda")

    def unavailable(self) -> str | None:
        """It is always there."""
        return None

    def stream(self, setup: Setup) -> Iterator[Batch]:
        """Loads through our server."""
        import dali_proxy
        import pipeline

        with dali_proxy.DALIServer(make_pipeline(pipeline, setup)) as server:
            dataset = make_dataset(setup, server.proxy)
            yield from dali_proxy.DataLoader(server, dataset, batch_size=setup.batch_size, num_workers=setup.workers)
