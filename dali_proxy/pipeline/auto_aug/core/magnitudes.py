"""Magnitudes of operations: bins, with a sign that is drawn for each sample."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._graph import DataNode, apply_operator, as_node
from dali_proxy.pipeline.errors import ArgumentValueError

__all__ = ["SignedBin", "apply", "coin", "seeds", "signed_bin", "take"]


@dataclass(frozen=True, eq=False)
class SignedBin:
    """A magnitude bin, and a random sign for each sample.

    Attributes:
        magnitude_bin: index of the bin: a number, or one per sample.
        random_sign: 1 for samples whose magnitude is negated by augmentations with `randomly_negate`, else 0.
    """

    magnitude_bin: int | DataNode
    random_sign: DataNode


def signed_bin(
    magnitude_bin: int | DataNode,
    random_sign: DataNode | None = None,
    seed: int | None = None,
    shape: tuple[int, ...] | None = None,
) -> SignedBin:
    """Combine a magnitude bin and a sign, so that all operations that a sample may select share the sign.

    Args:
        magnitude_bin: index of the bin, from 0 to below the number of bins: a number, or a batch of integers.
        random_sign: batch of 0 and 1, where 1 negates; by default it is drawn.
        seed: seed of the drawn signs.
        shape: shape of the drawn signs; by default scalars.
    """
    return SignedBin(magnitude_bin, coin(seed=seed, shape=shape) if random_sign is None else random_sign)


def apply(operator: str, *inputs: Any, **arguments: Any) -> DataNode:
    """Add an operator with one output to the graph, and return the output."""
    node = apply_operator(operator, inputs, arguments)
    assert isinstance(node, DataNode)
    return node


def coin(probability: Any = 0.5, seed: int | None = None, shape: tuple[int, ...] | None = None) -> DataNode:
    """Draw 0 or 1 for each sample."""
    return apply("random.coin_flip", probability=probability, seed=seed, shape=shape)


def take(table: npt.NDArray[Any], index: int | DataNode) -> DataNode:
    """Return a row of a table for all samples, or one row per sample."""
    if isinstance(index, DataNode):
        return apply("table_row", index, table=table)
    if not 0 <= index < len(table):
        raise ArgumentValueError(f"magnitude bin {index} is not one of the {len(table)} bins")
    return as_node(np.asarray(table[index]), "a parameter")


def seeds(seed: int | None) -> Iterator[int | None]:
    """Yield seeds for several operators, derived from one seed; None without a seed, for seeds from the pipeline."""
    count = 0
    while True:
        if seed is None or seed < 0:
            yield None
        else:
            yield int(np.random.SeedSequence((seed, count)).generate_state(1, np.uint64)[0] >> np.uint64(1))
        count += 1
