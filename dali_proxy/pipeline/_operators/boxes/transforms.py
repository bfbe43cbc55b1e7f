"""Affine transforms as data: matrices of shape (n, n + 1) that can be combined and passed to `warp_affine`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import (
    REQUIRED,
    Argument,
    Input,
    Kind,
    OperatorSchema,
    Role,
    declare_operator,
    implements,
)
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import affine
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.batch import ArgumentCache, Batch
from dali_proxy.pipeline._operator_api.operator import BatchOperator, Setup
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

#: Largest number of dimensions of a transform.
MAX_NDIM = 6

_REVERSE = Argument("reverse_order", Kind.BOOL, "Apply the input's transform after this one, not before it.", False)
_CENTER = Argument(
    "center", Kind.FLOATS, "Point that the transform doesn't move; the origin by default.", per_sample=True
)


def _declare(name: str, doc: str, *arguments: Argument) -> OperatorSchema:
    doc += "\n\nWith an input, the result applies the input's transform first, then this one."
    matrix = Input("input", "Matrices, float32 of shape (n, n + 1), or sequences of them with the layout F**.", True)
    return declare_operator(f"transforms.{name}", doc, (matrix,), (*arguments, _REVERSE), role=Role.TRANSFORM)


TRANSLATION = _declare(
    "translation",
    "Returns a transform that moves points.",
    Argument("offset", Kind.FLOATS, "Distances, one per dimension.", REQUIRED, per_sample=True),
)
ROTATION = _declare(
    "rotation",
    "Returns a transform that rotates points: from x to y in the plane, about an axis in space.",
    Argument("angle", Kind.FLOAT, "Angle in degrees.", REQUIRED, per_sample=True),
    Argument("axis", Kind.FLOATS, "Rotation axis in space: x, y and z, not all zero.", per_sample=True),
    _CENTER,
)
SCALE = _declare(
    "scale",
    "Returns a transform that multiplies coordinates.",
    Argument("scale", Kind.FLOATS, "Factors, one per dimension.", REQUIRED, per_sample=True),
    _CENTER,
    Argument("ndim", Kind.INT, "Number of dimensions, for a single factor without an input."),
)
SHEAR = _declare(
    "shear",
    "Returns a transform that shears: it adds multiples of the other coordinates to each coordinate.",
    Argument("shear", Kind.FLOATS, "Factors: xy, yx; in space xy, xz, yx, yz, zx, zy.", per_sample=True),
    Argument(
        "angles", Kind.FLOATS, "Alternative to `shear`: degrees, whose tangents are the factors.", per_sample=True
    ),
    _CENTER,
)
CROP = _declare(
    "crop",
    "Returns a transform that maps one box to another, for example a window to the whole image.",
    Argument("from_start", Kind.FLOATS, "Lower corner of the first box.", (0.0,), per_sample=True),
    Argument("from_end", Kind.FLOATS, "Upper corner of the first box.", (1.0,), per_sample=True),
    Argument("to_start", Kind.FLOATS, "Lower corner of the second box.", (0.0,), per_sample=True),
    Argument("to_end", Kind.FLOATS, "Upper corner of the second box.", (1.0,), per_sample=True),
    Argument("absolute", Kind.BOOL, "Swap corners whose start is larger than their end.", False),
)
COMBINE = declare_operator(
    name="transforms.combine",
    role=Role.TRANSFORM,
    doc="Combines transforms into one that applies them in the order of the inputs.",
    inputs=(
        Input("input_0", "Matrices, float32 of shape (n, n + 1), or sequences of them with the layout F**."),
        Input("input_1", "As `input_0`."),
        Input("inputs", "Further inputs, as `input_0`.", True),
    ),
    arguments=(Argument("reverse_order", Kind.BOOL, "Apply the last transform first.", False),),
    variadic=True,
)


def _check(data: TensorListCPU) -> int:
    """Return the number of dimensions of a batch of transforms."""
    sequence = data.layout()[:1] == "F"
    shape = data.samples[0].shape
    if data.samples[0].dtype != np.float32:
        raise ArgumentValueError(f"Unexpected input data type. Expected float, got: {data.samples[0].dtype}")
    if len(shape) != 2 + sequence or shape[-1] != shape[-2] + 1:
        raise ArgumentValueError(
            "The input, if provided, is expected to be a 2D tensor with dimensions (ndim, ndim+1) representing an "
            f"affine transform. Got: shape {shape} with the layout {data.layout()!r}; sequences of transforms need the "
            "layout 'F**'"
        )
    return int(shape[-2])


def _compose(outer: TensorListCPU, inner: TensorListCPU) -> TensorListCPU:
    """Return the transforms that apply `inner` first, then `outer`.

    A single matrix applies to each frame of a sequence.
    """
    layout = "F**" if max(outer.ndim, inner.ndim) == 3 else "**"
    after, before = outer.small_array(), inner.small_array()
    if after is not None and before is not None:
        if outer.ndim != inner.ndim:
            after, before = (array[:, None] if array.ndim == 3 else array for array in (after, before))
        return TensorListCPU(affine.compose(after, before), layout)
    pairs = zip(outer.samples, inner.samples, strict=True)
    return TensorListCPU([affine.compose(last, first) for last, first in pairs], layout)


class _Transform(BatchOperator):
    """Computes one matrix per sample and composes it with that of the input."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._matrices = ArgumentCache(node, lambda batch, ndim: self.matrices(batch.arguments(node), ndim))

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        input_ndim = _check(inputs[0]) if inputs else None
        matrices = self._matrices.get(batch, input_ndim)
        ndim = matrices.shape[1]
        if not 1 <= ndim <= MAX_NDIM:
            raise ArgumentValueError(f"a transform must have 1 to {MAX_NDIM} dimensions, not {ndim}")
        transforms = TensorListCPU(matrices.astype(np.float32), "**")
        if input_ndim is None:
            return [transforms]
        if input_ndim != ndim:
            raise ArgumentValueError(
                f"The input describes a {input_ndim}D transform but other arguments suggest a {ndim}D transform"
            )
        order = (inputs[0], transforms) if self.node.argument("reverse_order") else (transforms, inputs[0])
        return [_compose(*order)]

    @abstractmethod
    def matrices(self, arguments: Arguments, input_ndim: int | None) -> Array:
        """Return the matrices (N, n, n + 1); those of the input, if there are any, have `input_ndim` dimensions."""


