"""The arguments of `reshape` and `reinterpret`, and the shapes that they give."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operators.geometry.windows import round_half_away
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array

SHAPE_INPUT = Input(
    "shape_input", "Shapes, instead of `shape`: 1-D integers on the CPU.", optional=True, any_device=True
)
SHAPE_ARGUMENTS = (
    Argument(
        "shape",
        Kind.INTS,
        "Shape of the output. One extent may be negative: it is inferred.",
        per_sample=True,
    ),
    Argument(
        "rel_shape",
        Kind.FLOATS,
        "Factors of the input's extents, instead of `shape`. One factor, or an additional last one, may be negative: "
        "its extent is inferred.",
        per_sample=True,
    ),
    Argument(
        "src_dims",
        Kind.INTS,
        "For each dimension of the output, the index of the input's dimension, or -1 for a new one of extent 1. "
        "`rel_shape` is applied afterwards.",
        per_sample=True,
    ),
    Argument(
        "layout", Kind.LAYOUT, "Layout of the output; by default the input's if the number of dimensions is equal."
    ),
)


class Shapes:
    """Shapes of the samples of one batch, from its arguments or from an input.

    Raises:
        ArgumentValueError: arguments can't be combined, or have no effect.
    """

    def __init__(self, node: GraphNode, batch: Batch, input_shapes: Sequence[Array] | None) -> None:
        arguments = batch.arguments(node)
        named = [name for name in ("shape", "rel_shape") if arguments.given(name)]
        if len(named) + (input_shapes is not None) > 1:
            raise ArgumentValueError("Shape input, `shape` argument and `rel_shape` argument are mutually exclusive")
        has_effect = input_shapes is not None or named or arguments.given("src_dims") or arguments.given("layout")
        if not has_effect and node.argument("dtype") is None:
            raise ArgumentValueError(
                "the call is no-op: arguments specify neither new shape nor layout; pass a shape, a layout or a dtype"
            )
        if input_shapes is not None and input_shapes[0].dtype.kind not in "iu":
            raise ArgumentValueError(f"the shape input must be integers, not {input_shapes[0].dtype}")
        self._shape = (
            input_shapes if input_shapes is not None else arguments.optional(arguments.rows, "shape", np.int64)
        )
        self._factors = arguments.optional(arguments.rows, "rel_shape", np.float64)
        self._order = arguments.optional(arguments.rows, "src_dims", np.int64)

    def shape(self, sample: int, extents: Sequence[int], itemsize: int, new_itemsize: int) -> list[int]:
        """Return the shape of a sample of the output; item sizes are in bytes.

        Raises:
            ArgumentValueError: the arguments don't give a shape for this sample.
        """
        nbytes = math.prod(extents) * itemsize
        if self._shape is not None:
            return _infer(self._shape[sample].ravel().tolist(), nbytes // new_itemsize)
        shape = self._ordered(sample, extents)
        if self._factors is not None:
            return _infer(self._scaled(self._factors[sample].tolist(), shape), nbytes // new_itemsize)
        if itemsize != new_itemsize:
            if not shape or shape[-1] * itemsize % new_itemsize:
                raise ArgumentValueError(
                    f"the last extent of shape {tuple(shape)}, of {itemsize} bytes each, isn't a multiple of "
                    f"{new_itemsize} bytes: pass a shape"
                )
            shape[-1] = shape[-1] * itemsize // new_itemsize
        return shape

    def _ordered(self, sample: int, extents: Sequence[int]) -> list[int]:
        if self._order is None:
            return list(extents)
        order = self._order[sample].tolist()
        for axis in order:
            if not -1 <= axis < len(extents):
                raise ArgumentValueError(
                    f"`src_dims` has {axis}, which is out of bounds. The indices in `src_dims` should be either valid "
                    f"dimension indices in range [0..{len(extents) - 1}] or -1 to insert a new dimension."
                )
        return [1 if axis == -1 else extents[axis] for axis in order]

    def _scaled(self, factors: Sequence[float], extents: Sequence[int]) -> list[int]:
        if not factors:
            raise ArgumentValueError("argument 'rel_shape' is empty")
        added = len(factors) == len(extents) + 1 and factors[-1] < 0 and self._order is None
        if (len(factors) > len(extents) and not added) or (self._order is not None and len(factors) != len(extents)):
            raise ArgumentValueError(
                f"`src_dims` and `rel_shape` have different lengths: {len(extents)} vs {len(factors)}"
                if self._order is not None
                else f"`rel_shape` has more elements ({len(factors)}) than there are dimensions in the input "
                f"({len(extents)}). To add new dimensions, use `src_dims` to specify the mapping between input and "
                "output "
                "dimensions."
            )
        return [
            -1 if factor < 0 else round_half_away(factor * extent)
            for factor, extent in zip(factors, [*extents, 1], strict=False)
        ]


def _infer(extents: list[int], size: int) -> list[int]:
    """Replace the negative extent by the extent that gives the size."""
    negative = [axis for axis, extent in enumerate(extents) if extent < 0]
    if len(negative) > 1:
        raise ArgumentValueError(f"Only one negative extent is allowed; got: {extents}")
    if negative:
        rest = math.prod([extent for extent in extents if extent >= 0])
        extents[negative[0]] = size // rest if rest else 0
    return extents
