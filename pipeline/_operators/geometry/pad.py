"""Pads samples to the extents of the largest of the batch, to given extents, or to multiples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._kernels import strided_copy
from pipeline._operator_api.arguments import Arguments
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import GpuOperator, allocate, samples_of, shape_table
from pipeline._operator_api.operator import BatchOperator
from pipeline._operators.geometry.windows import cut
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array, TensorListCPU

__all__ = ["PAD", "fill_in_units"]

PAD = register(
    OperatorSchema(
        name="pad",
        doc="""Pads samples behind their end, along chosen axes.

An axis gets the extent of the batch's largest sample, or the one that `shape` says, and at least its own.""",
        inputs=(Input("data", "Samples of any shape."),),
        arguments=(
            Argument("fill_value", Kind.FLOAT, "What stands in the padding.", 0.0, per_sample=True),
            Argument("axes", Kind.INTS, "Axes to pad; all by default. Negative ones count from the end.", (), True),
            Argument("axis_names", Kind.LAYOUT, "Instead of `axes`: letters of the layout."),
            Argument("shape", Kind.INTS, "Extents along these axes; -1 for the largest of the batch.", None, True),
            Argument("align", Kind.INTS, "Extents become multiples of these, one or one an axis.", None, True),
        ),
        devices=("cpu", "gpu"),
    )
)


def _axes(arguments: Arguments, batch_size: int, layout: str, ndim: int) -> list[list[int]]:
    """Return the axes to pad, by sample."""
    if not ndim:
        raise ArgumentValueError("samples without dimensions can't be padded")
    names = arguments.constant("axis_names")
    rows = arguments.rows("axes", np.int64) or []
    if names:
        if arguments.given("axes"):
            raise ArgumentValueError("arguments 'axes' and 'axis_names' can't be used together")
        for letter in names:
            if letter not in layout:
                raise ArgumentValueError(f"the layout {layout!r} has no axis {letter!r}")
        rows = [np.array([layout.index(letter) for letter in names])] * batch_size
    found = [[axis + ndim if axis < 0 else axis for axis in row.tolist()] or list(range(ndim)) for row in rows]
    for row in found:
        if any(not 0 <= axis < ndim for axis in row) or len(set(row)) < len(row):
            raise ArgumentValueError(f"the axes {row} must be a subset of 0 to {ndim - 1} without repetitions")
    return found


def padded_shapes(arguments: Arguments, shapes: npt.NDArray[np.int64], layout: str) -> npt.NDArray[np.int64]:
    """Return the shapes that samples are padded to.

    Args:
        arguments: of the batch.
        shapes: (N, ndim), of the samples.
        layout: of the samples.

    Raises:
        ArgumentValueError: for axes that are not there, and arguments of a wrong length.
    """
    count, ndim = shapes.shape
    largest = shapes.max(axis=0)
    padded: npt.NDArray[np.int64] = shapes.copy()
    wanted, aligned = arguments.rows("shape", np.int64), arguments.rows("align", np.int64)
    for sample, axes in enumerate(_axes(arguments, count, layout, ndim)):
        extents = largest[axes]
        if wanted is not None and len(wanted[sample]):
            given = _fit("shape", wanted[sample], len(axes))
            extents = np.where(given > 0, np.maximum(given, shapes[sample, axes]), extents)
        if aligned is not None and len(aligned[sample]):
            align = _fit("align", aligned[sample], len(axes))
            if (align <= 0).any():
                raise ArgumentValueError(f"argument 'align' must be positive: {align.tolist()}")
            extents = -(-extents // align) * align
        padded[sample, axes] = extents
    return padded


def _fit(name: str, row: Array, length: int) -> Array:
    if len(row) not in (1, length):
        raise ArgumentValueError(f"argument {name!r} needs {length} values, one for each axis, but has {len(row)}")
    return row  # one value broadcasts


def fill_in_units(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return fill values as samples hold them, still as float64: integers toward zero, bool as 0 and 1."""
    if dtype.kind == "b":
        values = values != 0
    elif dtype.kind in "iu":
        values = np.trunc(values)
    return values.astype(np.float64)


@dataclass(frozen=True)
class _Plan:
    shapes: npt.NDArray[np.int64]
    fill: Array

    @classmethod
    def of(cls, arguments: Arguments, shapes: npt.NDArray[np.int64], layout: str) -> _Plan:
        fill = arguments.scalars("fill_value", np.float32)
        assert fill is not None
        return cls(padded_shapes(arguments, shapes, layout), fill.astype(np.float64))


@implements(PAD, "cpu")
class PadCpu(BatchOperator):
    """A sample on each thread; needs the whole batch, to know its largest sample."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        shapes = np.array(data.shape(), np.int64).reshape(len(data), data.ndim)
        plan = _Plan.of(batch.arguments(self.node), shapes, data.layout())
        samples, origin = data.samples, [0] * data.ndim
        dense = bool((plan.shapes == plan.shapes[0]).all())
        made: Any = (
            np.empty((len(samples), *plan.shapes[0].tolist()), samples[0].dtype) if dense else [None] * len(samples)
        )

        def pad(sample: int) -> None:
            made[sample] = cut(
                samples[sample],
                origin,
                plan.shapes[sample].tolist(),
                policy="pad",
                fill=(float(plan.fill[sample]),),
                out=made[sample] if dense else None,
            )

        errors = batch.pool.run(pad, len(samples))
        if errors:
            raise errors[0][1]
        return [TensorListCPU(made, data.layout())]


@implements(PAD, "gpu")
class PadGpu(GpuOperator):
    """One launch a batch."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        plan = _Plan.of(batch.arguments(self.node), shape_table(data), data.layout())
        source = samples_of(data)
        made, target = allocate(plan.shapes, source.dtype, data.layout())
        fill = fill_in_units(plan.fill, source.dtype)[:, None]
        strided_copy(self.kernels, batch.stream, source, target, fill=fill)
        return [made]
