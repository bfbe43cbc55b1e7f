"""`LastBatchPolicy`, and how many samples and batches it makes of a data set."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from itertools import chain, cycle, islice
from typing import Any, TypeVar

from pipeline.errors import ArgumentMismatchError, ArgumentValueError

__all__ = ["LastBatchPolicy", "batch_count", "check_policy", "fill", "last_batch"]

T = TypeVar("T")


class LastBatchPolicy(enum.Enum):
    """What becomes of the last batch of an epoch when there are not enough samples to fill it.

    Attributes:
        FILL: it is filled up, with its last sample or with samples from the beginning of the data set.
        DROP: it is left out.
        PARTIAL: it is smaller than the others.

    Example:
        >>> [batch_count(7, 2, policy) for policy in LastBatchPolicy]
        [4, 3, 4]
        >>> [last_batch(7, 2, policy) for policy in LastBatchPolicy]
        [2, 2, 1]
    """

    FILL = 0
    DROP = 1
    PARTIAL = 2


def check_policy(value: Any) -> LastBatchPolicy:
    """Return `value` if it is a `LastBatchPolicy`.

    An enumeration of another library with the same names is taken for ours, so that scripts may import either.

    Raises:
        ArgumentMismatchError: it is none.
    """
    if isinstance(value, LastBatchPolicy):
        return value
    if isinstance(value, enum.Enum) and type(value).__name__ == LastBatchPolicy.__name__:
        return LastBatchPolicy[value.name]
    raise ArgumentMismatchError(f"last_batch_policy is a LastBatchPolicy, not {value!r}")


def batch_count(samples: int, batch_size: int, policy: LastBatchPolicy) -> int:
    """Return how many batches an epoch of so many samples has."""
    return samples // batch_size if policy is LastBatchPolicy.DROP else -(-samples // batch_size)


def last_batch(samples: int, batch_size: int, policy: LastBatchPolicy) -> int:
    """Return the size of the last batch of an epoch of so many samples; 0 if it has none."""
    if policy is LastBatchPolicy.PARTIAL and samples % batch_size:
        return samples % batch_size
    return batch_size if batch_count(samples, batch_size, policy) else 0


def fill(batch: Sequence[T], batch_size: int, first: Sequence[T], padded: bool) -> list[T]:
    """Fill the last batch of an epoch.

    Args:
        batch: what is left for it, one sample at least.
        batch_size: how many it shall be.
        first: the first `batch_size` samples of the epoch, or all if there are fewer.
        padded: whether to repeat the last sample; else `first` follows, again and again if need be.

    Example:
        >>> fill([7], 2, [1, 2], padded=True), fill([7], 2, [1, 2], padded=False)
        ([7, 7], [7, 1])
    """
    if not batch:
        raise ArgumentValueError("there is nothing to fill")
    more: Iterator[T] = cycle(batch[-1:] if padded else first)
    return list(islice(chain(batch, more), batch_size))
