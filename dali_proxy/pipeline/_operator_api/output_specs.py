"""Descriptions of outputs before a batch runs: shapes with unknown extents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.layouts import choose_layout
from dali_proxy.pipeline._operator_api.operator import OutputSpec

#: Extents of the samples of a batch along each dimension; None where the extent is unknown or varies.
Extents = tuple[int | None, ...]


def describe(layout: str, extents: Sequence[int | None] | None, dtype: np.dtype[Any] | None) -> OutputSpec:
    """Return the description of an output. It has a shape if all extents are known."""
    if extents is None:
        return OutputSpec(layout, None, dtype, None)
    known = [extent for extent in extents if extent is not None]
    shape = tuple(known) if len(known) == len(extents) else None
    return OutputSpec(layout, shape, dtype, tuple(extents))


def known_extents(batch: Batch, node: GraphNode, inputs: Sequence[OutputSpec], position: int = 0) -> Extents | None:
    """Return the known extents of the input at a position; None if the number of dimensions is unknown."""
    spec = inputs[position]
    if spec.shape is not None:
        return spec.shape
    if spec.extents is not None:
        return spec.extents
    value = batch.values.get(node.inputs[position])
    if value is None:
        return None
    columns = zip(*value.shape(), strict=True) if value.ndim else ()
    return tuple(column[0] if len(set(column)) == 1 else None for column in columns)


def layout_and_extents(
    batch: Batch, node: GraphNode, inputs: Sequence[OutputSpec], allowed: Sequence[str]
) -> tuple[str, Extents | None]:
    """Return the layout with which an operator reads its first input, one of those allowed, and the known extents.

    Raises:
        ArgumentValueError: the operator doesn't accept the layout or the number of dimensions.
    """
    known = known_extents(batch, node, inputs)
    return choose_layout(inputs[0].layout, None if known is None else len(known), allowed), known


def unknown_extents(batch: Batch, node: GraphNode, inputs: Sequence[OutputSpec]) -> Extents | None:
    """Return unknown extents for each dimension of the first input; None if their number is unknown, too."""
    known = known_extents(batch, node, inputs)
    return None if known is None else (None,) * len(known)
