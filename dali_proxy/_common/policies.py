"""`LastBatchPolicy`, and the number of samples and batches that result from it."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, cycle, islice
from typing import Any, TypeVar

from dali_proxy.pipeline.errors import ArgumentMismatchError, ArgumentValueError

T = TypeVar("T")


class LastBatchPolicy(enum.Enum):
    """Treatment of the last batch of an epoch if there are too few samples to fill it.

    Attributes:
        FILL: fill it with its last sample or with samples from the beginning of the data set.
        DROP: drop it.
        PARTIAL: return a smaller batch.

    Example:
        >>> [batch_count(7, 2, policy) for policy in LastBatchPolicy]
        [4, 3, 4]
    """

    FILL = 0
    DROP = 1
    PARTIAL = 2


def check_policy(value: Any) -> LastBatchPolicy:
    """Return `value` if it is a `LastBatchPolicy`.

    An enumeration of another library with the same names is accepted, too, so that scripts may import either.

    Raises:
        ArgumentMismatchError: it isn't one.
    """
    if isinstance(value, LastBatchPolicy):
        return value
    if isinstance(value, enum.Enum) and type(value).__name__ == LastBatchPolicy.__name__:
        return LastBatchPolicy[value.name]
    known = ", ".join(map(str, LastBatchPolicy))
    raise ArgumentMismatchError(f"Wrong type for `last_batch_policy`: it must be one of {known}, not {value!r}")


def batch_count(samples: int, batch_size: int, policy: LastBatchPolicy) -> int:
    """Return the number of batches of an epoch with `samples` samples."""
    return samples // batch_size if policy is LastBatchPolicy.DROP else -(-samples // batch_size)


def fill(batch: Sequence[T], batch_size: int, first: Sequence[T], padded: bool) -> list[T]:
    """Fill the last batch of an epoch.

    Args:
        batch: remaining samples, at least one.
        batch_size: size of the filled batch.
        first: the first `batch_size` samples of the epoch, or all if there are fewer.
        padded: whether to repeat the last sample; otherwise `first` follows, repeatedly if necessary.

    Example:
        >>> fill([7], 2, [1, 2], padded=True), fill([7], 2, [1, 2], padded=False)
        ([7, 7], [7, 1])
    """
    if not batch:
        raise ArgumentValueError("there are no samples to fill with")
    more: Iterator[T] = cycle(batch[-1:] if padded else first)
    return list(islice(chain(batch, more), batch_size))


class FilledBatches:
    """Wraps a batch sampler and fills the last batch of each epoch.

    Args:
        batches: the batch sampler.
        batch_size: size of all batches except the last one. No batch is cut.
        padded: whether to fill with the epoch's last index; otherwise with its first ones.

    Attributes:
        first: first batch of the epoch; None until it is drawn.

    Example:
        >>> list(FilledBatches([[4, 1], [3]], 2, padded=False))
        [[4, 1], [3, 4]]
    """

    def __init__(self, batches: Iterable[Sequence[Any]], batch_size: int, padded: bool) -> None:
        self.batches = batches
        self.batch_size = batch_size
        self.padded = padded
        self.first: Sequence[Any] | None = None
        self._first_of_next: Sequence[Any] | None = None

    def resume_after(self, first: Sequence[Any] | None) -> None:
        """Set the first batch of an epoch that the next iteration resumes."""
        self._first_of_next = first

    def __iter__(self) -> Iterator[Sequence[Any]]:
        self.first, self._first_of_next = self._first_of_next, None
        # The user's sampler starts here, not at the first `next`.
        return self._fill(iter(self.batches))

    def _fill(self, batches: Iterator[Sequence[Any]]) -> Iterator[Sequence[Any]]:
        for batch in batches:
            self.first = batch if self.first is None else self.first
            full = len(batch) >= self.batch_size
            yield batch if full else fill(batch, self.batch_size, self.first, self.padded)

    def __len__(self) -> int:
        return len(self.batches)  # type: ignore[arg-type]


def loader_drops_last(policy: LastBatchPolicy, options: Mapping[str, Any], iterable: bool) -> bool:
    """Return torch's `drop_last` for a loader that has a policy.

    Raises:
        ArgumentMismatchError: the policy and another argument contradict each other.
    """
    if options.get("batch_sampler") is not None or options.get("batch_size", 1) is None:
        raise ArgumentMismatchError(
            "last_batch_policy needs a batch_size: a batch_sampler, or the dataset with batch_size=None, determines "
            "the last batch"
        )
    if options.get("drop_last") and policy is not LastBatchPolicy.DROP:
        raise ArgumentMismatchError(f"drop_last=True contradicts last_batch_policy={policy}: pass only one of them")
    if iterable and policy is LastBatchPolicy.FILL:
        raise ArgumentMismatchError(
            "LastBatchPolicy.FILL needs a dataset with indices; an iterable one ends in each worker separately: let it "
            "yield the number of samples that you want, or use PARTIAL or DROP"
        )
    return policy is LastBatchPolicy.DROP
