"""This project's server and loader."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.datasets import make_dataset
from benchmarks.graph import make_pipeline, make_reader_pipeline
from benchmarks.rivals.base import Batch
from benchmarks.workload import ARRAY_SHAPES, PICTURE_KINDS, READER_KIND, Setup


class Ours:
    """``dali_proxy`` with the server in a process of its own, everything else by default. A reader needs no server."""

    name = "dali-proxy"
    kinds = (*PICTURE_KINDS, *ARRAY_SHAPES, READER_KIND)
    devices = ("cpu", "cuda")
    yardstick = False

    def unavailable(self) -> str | None:
        """It is always there."""
        return None

    def stream(self, setup: Setup) -> Iterator[Batch]:
        """Loads through our server, or with our reader."""
        import dali_proxy
        import pipeline

        if setup.kind == READER_KIND:
            pipe = make_reader_pipeline(pipeline, setup)
            for (batch,) in dali_proxy.DALIGenericIterator(pipe, ["images", "labels"]):
                yield batch["images"], batch["labels"].squeeze(1)
            return
        with dali_proxy.DALIServer(make_pipeline(pipeline, setup)) as server:
            dataset = make_dataset(setup, server.proxy)
            yield from dali_proxy.DataLoader(server, dataset, batch_size=setup.batch_size, num_workers=setup.workers)
