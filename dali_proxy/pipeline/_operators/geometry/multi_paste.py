"""Pastes regions of several images onto one canvas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import Edge, GraphNode
from dali_proxy.pipeline._imaging import convert
from dali_proxy.pipeline._kernels.paste_regions import REGION, plan_paste_regions
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import (
    GpuOperator,
    allocate,
    as_pipeline_error,
    each_sample,
    fail,
    samples_of,
)
from dali_proxy.pipeline._operator_api.layouts import choose_layout
from dali_proxy.pipeline._operator_api.operator import BatchOperator
from dali_proxy.pipeline._operator_api.output_dtype import output_dtype
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

_PAIRS = "a row (y, x) for each region"
#: Two numbers, along y and x.
_Pair = Sequence[int]
_EXCLUSIVE = ("in_anchors", "shapes", "out_anchors")


def _positions(name: str, doc: str) -> tuple[Argument, Argument]:
    """Return an argument in pixels, and the same in fractions."""
    return (
        Argument(name, Kind.INTS, f"{doc}, in pixels: {_PAIRS}.", None, per_sample=True),
        Argument(f"{name}_rel", Kind.FLOATS, f"`{name}` as fractions of the extents, from 0 to 1.", None, True),
    )


def _check_arguments(node: GraphNode) -> None:
    names = {*node.arguments, *node.argument_inputs}
    for name in _EXCLUSIVE:
        if {name, f"{name}_rel"} <= names:
            raise ArgumentValueError(f"arguments {name!r} and '{name}_rel' can't be used together")
    if "in_ids" in names and len(node.inputs) > 1:
        raise ArgumentValueError(f"argument 'in_ids' needs one input, but there are {len(node.inputs)}")


MULTI_PASTE = declare_operator(
    name="multi_paste",
    doc="""Pastes regions of images onto a canvas, one after the other. The rest of the canvas is 0.

