"""The plan of an epoch of packed batches: batches that hold a number of tokens and cost about the same."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._bulk.bins import fill_bins
from dali_proxy.pipeline._readers.order import permutation
from dali_proxy.pipeline._rng import BatchKey
from dali_proxy.pipeline.errors import ArgumentValueError

Indices = npt.NDArray[np.int64]

_Batch = TypeVar("_Batch", Indices, Sequence[int])

_SLACKS = (0.004, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64)  # shares of a window that are left empty, in turn
_GROUPS = 1  # stream of the random numbers that order the groups of a window


class SampleSizes:
    """Lengths and costs of the samples of a dataset.

    Args:
        lengths: tokens of each sample, or a function of its index.
        costs: further costs of each sample, (N,) or (N, kinds), or a function of its index, or None.

    Raises:
        ArgumentValueError: the arrays have wrong shapes, negative values, or different lengths.

    Attributes:
        kinds: number of costs that are balanced, with the length; None if that isn't known yet.
    """

    def __init__(self, lengths: Any, costs: Any = None) -> None:
        self._lengths: Any = lengths if callable(lengths) else _checked(lengths, "lengths", 1)
        self._costs: Any = costs if costs is None or callable(costs) else _checked(costs, "costs", 2)
        known = [len(each) for each in (self._lengths, self._costs) if isinstance(each, np.ndarray)]
        if len(set(known)) > 1:
            raise ArgumentValueError(f"there are {known[0]} lengths, but costs of {known[1]} samples")

    @property
    def count(self) -> int | None:
        """Number of samples; None if the lengths are a function."""
        return None if callable(self._lengths) else len(self._lengths)

    @property
    def checksum(self) -> int:
        """Checksum of the values that are known."""
        value = 0
        for each in (self._lengths, self._costs):
            value = zlib.crc32(np.ascontiguousarray(each).data, value) if isinstance(each, np.ndarray) else value
        return value

    def lengths(self, indices: Indices) -> Indices:
        """Return the lengths of samples, (N,)."""
        if not callable(self._lengths):
            found: Indices = self._lengths[indices]
            return found
        called: Indices = _checked([self._lengths(index) for index in indices.tolist()], "lengths", 1)
        return called

    def costs(self, indices: Indices, lengths: Indices) -> npt.NDArray[np.float64]:
        """Return the costs of samples, given their lengths: (N, kinds), of which the first is the length."""
        columns = [lengths[:, None].astype(np.float64)]
        if callable(self._costs):
            columns.append(_checked([self._costs(index) for index in indices.tolist()], "costs", 2))
        elif self._costs is not None:
            columns.append(self._costs[indices])
        return np.concatenate(columns, axis=1)


def _checked(values: Any, name: str, ndim: int) -> Any:
    array = np.asarray(values)
    if ndim == 2 and array.ndim == 1:
        array = array[:, None]
    if array.ndim != ndim or array.dtype.kind not in "iuf":
        raise ArgumentValueError(f"{name} must be numbers of shape (N,){' or (N, kinds)' * (ndim == 2)}")
    kind: Any = np.int64 if ndim == 1 else np.float64
    checked = array.astype(kind)
    if array.size and not (np.isfinite(array).all() and (checked == array).all() and checked.min() >= 0):
        raise ArgumentValueError(f"{name} must be {'whole ' * (ndim == 1)}numbers that aren't negative")
    return checked


@dataclass(frozen=True)
class Window:
    """Batches that are planned together.

    Attributes:
        begin: position of its first sample in the order.
        end: position after its last sample.
        batches: indices of the samples of each batch.
    """

    begin: int
    end: int
    batches: tuple[Indices, ...]


@dataclass(frozen=True)
class PackingPlan:
    """The batches of an epoch, a function of the order, the sizes and the seed, and not of ranks.

    The order is divided into windows of a number of batches. The samples of a window are distributed over its batches
    so that all have about the same number of tokens and the same costs. Then batches of similar cost form groups, one
    for each step of the ranks, and the groups are shuffled.

    Attributes:
        order: indices of the samples of the epoch.
        sizes: their lengths and costs.
        tokens: largest number of tokens of a batch.
        window: number of batches of a window; the last one may have fewer.
        ranks: number of batches of a group. The number of all batches is a multiple of it.
        key: seed and epoch, which the order of the groups depends on; None to keep them in order.
    """

    order: Indices
    sizes: SampleSizes
    tokens: int
    window: int
    ranks: int
    key: tuple[int, int] | None = None

    def windows(self, begin: int = 0) -> Iterator[Window]:
        """Yield the windows from the one whose first sample has a position.

        Raises:
            ArgumentValueError: a sample has more tokens than a batch may have.
        """
        while begin < len(self.order):
            window = self._planned(begin)
            yield window
            begin = window.end

    def _planned(self, begin: int) -> Window:
        room = self.window * self.tokens
        lengths = self._next_lengths(begin, room)
        totals = np.cumsum(lengths)
        last = begin + len(lengths) == len(self.order)
        if last and totals[-1] <= room:
            return self.rest(begin)
        for slack in _SLACKS:
            count = max(int(np.searchsorted(totals, room * (1 - slack), "right")), min(self.window, len(lengths)))
            homes, costs = self._homes(begin, lengths[:count], self.window)
            if homes is not None:
                return self._grouped(begin, homes, costs, self.window)
        # One sample for each batch: the bins that are empty are the lightest.
        homes, costs = self._homes(begin, lengths[: self.window], self.window)
        assert homes is not None
        return self._grouped(begin, homes, costs, self.window)

    def rest(self, begin: int = 0) -> Window:
        """Return the rest of the order as one window, with as few batches as it needs.

        Raises:
            ArgumentValueError: a sample has more tokens than a batch may have.
        """
        lengths = self._lengths(begin, len(self.order))
        needed = max(-(-int(lengths.sum()) // self.tokens), 1)
        count = -(-needed // self.ranks) * self.ranks
        while True:
            homes, costs = self._homes(begin, lengths, count)
            if homes is not None:
                return self._grouped(begin, homes, costs, count)
            count += self.ranks

    def _next_lengths(self, begin: int, room: int) -> Indices:
        """Return the lengths of the next samples: as many as fill a window."""
        parts: list[Indices] = []
        total, position = 0, begin
        while total <= room and position < len(self.order):
            known = sum(map(len, parts))
            chunk = self.window if not known else max(self.window, int((room - total) * known / max(total, 1)))
            lengths = self._lengths(position, position + chunk)
            parts.append(lengths)
            total, position = total + int(lengths.sum()), position + len(lengths)
        return np.concatenate(parts)

    def _lengths(self, begin: int, end: int) -> Indices:
        indices = self.order[begin:end]
        lengths = self.sizes.lengths(indices)
        if len(lengths) and lengths.max() > self.tokens:
            sample = int(np.argmax(lengths > self.tokens))
            raise ArgumentValueError(
                f"sample {indices[sample]} has {lengths[sample]} tokens, but a batch holds {self.tokens}: shorten it "
                "in the dataset and in `lengths`, leave it out by `order`, or pass more tokens"
            )
        return lengths

    def _homes(self, begin: int, lengths: Indices, count: int) -> tuple[Indices | None, npt.NDArray[np.float64]]:
        costs = self.sizes.costs(self.order[begin : begin + len(lengths)], lengths)
        return fill_bins(lengths, costs, self.tokens, count), costs

    def _grouped(self, begin: int, homes: Indices, costs: npt.NDArray[np.float64], count: int) -> Window:
        """Return the window, whose batches of similar cost are adjacent."""
        samples = self.order[begin : begin + len(homes)]
        ends = np.cumsum(np.bincount(homes, minlength=count))
        members = np.split(samples[np.argsort(homes, kind="stable")], ends[:-1])
        sums = np.stack([np.bincount(homes, kind, count) for kind in costs.T], axis=1)
        weights = (sums / np.maximum(sums.mean(axis=0), 1e-300)).max(axis=1)
        heaviest = np.argsort(-weights, kind="stable")
        batches = split_batches([members[each] for each in heaviest.tolist() if len(members[each])], count)
        groups = np.arange(count).reshape(-1, self.ranks) if count % self.ranks == 0 else np.arange(count)[None]
        if self.key is not None:
            seed, epoch = self.key
            groups = groups[permutation(len(groups), seed, _GROUPS, BatchKey(epoch, begin))]
        return Window(begin, begin + len(homes), tuple([batches[each] for each in groups.ravel().tolist()]))


def split_batches(batches: Sequence[_Batch], count: int) -> list[_Batch]:
    """Return at least `count` batches: halve the longest ones. If all have one sample, repeat the first batches.

    Example:
        >>> [batch.tolist() for batch in split_batches([np.array([4, 5, 6]), np.array([7])], 3)]
        [[4, 6], [7], [5]]
    """
    result: list[Any] = list(batches)
    while len(result) < count:
        longest = max(range(len(result)), key=lambda each: len(result[each]))
        batch = result[longest]
        if len(batch) > 1:
            result[longest], other = batch[::2], batch[1::2]
        else:
            other = result[len(result) % len(batches)]
        result.append(other)
    return result
