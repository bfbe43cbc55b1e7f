"""Shapes that users give: as numbers, as factors of the input's extents, in another order of its dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pipeline._declaration.schema import Argument, Input, Kind
from pipeline._graph.graph import GraphNode
from pipeline._operator_api.batch import Batch
from pipeline._operators.geometry.windows import round_half_away
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array

__all__ = ["SHAPE_ARGUMENTS", "SHAPE_INPUT", "Shapes"]

SHAPE_INPUT = Input("shape_input", "The same as `shape`: 1-D integers on the CPU.", optional=True, any_device=True)
SHAPE_ARGUMENTS = (
    Argument("shape", Kind.INTS, "The shape. One extent may be negative: it is what the size leaves.", per_sample=True),
    Argument(
        "rel_shape",
        Kind.FLOATS,
        "Factors of the input's extents instead. One may be negative, as in `shape`, also one past the last extent.",
        per_sample=True,
    ),
    Argument(
        "src_dims",
        Kind.INTS,
        "Which of the input's dimensions stands at each place, -1 for a new one of extent 1; `rel_shape` comes on top.",
        per_sample=True,
    ),
    Argument("layout", Kind.LAYOUT, "Layout of the output; by default the input's, where it has as many dimensions."),
)


class Shapes:
    """Shapes of the samples of one batch.

    Args:
        node: the operator.
        batch: with its arguments.
        given: shapes from an input, or None.

    Raises:
        ArgumentValueError: for arguments that don't go together, or say nothing.
    """

    def __init__(self, node: GraphNode, batch: Batch, given: Sequence[Array] | None) -> None:
        arguments = batch.arguments(node)
        named = [name for name in ("shape", "rel_shape") if arguments.given(name)]
        if len(named) + (given is not None) > 1:
            raise ArgumentValueError("only one of the shape input, 'shape' and 'rel_shape' can be given")
        said = given is not None or named or any(arguments.given(name) for name in ("src_dims", "layout"))
        if not said and node.argument("dtype") is None:
            raise ArgumentValueError("the call has no effect: pass a shape, a layout or a dtype")
        if given is not None and given[0].dtype.kind not in "iu":
            raise ArgumentValueError(f"the shape input must be integers, not {given[0].dtype}")
        self._shape = given if given is not None else arguments.rows("shape", np.int64)
        self._factors = arguments.rows("rel_shape", np.float64)
        self._order = arguments.rows("src_dims", np.int64)

    def of(self, sample: int, extents: Sequence[int], itemsize: int, new_itemsize: int) -> list[int]:
        """Return the shape of a sample of the output.

        Args:
            sample: number of the sample.
            extents: of the input.
            itemsize: bytes of its elements.
            new_itemsize: bytes of the output's.

        Raises:
            ArgumentValueError: when the arguments give no shape for it.
        """
        nbytes = math.prod(extents) * itemsize
        if self._shape is not None:
            return _fill(self._shape[sample].ravel().tolist(), nbytes // new_itemsize)
        made = self._ordered(sample, extents)
        if self._factors is not None:
            return _fill(self._scaled(self._factors[sample].tolist(), made), nbytes // new_itemsize)
        if itemsize != new_itemsize:
            if not made or made[-1] * itemsize % new_itemsize:
                raise ArgumentValueError(
                    f"the last extent of shape {tuple(made)}, of {itemsize} bytes each, isn't a multiple of "
                    f"{new_itemsize} bytes: pass a shape"
                )
            made[-1] = made[-1] * itemsize // new_itemsize
        return made

    def _ordered(self, sample: int, extents: Sequence[int]) -> list[int]:
        if self._order is None:
            return list(extents)
        order = self._order[sample].tolist()
        for axis in order:
            if not -1 <= axis < len(extents):
                raise ArgumentValueError(f"'src_dims' has {axis}: it must be -1, or less than {len(extents)}")
        return [1 if axis == -1 else extents[axis] for axis in order]

    def _scaled(self, factors: Sequence[float], extents: Sequence[int]) -> list[int]:
        if not factors:
            raise ArgumentValueError("argument 'rel_shape' is empty")
        past = len(factors) == len(extents) + 1 and factors[-1] < 0 and self._order is None
        if (len(factors) > len(extents) and not past) or (self._order is not None and len(factors) != len(extents)):
            raise ArgumentValueError(f"'rel_shape' has {len(factors)} values for {len(extents)} dimensions")
        return [
            -1 if factor < 0 else round_half_away(factor * extent)
            for factor, extent in zip(factors, [*extents, 1], strict=False)
        ]


def _fill(extents: list[int], size: int) -> list[int]:
    """Replace the one negative extent by what the size leaves."""
    negative = [axis for axis, extent in enumerate(extents) if extent < 0]
    if len(negative) > 1:
        raise ArgumentValueError(f"only one extent of {extents} may be negative")
    if negative:
        rest = math.prod([extent for extent in extents if extent >= 0])
        extents[negative[0]] = size // rest if rest else 0
    return extents