Without `in_ids`, there is one region from each input. With it, each number is the position of a sample in the batch of
the only input. Regions must lie inside of their images and of the canvas.""",
    inputs=(Input("data", "Images or sequences, HWC or FHWC, all of one dtype."),),
    arguments=(
        Argument("in_ids", Kind.INTS, "Position in the batch of each region's image.", None, per_sample=True),
        *_positions("in_anchors", "First pixels of the regions; by default the first ones of the images"),
        *_positions("shapes", "Extents of the regions; by default they extend to the end of the image"),
        *_positions("out_anchors", "First pixels of the regions on the canvas; by default the canvas' first one"),
        Argument(
            "output_size",
            Kind.INTS,
            "Height and width of the canvas; by default the extents of the images, if all of them are the same.",
            None,
            per_sample=True,
        ),
        Argument("dtype", Kind.DTYPE, "Dtype of the output; by default the input's."),
    ),
    devices=("cpu", "gpu"),
    variadic=True,
    check=_check_arguments,
)


@dataclass(frozen=True)
class _Regions:
    """The regions of a batch.

    Attributes:
        images: positions of the images in the batch by sample; None: there is one image in each input.
        values: values of each argument of `_positions` by sample; None if it isn't given.
        sizes: height and width of each canvas, (N, 2), or None.
    """

    images: Sequence[Array] | None
    values: dict[str, Sequence[Array] | None]
    sizes: Array | None

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> _Regions:
        values: dict[str, Sequence[Array] | None] = {}
        for name in _EXCLUSIVE:
            values[name] = arguments.optional(arguments.rows, name, np.int64)
            values[f"{name}_rel"] = arguments.optional(arguments.rows, f"{name}_rel", np.float32)
        rows = arguments.optional(arguments.rows, "output_size", np.int64)
        three = rows is not None and all(len(row) == 3 for row in rows)  # DALI ignores the number of channels
        sizes = arguments.optional(arguments.vectors, "output_size", 3 if three else 2, np.int64)
        return cls(
            arguments.optional(arguments.rows, "in_ids", np.int64), values, None if sizes is None else sizes[:, :2]
        )

    def read(self, name: str, sample: int, count: int) -> Array | None:
        """Return an argument of a sample, (count, 2), or None if it isn't given.

        Raises:
            ArgumentValueError: It doesn't have two values for each region.
        """
        rows = self.values[name]
        if rows is None:
            return None
        if rows[sample].size != 2 * count:
            raise ArgumentValueError(
                f"Unexpected shape for argument `{name}` for output sample at index {sample}. It should be a 2D tensor "
                f"of shape `number of pasted regions` x 2, i.e. {count} x 2. It has {rows[sample].size} values"
            )
        return rows[sample].reshape(count, 2)

    def pixels(self, name: str, sample: int, extents: Sequence[_Pair]) -> Sequence[_Pair] | None:
        """Return an argument of a sample in pixels, given the extents that fractions refer to, one of each region."""
        values = self.read(name, sample, len(extents))
        if values is None:
            fractions = self.read(f"{name}_rel", sample, len(extents))
            if fractions is None:
                return None
            scaled = fractions * np.array(extents, np.float32).reshape(-1, 2)
            values = (np.ceil(scaled) if name == "shapes" else np.floor(scaled)).astype(np.int64)
        return values.tolist()

    def keys(self, size: int) -> Sequence[tuple[Any, ...]]:
        """Return a key for each sample of a batch, which is the same for samples with the same constants."""
        columns: list[Iterable[Any]] = [map(id, rows) for rows in self.values.values() if rows is not None]
        if self.sizes is not None:
            columns.append(map(tuple, self.sizes.tolist()))
        return list(zip(*columns, strict=True)) or [()] * size


@dataclass(frozen=True)
class _Canvas:
    """The canvas of a sample.

    Attributes:
        shape: shape of the canvas.
        starts: first pixels of the regions in their images.
        shapes: extents of the regions.
        targets: first pixels of the regions on the canvas.
    """

    shape: tuple[int, ...]
    starts: Sequence[_Pair]
    shapes: Sequence[_Pair]
    targets: Sequence[_Pair]


class _Paste:
    """The canvases of a batch, for inputs on any device."""

    def __init__(self, node: GraphNode, batch: Batch, inputs: Sequence[Any]) -> None:
        layouts = [choose_layout(data.layout(), data.ndim, ("HWC", "FHWC")) for data in inputs]
        self.layout = max(layouts, key=len)
        tables = [data.table() for data in inputs]
        dtypes = {str(table.dtype) for table in tables}
        if len(dtypes) > 1:
            raise ArgumentValueError(f"the inputs have different dtypes: {', '.join(sorted(dtypes))}")
        self.source = tables[0].dtype
        self.dtype = output_dtype(node) or self.source
        self._columns = [[tuple(shape) for shape in table.shapes.tolist()] for table in tables]
        self._regions = _Regions.from_arguments(batch.arguments(node))
        if self._regions.sizes is None and len({shape[-3:-1] for column in self._columns for shape in column}) > 1:
            raise ArgumentValueError("argument 'output_size' is required, because the images have different extents")
        #: Canvases by the shapes of the images and the arguments; mostly the same for all samples.
        self._known: dict[tuple[Any, ...], _Canvas] = {}
        self._keys = self._regions.keys(batch.size)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of all canvases; None if they may differ."""
        shapes = {shape for column in self._columns for shape in column}
        sizes = None if self._regions.sizes is None else set(map(tuple, self._regions.sizes.tolist()))
        if len(shapes) > 1 or (sizes is not None and len(sizes) > 1):
            return None
        (shape,) = shapes
        (size,) = sizes or (shape[-3:-1],)
        return None if min(size) < 0 else (*shape[:-3], *size, shape[-1])

    def canvas(self, sample: int) -> tuple[list[tuple[int, int]], _Canvas]:
        """Return the input, and the position in its batch, of each region's image; and the canvas of a sample.

        Raises:
            PipelineError: regions don't fit.
        """
        regions, columns = self._regions, self._columns
        if regions.images is None:
            images = [(column, sample) for column in range(len(columns))]
        else:
            images = [(0, number) for number in regions.images[sample].tolist()]
            for _, number in images:
                if not 0 <= number < len(columns[0]):
                    raise ArgumentValueError(
                        f"The `in_idx` must be in range [0, .., batch_size - 1]. Got in_idx: {number}. Input batch "
                        f"size is: {len(columns[0])}"
                    )
        shapes = [columns[column][number] for column, number in images]
        reference = shapes[0] if shapes else columns[0][sample]
        key = (*shapes, reference, *self._keys[sample])
        canvas = self._known.get(key)
        if canvas is None:
            canvas = self._known[key] = self._canvas(sample, shapes, reference)
        return images, canvas

    def _canvas(self, sample: int, shapes: Sequence[tuple[int, ...]], reference: tuple[int, ...]) -> _Canvas:
        regions = self._regions
        size = reference[-3:-1] if regions.sizes is None else tuple(regions.sizes[sample].tolist())
        if min(size) < 0:
            raise ArgumentValueError(f"argument 'output_size' can't be negative: {size}")
        channels = {shape[-1] for shape in shapes} or {reference[-1]}
        counts = {shape[0] for shape in shapes or [reference] if len(shape) == 4}
        if len(channels) > 1 or len(counts) > 1:
            raise ArgumentValueError(f"images of shapes {', '.join(map(str, shapes))} can't be pasted onto one canvas")
        # Lists: most canvases have so few regions that arrays would cost more.
        extents: list[_Pair] = [shape[-3:-1] for shape in shapes]
        canvases = [size] * len(shapes)
        starts = regions.pixels("in_anchors", sample, extents) or [(0, 0)] * len(shapes)
        sizes = regions.pixels("shapes", sample, extents) or [
            (height - y, width - x) for (height, width), (y, x) in zip(extents, starts, strict=True)
        ]
        targets = regions.pixels("out_anchors", sample, canvases) or [(0, 0)] * len(shapes)
        for name, anchors, limits in (("input", starts, extents), ("output", targets, canvases)):
            for number, (anchor, shape, extent) in enumerate(zip(anchors, sizes, limits, strict=True)):
                if all(
                    0 <= first <= first + count <= end for first, count, end in zip(anchor, shape, extent, strict=True)
                ):
                    continue
                where = "input sample" if name == "input" else "output bounds"
                first, count, end = (" x ".join(map(str, pair)) for pair in (anchor, shape, extent))
                raise PipelineError(
                    f"The pasted region must be within {where}. Got {name} anchor: {first}, pasted region shape: "
                    f"{count}, {name} shape: {end}, for the region at index {number}"
                )
        return _Canvas((*counts, *size, *channels), starts, sizes, targets)


