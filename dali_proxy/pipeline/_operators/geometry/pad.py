"""Pads samples to the extents of the largest sample of the batch, to given extents, or to multiples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.axes import axes_by_name, check_axes
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import BatchOperator
from dali_proxy.pipeline._operators.geometry.gpu_windows import GpuWindows, WindowGpu
from dali_proxy.pipeline._operators.geometry.windows import cut
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

PAD = declare_operator(
    name="pad",
    doc="""Pads samples at their end, along chosen axes.

An axis gets the extent of the largest sample of the batch, or that of `shape` unless the sample is larger.""",
    inputs=(Input("data", "Samples of any shape."),),
    arguments=(
        Argument("fill_value", Kind.FLOAT, "Value of the padding.", 0.0, per_sample=True),
        Argument("axes", Kind.INTS, "Axes to pad; all by default. Negative ones count from the end.", (), True),
        Argument("axis_names", Kind.LAYOUT, "Alternative to `axes`: letters of the layout."),
        Argument("shape", Kind.INTS, "Extents along these axes; -1 for the largest of the batch.", None, True),
        Argument("align", Kind.INTS, "Round extents up to multiples: one for all axes or one per axis.", None, True),
    ),
    devices=("cpu", "gpu"),
)


def _axes(arguments: Arguments, batch_size: int, layout: str, ndim: int) -> list[list[int]]:
    """Return the axes to pad, by sample."""
    if not ndim:
        raise ArgumentValueError("samples without dimensions can't be padded")
    names = arguments.constant("axis_names")
    rows = arguments.optional(arguments.rows, "axes", np.int64) or []
    if names:
        if arguments.given("axes"):
            raise ArgumentValueError('"axes" and "axis_names" are mutually exclusive')
        return [list(axes_by_name(names, layout))] * batch_size
    distinct = rows if arguments.per_sample("axes") else rows[:1]
    axes = [list(check_axes(row.tolist(), ndim)) or list(range(ndim)) for row in distinct]
    return axes if arguments.per_sample("axes") else axes * batch_size


def padded_shapes(arguments: Arguments, shapes: Int64s, layout: str) -> Int64s:
    """Return the shapes that samples of `shapes` are padded to, both (N, ndim).

    Raises:
        ArgumentValueError: An axis doesn't exist, or an argument has a wrong length.
    """
    count, ndim = shapes.shape
    largest = shapes.max(axis=0)
    padded: Int64s = shapes.copy()
    minimum, aligned = (arguments.optional(arguments.rows, name, np.int64) for name in ("shape", "align"))
    all_axes = _axes(arguments, count, layout, ndim)
    uniform = all(axes == all_axes[0] for axes in all_axes) and all(
        rows is None or len({len(row) for row in rows}) == 1 for rows in (minimum, aligned)
    )
    for samples in [slice(None)] if uniform else [slice(sample, sample + 1) for sample in range(count)]:
        axes = all_axes[samples][0]
        extents = np.broadcast_to(largest[axes], (len(shapes[samples]), len(axes)))
        if minimum is not None and len(minimum[samples][0]):
            least = _fit("shape", np.array(minimum[samples]), len(axes))
            extents = np.where(least > 0, np.maximum(least, shapes[samples][:, axes]), extents)
        if aligned is not None and len(aligned[samples][0]):
            align = _fit("align", np.array(aligned[samples]), len(axes))
            wrong = (align <= 0).any(axis=1)
            if wrong.any():
                row = align[wrong][0].tolist()
                raise ArgumentValueError(f"Values of `align` argument must be positive. Got: {row}")
            extents = -(-extents // align) * align
        padded[samples, axes] = extents
    return padded


def _fit(name: str, rows: Array, length: int) -> Array:
    if rows.shape[1] not in (1, length):
        raise ArgumentValueError(
            f'Argument "{name}" expected shape {length} but got {rows.shape[1]} values: one for each axis is needed'
        )
    return rows  # one value broadcasts


def fill_in_units(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return fill values as samples of a dtype hold them, but in float64: truncated for integers, 0 or 1 for bool."""
    if dtype.kind == "b":
        values = values != 0
    elif dtype.kind in "iu":
        values = np.trunc(values)
    return values.astype(np.float64)


@dataclass(frozen=True)
class _Padding:
    shapes: Int64s
    fill: Array

    @classmethod
    def from_arguments(cls, arguments: Arguments, shapes: Int64s, layout: str) -> _Padding:
        fill = arguments.scalars("fill_value", np.float32)
        return cls(padded_shapes(arguments, shapes, layout), fill.astype(np.float64))


@implements(PAD, "cpu")
class PadCpu(BatchOperator):
    """Pads one sample per thread; needs the whole batch to determine the largest sample."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        shapes = np.array(data.shape(), np.int64).reshape(len(data), data.ndim)
        padding = _Padding.from_arguments(batch.arguments(self.node), shapes, data.layout())
        samples, origin = data.samples, [0] * data.ndim
        dense = bool((padding.shapes == padding.shapes[0]).all())
        output: Any = (
            np.empty((len(samples), *padding.shapes[0].tolist()), samples[0].dtype) if dense else [None] * len(samples)
        )

        def pad(sample: int) -> None:
            output[sample] = cut(
                samples[sample],
                origin,
                padding.shapes[sample].tolist(),
                policy="pad",
                fill=(float(padding.fill[sample]),),
                out=output[sample] if dense else None,
            )

        errors = batch.pool.run(pad, len(samples))
        if errors:
            raise errors[0][1]
        return [TensorListCPU(output, data.layout())]


@implements(PAD, "gpu")
class PadGpu(WindowGpu):
    """Cuts windows out of the samples that begin with them, and exceed them."""

    def windows(
        self, batch: Batch, layout: str, shapes: Array, dtype: np.dtype[Any], bounds: Sequence[Any]
    ) -> GpuWindows:
        padding = _Padding.from_arguments(batch.arguments(self.node), shapes, layout)
        fill = fill_in_units(padding.fill, dtype)[:, None]
        return GpuWindows(np.zeros_like(shapes), padding.shapes, "pad", fill, layout)
