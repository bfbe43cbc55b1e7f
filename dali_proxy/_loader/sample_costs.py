"""The samples of a dataset that take long to read, as measured in earlier epochs."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

_SLOW = 3.0  # times the usual time of a sample, from which it is slow...
_PART = 0.5  # ... if it takes this part of the time between two batches of the loop more than others
_LIMIT = 1 << 16  # samples that are kept
_WEIGHT = 0.1  # of a batch in the moving averages


class SampleCosts:
    """Measures how long samples take to read, and keeps those that are slow.

    A batch with slow samples then begins earlier, and no other one waits for it. A sample that isn't slow any more is
    forgotten when it is read again, and so are the least slow ones when there are too many.
    """

    def __init__(self) -> None:
        self._usual = 0.0  # seconds of a sample that isn't slow
        self._batch = 0.0  # seconds of a batch
        self._extra: dict[Any, float] = {}  # seconds that slow samples take beyond the usual, by dataset index
        self._largest = 0.0

    def __len__(self) -> int:
        return len(self._extra)

    def note(self, indices: Any, seconds: npt.NDArray[np.float32], total: float, readers: int) -> None:
        """Record a batch that was read.

        Args:
            indices: dataset indices of the batch.
            seconds: time that each of its samples took; empty if unknown.
            total: time that the batch took.
            readers: number of processes that read batches at the same time.
        """
        listed = _listed(indices)
        if len(listed) != len(seconds):
            return
        each = seconds.astype(np.float64)
        if not self._batch:
            self._batch, self._usual = total, float(np.median(each))
        self._batch += _WEIGHT * (total - self._batch)
        self._usual += _WEIGHT * (float(np.minimum(each, 2 * self._usual).sum()) / len(each) - self._usual)
        least = self._usual + max((_SLOW - 1) * self._usual, _PART * self._batch / max(readers, 1))
        places: list[int] = (each > least).nonzero()[0].tolist()
        slow = {listed[place]: float(each[place]) for place in places if _is_kept(listed[place])}
        for index in self._known(listed):
            if index not in slow:
                self._forget(index)
        for index, taken in slow.items():
            self._extra[index] = taken - self._usual
            self._largest = max(self._largest, self._extra[index])
        if len(self._extra) > _LIMIT:
            kept = sorted(self._extra, key=self._extra.__getitem__, reverse=True)[: _LIMIT // 2]
            self._extra = {index: self._extra[index] for index in kept}

    def ahead(self, indices: Any, readers: int) -> float:
        """Return how many batches before its turn a batch must begin, so that the loop needn't wait for it.

        Args:
            indices: dataset indices of the batch.
            readers: number of processes that read batches at the same time.
        """
        known = self._known(_listed(indices))
        return self._in_batches(sum(map(self._extra.__getitem__, known)), readers)

    def farthest(self, readers: int) -> float:
        """Return the same for the slowest sample that is known."""
        return self._in_batches(self._largest, readers)

    def _in_batches(self, seconds: float, readers: int) -> float:
        return seconds * readers / self._batch if self._batch else 0.0

    def _known(self, indices: Sequence[Any]) -> list[Any]:
        """Return those indices that are known to be slow."""
        if not self._extra:
            return []
        try:
            return [index for index in indices if index in self._extra]
        except TypeError:  # one isn't hashable
            return [index for index in indices if _is_kept(index) and index in self._extra]

    def _forget(self, index: Any) -> None:
        if self._extra.pop(index, 0.0) == self._largest:
            self._largest = max(self._extra.values(), default=0.0)


def _listed(indices: Any) -> Sequence[Any]:
    return indices if isinstance(indices, list | tuple) else [indices]


def _is_kept(index: Any) -> bool:
    """Return whether an index is the same object, as a key, in the next epoch: a tensor isn't."""
    return isinstance(index, str | Integral)
