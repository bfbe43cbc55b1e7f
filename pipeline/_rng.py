"""Counter-based random numbers: a pure function of (seed, operator, epoch, iteration, view, sample).

Nothing depends on which worker, thread or order a batch came by, so a run repeats with any number of workers and
resumes in the middle with no replay. The generator is Philox4x64-10 (Salmon et al., "Parallel random numbers: as
easy as 1, 2, 3", SC11), as NumPy ships it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["BatchKey", "batch_generator", "fresh_seed"]

_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class BatchKey:
    """What identifies a batch for random numbers.

    Attributes:
        epoch: number of the epoch, from 0.
        iteration: number of the batch within its epoch, from 0.
        view: 0 for the first batch made of the same samples, 1 for the second (two views a sample) and so on.
    """

    epoch: int = 0
    iteration: int = 0
    view: int = 0


def fresh_seed() -> int:
    """Draw a seed from the operating system, for pipelines whose user gave none."""
    return int(np.random.SeedSequence().entropy) & 0x7FFF_FFFF_FFFF_FFFF  # type: ignore[arg-type]


def batch_generator(seed: int, stream: int, key: BatchKey) -> np.random.Generator:
    """Return the generator of one operator for one batch.

    Draw the numbers of sample 0 first, then those of sample 1 and so on, the same count for each: then a sample's
    numbers don't depend on the size of its batch.

    Args:
        seed: seed of the pipeline, or of the operator where it has one of its own.
        stream: the operator's position in the graph, so that two operators differ; 0 where the user gave the
            operator a seed, so that equal seeds give equal numbers.
        key: which batch.

    Example:
        >>> batch_generator(1, 0, BatchKey()).random() == batch_generator(1, 0, BatchKey()).random()
        True
    """
    counter = np.array([0, key.iteration & _MASK, key.epoch & _MASK, key.view & _MASK], dtype=np.uint64)
    philox = np.random.Philox(key=np.array([seed & _MASK, stream & _MASK], dtype=np.uint64), counter=counter)
    return np.random.Generator(philox)
