"""The torch loader inside our loader: it produces numbered batches of placeholders."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch.utils.data

from dali_proxy._common.in_flight import InFlight
from dali_proxy._loader.batches import CollatedBatch, FailedBatch, NumberedIndices
from dali_proxy._loader.numbered_datasets import NumberedDataset

if TYPE_CHECKING:
    pass


class InnerLoader(torch.utils.data.DataLoader[Any]):
    """A torch `DataLoader` over wrapped datasets and samplers."""

    def check_worker_number_rationality(self) -> None:
        """Do nothing: the outer loader has already warned."""

    @property
    def reads_here(self) -> bool:
        """Whether this process reads the samples."""
        return self.num_workers == 0

    @property
    def stays(self) -> str | None:
        """Why this process reads all samples, of a loader whose server may change that; else empty or None.

        It is empty if workers may read them, and None if the server doesn't decide.
        """
        return None

    @property
    def readers(self) -> int:
        """Number of processes that read the samples; 0 if this process does."""
        return self.num_workers

    @property
    def in_flight(self) -> InFlight:
        """Number of batches that workers have got, and the loop hasn't, at most."""
        return InFlight(max(self.num_workers, 1) * (self.prefetch_factor or 1), "prefetch_factor")

    def note_wait(self, seconds: float) -> None:
        """Record for how many seconds the loop has waited for a result."""

    def make(self, numbered: NumberedIndices) -> CollatedBatch | FailedBatch:
        """Compute a batch in this process. Only datasets with indices allow that."""
        assert isinstance(self.dataset, NumberedDataset)
        return create_batch(self.dataset, self.collate_fn, self.batch_sampler is not None, numbered)


def create_batch(
    dataset: NumberedDataset, collate: Callable[[Any], Any], has_batches: bool, numbered: NumberedIndices
) -> CollatedBatch | FailedBatch:
    """Compute a batch in this process.

    Args:
        dataset: the wrapped dataset.
        collate: the wrapped collate function.
        has_batches: whether `numbered` has the indices of a batch, and not a single one.
        numbered: number and indices of the batch.
    """
    batch: CollatedBatch | FailedBatch = collate(dataset.__getitems__(numbered) if has_batches else dataset[numbered])
    return batch
