"""Counter-based random numbers: a pure function of (seed, operator, epoch, iteration, view, sample).

The numbers don't depend on workers, threads or the order of batches. So a run is reproducible with any number of
workers and can resume at any batch without replay. The generator is NumPy's Philox4x64-10 (Salmon et al., "Parallel
random numbers: as easy as 1, 2, 3", SC11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.random.bit_generator import ISeedSequence

from dali_proxy.pipeline._native import find_compiled

_compiled = find_compiled("_imaging")
_MASK = (1 << 64) - 1
_RANK_SHIFT = 44  # batches of one rank in an epoch: 17 trillion


@dataclass(frozen=True)
class BatchKey:
    """The identity of a batch for random numbers.

    Attributes:
        epoch: number of the epoch, from 0.
        iteration: number of the batch within its epoch, from 0.
        view: 0 for the first batch of the same samples, 1 for the second (two views per sample), and so on.
        global_batch: number of the batch among those of all ranks of a distributed run, which replaces `iteration` for
            random numbers; None for `iteration`.
    """

    epoch: int = 0
    iteration: int = 0
    view: int = 0
    global_batch: int | None = None


def global_batch(rank: int, iteration: int, indices: Any = None) -> int | None:
    """Return a number for a batch of a rank that no batch of another rank has. None for `iteration`, as for rank 0.

    Args:
        rank: the rank.
        iteration: number of the batch in the epoch of the rank.
        indices: the batch's indices, which know its number if a sampler deals the batches to all ranks.
    """
    known = getattr(indices, "global_batch", None)
    if known is not None:
        return int(known)
    return rank << _RANK_SHIFT | iteration if rank else None


class RandomState(NamedTuple):
    """What the random numbers of an operator for a batch depend on.

    Attributes:
        seed: seed of the operator, if it has one, or of the pipeline.
        stream: position of the operator in the graph, so that two operators draw different numbers; 0 if the operator
            has a seed, so that equal seeds give equal numbers.
        key: identity of the batch.
    """

    seed: int
    stream: int
    key: BatchKey

    @property
    def numbers(self) -> RandomNumbers:
        """The random numbers."""
        return RandomNumbers(generator_key(self.seed, self.stream), batch_counter(self.key))


class RandomNumbers(NamedTuple):
    """Random numbers of one operator for one batch. To create their generator takes longer than to draw hundreds.

    Draw the numbers of sample 0 first, then those of sample 1, and so on, with the same count for each sample. Then the
    numbers of a sample don't depend on the batch size.

    Attributes:
        key: key of the generator, two words of uint64.
        counter: its first counter, four words.

    Example:
        >>> numbers = RandomState(1, 0, BatchKey()).numbers
        >>> numbers.uniform(2).tolist() == numbers.generator().random(2).tolist()
        True
    """

    key: npt.NDArray[np.uint64]
    counter: npt.NDArray[np.uint64]

    def generator(self) -> np.random.Generator:
        """Return a new generator."""
        return philox(self.key, self.counter)

    def words(self, shape: int | tuple[int, ...]) -> npt.NDArray[np.uint64]:
        """Return the first numbers as integers from all of uint64."""
        if _compiled is None:
            return self.generator().integers(0, 1 << 64, shape, np.uint64)
        words = np.empty(shape, np.uint64)
        _compiled.random_words(self.key, self.counter, words, False)
        return words

    def uniform(self, shape: int | tuple[int, ...]) -> npt.NDArray[np.float64]:
        """Return the first numbers as multiples of 2^-53 from [0, 1)."""
        if _compiled is None:
            return self.generator().random(shape)
        numbers = np.empty(shape)
        _compiled.random_words(self.key, self.counter, numbers, True)
        return numbers


#: Philox draws so many numbers at a time, for each value of its counter.
NUMBERS_PER_COUNT = 4
#: Numbers that are reserved for each sample if samples need different counts.
MOST_NUMBERS = 1 << 40


@dataclass(frozen=True, eq=False)
class Distribution:
    """A distribution whose numbers are computed from uniform ones, each from one.

    Parameters have one row for all samples, or one per sample.

    Attributes:
        kind: `UNIFORM` for the numbers of a range, `LISTED` for the values of a list, `COIN` for 1 with a probability
            and else 0, or `NORMAL`.
        low: lower end of the range, probability, or mean, (1,) or (N,).
        range: length of the range, or standard deviation, (1,) or (N,).
        limit: largest number of the range, (1,) or (N,).
        lists: lists of values, (1, longest) or (N, longest); shorter lists are repeated.
        lengths: number of values in each list.
    """

    UNIFORM, LISTED, COIN, NORMAL = range(4)  # as in headers/draws.h and draws.cu

    kind: int
    low: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))
    range: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))
    limit: npt.NDArray[np.float64] = field(default_factory=lambda: np.full(1, np.inf))
    lists: npt.NDArray[np.float64] = field(default_factory=lambda: np.array([[0.0, 1.0]]))
    lengths: npt.NDArray[np.int64] = field(default_factory=lambda: np.array([2]))


def fresh_seed() -> int:
    """Draw a seed from the operating system, for pipelines without a seed."""
    return int(np.random.SeedSequence().entropy) & 0x7FFF_FFFF_FFFF_FFFF  # type: ignore[arg-type]


def generator_key(seed: int, stream: int) -> npt.NDArray[np.uint64]:
    """Return the key of a generator, two words."""
    return np.array([seed & _MASK, stream & _MASK], dtype=np.uint64)


def batch_counter(key: BatchKey) -> npt.NDArray[np.uint64]:
    """Return the first counter of the generators of a batch, four words."""
    batch = key.iteration if key.global_batch is None else key.global_batch
    return np.array([0, batch & _MASK, key.epoch & _MASK, key.view & _MASK], dtype=np.uint64)


def philox(
    key: npt.NDArray[np.uint64], counter: Sequence[int] | npt.NDArray[np.uint64] = (0, 0, 0, 0)
) -> np.random.Generator:
    """Return the generator for a key of two words and a counter of four words."""
    words = np.asarray(counter, dtype=np.uint64)
    return np.random.Generator(np.random.Philox(_Key(key), counter=words))  # type: ignore[arg-type]


class _Key(ISeedSequence):
    """A key for Philox. It passes for a seed, because ``Philox(key=...)`` also draws a seed from the system, slowly."""

    def __init__(self, words: npt.NDArray[np.uint64]) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: Any = None) -> npt.NDArray[np.uint64]:
        return self._words
