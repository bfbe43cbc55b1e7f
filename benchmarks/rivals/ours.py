"""This project's server and loader."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from benchmarks.datasets import make_dataset
from benchmarks.graph import make_pipeline, make_reader_pipeline
from benchmarks.rivals.base import Batch, Rival
from benchmarks.workload import ARRAY_SHAPES, IMAGE_KINDS, ONE_WORKER_KIND, READER_KIND, Setup

PLACEMENTS = ("server", "engine", "cores", "consumer", "auto")
"""Where the stages can run; "auto" chooses one of the others."""


class Ours(Rival):
    """``dali_proxy`` with the server in a separate process and default options. A reader needs no server.

    Args:
        name: The rival's name.
        options: Further arguments of ``DALIServer``.
    """

    kinds = (*IMAGE_KINDS, ONE_WORKER_KIND, *ARRAY_SHAPES, READER_KIND)
    devices = ("cpu", "cuda")
    yardstick = False

    def __init__(self, name: str = "dali-proxy", **options: Any) -> None:
        self.name = name
        self.options = options
        self._server: Any = None
        self._before: Any = None

    def unavailable(self) -> str | None:
        """Return None: it is always available."""
        return None

    def stream(self, setup: Setup) -> Iterator[Batch]:
        """Load through our server, or with our reader."""
        import dali_proxy
        import pipeline

        if setup.kind == READER_KIND:
            with closing(make_reader_pipeline(pipeline, setup)) as pipe:
                for (batch,) in dali_proxy.DALIGenericIterator(pipe, ["images", "labels"]):
                    yield batch["images"], batch["labels"].squeeze(1)
            return
        with dali_proxy.DALIServer(make_pipeline(pipeline, setup), **self.options) as server:
            self._server = server
            dataset = make_dataset(setup, server.proxy)
            yield from dali_proxy.DataLoader(server, dataset, batch_size=setup.batch_size, num_workers=setup.workers)

    def adapt(self) -> None:
        """Let ``placement="auto"`` choose again."""
        if self._trial is not None:
            self._trial.repeat()

    def is_ready(self) -> bool:
        """Return whether ``placement="auto"`` has chosen, and batches come from there."""
        return self._trial is None or self._trial.is_settled

    @property
    def _trial(self) -> Any:
        return self._server and self._server._placing.trial

    def mark(self) -> None:
        """Store the server's statistics."""
        self._before = self._server and self._server.stats()

    def report(self) -> str:
        """Return the server's statistics since the mark, which show what limits the speed."""
        return str(self._server.stats() - self._before) if self._before else ""


def modes_of_ours(device_id: int | None) -> list[Ours]:
    """Return every mode of our server as a rival; with a GPU, every placement, too."""
    if device_id is None:
        return [Ours("ours, process", mode="process"), Ours("ours, thread", mode="thread")]
    modes = [Ours(f"ours, process, {place}", mode="process", placement=place) for place in PLACEMENTS]
    return [*modes, Ours("ours, thread", mode="thread")]
