"""How strong an operation is: magnitudes in bins, with a sign that is drawn for each sample."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._graph import DataNode, apply_operator, as_node
from pipeline.errors import ArgumentValueError

__all__ = ["SignedBin", "coin", "seeds", "signed_bin", "take"]


@dataclass(frozen=True, eq=False)
class SignedBin:
    """A magnitude bin, and for each sample whether the magnitude is negated.

    Attributes:
        magnitude_bin: a number, or one for each sample.
        random_sign: 1 for each sample whose magnitude is negated where the augmentation says so, else 0.
    """

    magnitude_bin: int | DataNode
    random_sign: DataNode


def signed_bin(
    magnitude_bin: int | DataNode,
    random_sign: DataNode | None = None,
    seed: int | None = None,
    shape: tuple[int, ...] | None = None,
) -> SignedBin:
    """Put a magnitude bin and a sign together, so that one sign serves all branches that a sample may take.

    Args:
        magnitude_bin: from 0 to below the number of bins; for all samples, or a batch of integers.
        random_sign: a batch of 0 and 1; 1 negates. By default it is drawn.
        seed: of the drawn signs.
        shape: of the drawn signs; a scalar by default.
    """
    return SignedBin(magnitude_bin, coin(seed=seed, shape=shape) if random_sign is None else random_sign)


def coin(probability: Any = 0.5, seed: int | None = None, shape: tuple[int, ...] | None = None) -> DataNode:
    """Draw 0 or 1 for each sample."""
    return _node("random.coin_flip", probability=probability, seed=seed, shape=shape)


def take(table: npt.NDArray[Any], index: int | DataNode) -> DataNode:
    """Return a row of a table: one for all samples, or another for each.

    Args:
        table: the rows.
        index: which row; a batch of integers for one each.
    """
    if isinstance(index, DataNode):
        made = apply_operator("table_row", (index,), {"table": table})
        assert isinstance(made, DataNode)
        return made
    if not 0 <= index < len(table):
        raise ArgumentValueError(f"magnitude bin {index} is not one of the {len(table)} bins")
    return as_node(np.asarray(table[index]), "a parameter")


def seeds(seed: int | None) -> Iterator[int | None]:
    """Yield seeds for several operators, made from one; without one, they get theirs from the pipeline."""
    count = 0
    while True:
        if seed is None or seed < 0:
            yield None
        else:
            yield int(np.random.SeedSequence((seed, count)).generate_state(1, np.uint64)[0] >> np.uint64(1))
        count += 1


def _node(operator: str, **arguments: Any) -> DataNode:
    made = apply_operator(operator, (), arguments)
    assert isinstance(made, DataNode)
    return made