def _centered(arguments: Arguments, matrices: Array) -> Array:
    center = arguments.optional(arguments.vectors, "center", matrices.shape[1])
    return matrices if center is None else affine.about(matrices, center)


@implements(TRANSLATION, "cpu")
class Translation(_Transform):
    """Translation by `offset`."""

    def matrices(self, arguments: Arguments, input_ndim: int | None) -> Array:
        return affine.translation(arguments.vectors("offset"))


@implements(ROTATION, "cpu")
class Rotation(_Transform):
    """Rotation by `angle`."""

    def matrices(self, arguments: Arguments, input_ndim: int | None) -> Array:
        return _centered(arguments, affine.rotation(arguments.vectors("angle", 1)[:, 0], rotation_axis(arguments)))


def rotation_axis(arguments: Arguments) -> Array | None:
    """Return the axes of rotations in space, (N, 3), or None for rotations in the plane.

    Raises:
        ArgumentValueError: An axis has length zero, or not three values.
    """
    axis = arguments.optional(arguments.vectors, "axis", 3)
    if axis is not None and not axis.any(axis=1).all():
        raise ArgumentValueError("argument 'axis' must not have length zero")
    return axis


@implements(SCALE, "cpu")
class Scale(_Transform):
    """Scaling by `scale`."""

    def matrices(self, arguments: Arguments, input_ndim: int | None) -> Array:
        factors = arguments.vectors("scale")
        if factors.shape[1] == 1:
            factors = arguments.vectors("scale", input_ndim or arguments.constant("ndim") or 1)
        return _centered(arguments, affine.scaling(factors))


@implements(SHEAR, "cpu")
class Shear(_Transform):
    """Shearing by `shear` or `angles`."""

    def matrices(self, arguments: Arguments, input_ndim: int | None) -> Array:
        if arguments.given("shear") == arguments.given("angles"):
            raise ArgumentValueError("One and only one of the following arguments is expected: ``shear`` or ``angles``")
        if arguments.given("shear"):
            factors = arguments.vectors("shear")
        else:
            angles = arguments.vectors("angles")
            if (np.abs(angles) > 90).any():
                raise ArgumentValueError(f"argument 'angles' must be between -90 and 90 degrees, not {angles.tolist()}")
            factors = np.tan(np.deg2rad(angles.astype(np.float32)))
        ndim = {2: 2, 6: 3}.get(factors.shape[1])
        if ndim is None:
            raise ArgumentValueError(
                "Shear matrix must have D*(D-1) elements where D is the number of dimensions. Got "
                f"{factors.shape[1]} elements."
            )
        return _centered(arguments, affine.shearing(factors.astype(np.float64), ndim))


@implements(CROP, "cpu")
class Crop(_Transform):
    """Maps one box to another."""

    def matrices(self, arguments: Arguments, input_ndim: int | None) -> Array:
        names = ("from_start", "from_end", "to_start", "to_end")
        ndim = max(arguments.vectors(name).shape[1] for name in names)
        begin, end, to_begin, to_end = (arguments.vectors(name, ndim) for name in names)
        if arguments.constant("absolute"):
            begin, end = np.minimum(begin, end), np.maximum(begin, end)
            to_begin, to_end = np.minimum(to_begin, to_end), np.maximum(to_begin, to_end)
        return affine.mapping(begin, end, to_begin, to_end)


@implements(COMBINE, "cpu")
class Combine(BatchOperator):
    """Multiplies matrices."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        ndims = [_check(data) for data in inputs]
        if len(set(ndims)) > 1:
            raise ArgumentValueError(f"the transforms have different numbers of dimensions: {ndims}")
        order = reversed(inputs) if self.node.argument("reverse_order") else inputs
        return [reduce(lambda inner, outer: _compose(outer, inner), order)]
