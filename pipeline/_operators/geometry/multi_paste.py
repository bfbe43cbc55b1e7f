"""Pastes regions of several images onto one canvas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._imaging import convert
from pipeline._operator_api.arguments import Arguments
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import as_pipeline_error, fail
from pipeline._operator_api.layouts import choose_layout
from pipeline._operator_api.operator import BatchOperator, Setup
from pipeline._operator_api.output_dtype import output_dtype
from pipeline.errors import ArgumentValueError, PipelineError
from pipeline.tensors.cpu import Array, TensorListCPU

__all__ = ["MULTI_PASTE"]

_PAIRS = "a row (y, x) for each region"
_EXCLUSIVE = ("in_anchors", "shapes", "out_anchors")


def _positions(name: str, doc: str) -> tuple[Argument, Argument]:
    """Return an argument in pixels, and the same in fractions."""
    return (
        Argument(name, Kind.INTS, f"{doc}, in pixels: {_PAIRS}.", None, per_sample=True),
        Argument(f"{name}_rel", Kind.FLOATS, f"`{name}` as fractions of the extents, from 0 to 1.", None, True),
    )


MULTI_PASTE = register(
    OperatorSchema(
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
        variadic=True,
    )
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
            values[name] = arguments.rows(name, np.int64)
            values[f"{name}_rel"] = arguments.rows(f"{name}_rel", np.float32)
        return cls(arguments.rows("in_ids", np.int64), values, arguments.vectors("output_size", 2, np.int64))

    def read(self, name: str, sample: int, count: int) -> Array | None:
        """Return an argument of a sample, (count, 2), or None if it isn't given.

        Raises:
            ArgumentValueError: It doesn't have two values for each region.
        """
        rows = self.values[name]
        if rows is None:
            return None
        if rows[sample].size != 2 * count:
            raise ArgumentValueError(f"argument {name!r} needs {count} rows of 2, but has {rows[sample].size} values")
        return rows[sample].reshape(count, 2)

    def pixels(self, name: str, sample: int, extents: Array) -> Array | None:
        """Return an argument of a sample in pixels, given the extents that fractions refer to, (count, 2)."""
        values = self.read(name, sample, len(extents))
        if values is not None:
            return values
        fractions = self.read(f"{name}_rel", sample, len(extents))
        if fractions is None:
            return None
        scaled = fractions * extents.astype(np.float32)
        rounded: Array = np.ceil(scaled) if name == "shapes" else np.floor(scaled)
        return rounded.astype(np.int64)


@implements(MULTI_PASTE, "cpu")
class MultiPasteCpu(BatchOperator):
    """Composes a canvas on each thread."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        names = {*node.arguments, *node.argument_inputs}
        for name in _EXCLUSIVE:
            if {name, f"{name}_rel"} <= names:
                raise ArgumentValueError(f"arguments {name!r} and '{name}_rel' can't be used together")
        if "in_ids" in names and len(node.inputs) > 1:
            raise ArgumentValueError(f"argument 'in_ids' needs one input, but there are {len(node.inputs)}")

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        layouts = [choose_layout(data.layout(), data.ndim, ("HWC", "FHWC")) for data in inputs]
        columns = [[np.asarray(array) for array in data.samples] for data in inputs]
        dtypes = {str(column[0].dtype) for column in columns}
        if len(dtypes) > 1:
            raise ArgumentValueError(f"the inputs have different dtypes: {', '.join(sorted(dtypes))}")
        regions = _Regions.from_arguments(batch.arguments(self.node))
        if regions.sizes is None and len({image.shape[-3:-1] for column in columns for image in column}) > 1:
            raise ArgumentValueError("argument 'output_size' is required, because the images have different extents")
        dtype = output_dtype(self.node) or columns[0][0].dtype
        results: list[Any] = [None] * batch.size
        paste = partial(_paste, regions, columns, dtype, results)
        fail([(sample, as_pipeline_error(error)) for sample, error in batch.pool.run(paste, batch.size)])
        return [TensorListCPU(results, max(layouts, key=len))]


def _paste(
    regions: _Regions, columns: list[list[Array]], dtype: np.dtype[Any], results: list[Any], sample: int
) -> None:
    """Compose the canvas of a sample."""
    if regions.images is None:
        images = [column[sample] for column in columns]
    else:
        numbers = regions.images[sample].tolist()
        for number in numbers:
            if not 0 <= number < len(columns[0]):
                raise ArgumentValueError(f"argument 'in_ids' has {number}, but the batch has {len(columns[0])} samples")
        images = [columns[0][number] for number in numbers]
    reference = images[0] if images else columns[0][sample]
    size = reference.shape[-3:-1] if regions.sizes is None else tuple(regions.sizes[sample].tolist())
    if min(size) < 0:
        raise ArgumentValueError(f"argument 'output_size' can't be negative: {size}")
    channels = {image.shape[-1] for image in images} or {reference.shape[-1]}
    counts = {len(image) for image in images if image.ndim == 4} or ({len(reference)} if reference.ndim == 4 else set())
    if len(channels) > 1 or len(counts) > 1:
        raise ArgumentValueError(
            f"images of shapes {', '.join(str(image.shape) for image in images)} can't be pasted onto one canvas"
        )
    extents = np.array([image.shape[-3:-1] for image in images], np.int64).reshape(-1, 2)
    zeros = np.zeros_like(extents)
    canvas = np.zeros((*counts, *size, *channels), dtype)
    starts = regions.pixels("in_anchors", sample, extents)
    starts = zeros if starts is None else starts
    shapes = regions.pixels("shapes", sample, extents)
    shapes = extents - starts if shapes is None else shapes
    targets = regions.pixels("out_anchors", sample, zeros + np.array(size))
    targets = zeros if targets is None else targets
    for name, first, limits in (("image", starts, extents), ("canvas", targets, zeros + np.array(size))):
        wrong = ((first < 0) | (shapes < 0) | (first + shapes > limits)).any(axis=1)
        if wrong.any():
            number = int(np.argmax(wrong))
            raise PipelineError(
                f"region {number} from {tuple(first[number].tolist())} of shape {tuple(shapes[number].tolist())} "
                f"exceeds the {name}, whose extents are {tuple(limits[number].tolist())}"
            )
    for image, source, shape, target in zip(images, starts.tolist(), shapes.tolist(), targets.tolist(), strict=True):
        region = _window(image, source, shape)
        window = _window(canvas, target, shape)
        convert(np.broadcast_to(region, window.shape), dtype, window)
    results[sample] = canvas


def _window(image: Array, start: list[int], shape: list[int]) -> Array:
    (y, x), (height, width) = start, shape
    return image[..., y : y + height, x : x + width, :]