@implements(MULTI_PASTE, "cpu")
class MultiPasteCpu(BatchOperator):
    """Composes a canvas on each thread."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        paste = _Paste(self.node, batch, inputs)
        columns = [[np.asarray(array) for array in data.samples] for data in inputs]
        results: list[Any] = [None] * batch.size
        dense = owner = None
        if paste.shape is not None:
            dense, owner = batch.allocate(Edge(self.node.index), (batch.size, *paste.shape), paste.dtype)
            results = list(dense)
        compose = partial(_compose, paste, columns, results)
        fail([(sample, as_pipeline_error(error)) for sample, error in batch.pool.run(compose, batch.size)])
        output = TensorListCPU(results if dense is None else dense, paste.layout)
        output.owner = owner
        return [output]


def _compose(paste: _Paste, columns: list[list[Array]], results: list[Any], sample: int) -> None:
    """Compose the canvas of a sample."""
    images, canvas = paste.canvas(sample)
    if results[sample] is None:
        results[sample] = np.empty(canvas.shape, paste.dtype)
    result = results[sample]
    shapes, targets, starts = canvas.shapes, canvas.targets, canvas.starts
    covers = [number for number, shape in enumerate(shapes) if tuple(shape) == canvas.shape[-3:-1]]
    if not covers:
        result[...] = 0
    for number in range(covers[-1] if covers else 0, len(shapes)):  # a region that covers the canvas hides earlier ones
        column, position = images[number]
        window = _window(result, targets[number], shapes[number])
        region = _window(columns[column][position], starts[number], shapes[number])
        whole = region if region.shape == window.shape else np.broadcast_to(region, window.shape)
        convert(whole, paste.dtype, window)


def _window(image: Array, start: _Pair, shape: _Pair) -> Array:
    (y, x), (height, width) = start, shape
    return image[..., y : y + height, x : x + width, :]


@implements(MULTI_PASTE, "gpu")
class MultiPasteGpu(GpuOperator):
    """One launch per batch: each pixel of a canvas finds the last region that contains it."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        paste, tables = _Paste(self.node, batch, inputs), [samples_of(data) for data in inputs]
        images, canvases = zip(*each_sample(paste.canvas, range(batch.size)), strict=True)
        pairs = [pair for each in images for pair in each]
        counts = np.array([len(canvas.shapes) for canvas in canvases])
        regions = np.zeros(max(1, int(counts.sum())), REGION)
        owners, positions = np.array(pairs, np.int64).reshape(-1, 2).T
        for column, table in enumerate(tables):
            (rows,) = np.nonzero(owners == column)
            regions["src"][rows] = table.pointers[positions[rows]]
            regions["strides"][rows, 4 - table.ndim :] = table.strides[positions[rows]]
        if pairs:
            regions["first"] = [pair for canvas in canvases for pair in canvas.targets]
            regions["size"] = [pair for canvas in canvases for pair in canvas.shapes]
            starts = np.array([pair for canvas in canvases for pair in canvas.starts])
            regions["src"] += (starts * regions["strides"][:, 1:3]).sum(axis=1)
        ndim = max(len(canvas.shape) for canvas in canvases)
        output, target = allocate(np.array([canvas.shape for canvas in canvases]), paste.dtype, paste.layout[-ndim:])
        self.launch(plan_paste_regions(target, regions, counts, paste.source), batch)
        return [output]
