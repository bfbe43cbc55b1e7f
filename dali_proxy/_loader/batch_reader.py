"""Reads the batches of a loader in another process: a dataset worker of a server, or a server in a cluster."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.utils.data import _utils

from dali_proxy._common.batch_reading import BatchRequest
from dali_proxy._common.run_delay import run_delay
from dali_proxy._loader.batch_transform import seeded
from dali_proxy._loader.batches import CollatedBatch, FailedBatch, NumberedIndices, with_run_delay
from dali_proxy._loader.collate import Collate
from dali_proxy._loader.numbered_datasets import NumberedDataset, create_batch
from dali_proxy._loader.rescue import LOST
from dali_proxy.errors import ServerDiedError
from dali_proxy.pipeline._ipc.interpreter import working_directory


@dataclass(eq=False)
class BatchReader:
    """Does the work of a torch worker in another process: reads and collates batches.

    Its pickle is the same for all epochs and ranks, as long as the dataset, the functions and the directory are.

    Attributes:
        dataset: the wrapped dataset.
        collate: the wrapped collate function; it shares the role `own` with the dataset.
        has_batches: whether the indices are those of a batch.
        worker_init_fn: the user's function, or None.
        directory: working directory of the user's process; empty if it has none.
    """

    dataset: NumberedDataset
    collate: Collate
    has_batches: bool
    worker_init_fn: Any
    directory: str

    def begin(self, number: int, count: int, where: str) -> None:
        """Let this process look like a worker to the user's code."""
        self._where = f" on {where}" if where else ""
        own = self.dataset.own
        own.id, own.count = number, count
        self.collate.packs = False  # batches are pickled together with large arrays, or with their results
        worker: Any = _utils.worker  # torch has no public names for these
        self._info = worker.WorkerInfo(id=number, num_workers=count, seed=0, dataset=self.dataset.dataset)
        worker._worker_info = self._info
        if where:  # another machine
            self.directory = ""
        self._enter_directory()
        try:
            if self.worker_init_fn is not None:
                self.worker_init_fn(number)
        except Exception as error:  # noqa: BLE001  # raised for each batch
            own.init_error = error
        self._leave_directory()

    def read(self, request: BatchRequest) -> CollatedBatch | FailedBatch:
        """Return a batch, whose placeholders are submitted.

        Random numbers that the dataset draws depend only on the seed and the batch.

        Raises:
            ServerDiedError: the pipeline's host is gone.
        """
        numbered: NumberedIndices = request.numbered
        worker: Any = _utils.worker
        worker._worker_info, self.dataset.request = self._info, request
        self._enter_directory()
        before = run_delay()
        with seeded(np.random.SeedSequence([request.seed, numbered.epoch, numbered.number_among_ranks])):
            batch = create_batch(self.dataset, self.collate, self.has_batches, numbered)
        self._leave_directory()
        if isinstance(batch, FailedBatch):
            if isinstance(batch.error, BaseException):
                return batch
            if issubclass(batch.error.exc_type, LOST):
                raise ServerDiedError(batch.traceback)
            batch.worker += self._where
            batch.error.where += self._where and f",{self._where}"
            return batch
        return with_run_delay(batch, before)

    def _enter_directory(self) -> None:
        """Let relative paths be those of the user's process. Readers of other loaders may have other directories."""
        if self.directory and self.directory != working_directory():
            with suppress(OSError):  # this process may not enter it
                os.chdir(self.directory)

    def _leave_directory(self) -> None:
        self.directory = self.directory and working_directory()  # the user's code may have changed it
