"""`reshape` and `reinterpret`: other shapes and layouts for samples, and another dtype for their bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operators.arrays.views import DATA, SampleViews, returns_views
from dali_proxy.pipeline._operators.geometry.windows import round_half_away
from dali_proxy.pipeline.errors import ArgumentValueError

SHAPE_INPUT = Input(
    "shape_input", "Shapes, instead of `shape`: 1-D integers on the CPU.", optional=True, any_device=True
)
SHAPE_ARGUMENTS = (
    Argument("shape", Kind.INTS, "Shape of the output. One extent may be negative: it is inferred.", per_sample=True),
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

RESHAPE = declare_operator(
    name="reshape",
    doc="Changes the shape and layout of samples. The order of their elements stays the same.",
    inputs=(DATA, SHAPE_INPUT),
    arguments=SHAPE_ARGUMENTS,
    devices=("cpu", "gpu"),
)
REINTERPRET = declare_operator(
    name="reinterpret",
    doc="Reinterprets the bytes of samples as another dtype, and changes their shape and layout.",
    inputs=(DATA, SHAPE_INPUT),
    arguments=(
        Argument("dtype", Kind.DTYPE, "Dtype of the output. Without a shape, the last extent is adapted to it."),
        *SHAPE_ARGUMENTS,
    ),
    devices=("cpu", "gpu"),
)


@returns_views(RESHAPE)
@returns_views(REINTERPRET)
class _Reshaped(SampleViews):
    """Computes the new shapes and layout from the arguments, or the shapes from the second input."""

    def __init__(self, node: GraphNode, batch: Batch, layout: str) -> None:
        super().__init__(node, batch, layout)
        self._new_layout: str | None = node.argument("layout")
        input_shapes = batch.values[node.inputs[1]].as_cpu().samples if len(node.inputs) > 1 else None
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

    def layout(self, ndim: int) -> str:
        if self._new_layout is None:
            return self._layout if len(self._layout) == ndim else ""
        if len(self._new_layout) not in (0, ndim):
            hint = "; an encoded image, such as a JPEG, must be decoded first" if ndim == 1 else ""
            raise ArgumentValueError(
                f"Requested layout {self._new_layout!r} is not compatible with a {ndim}D shape{hint}"
            )
        return self._new_layout

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
