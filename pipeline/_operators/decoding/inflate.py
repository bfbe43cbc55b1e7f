"""`decoders.inflate`: arrays from compressed data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import REQUIRED, Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from pipeline._operator_api.output_specs import describe
from pipeline._optional import optional_package
from pipeline.errors import ArgumentValueError, DecodeError
from pipeline.tensors.cpu import Array
from pipeline.types import UINT8, to_numpy_type

__all__ = ["INFLATE"]

INFLATE = register(
    OperatorSchema(
        name="decoders.inflate",
        doc="""Decompresses arrays.

A sample is one compressed block, or several blocks of arrays with the same shape and dtype: then `chunk_offsets` or
`chunk_sizes` is required, and the output has the blocks along a new first dimension. The missing end of an array is
filled with zeros.""",
        inputs=(Input("data", "Compressed data, 1-D uint8."),),
        arguments=(
            Argument("shape", Kind.INTS, "Shape of an array.", REQUIRED, per_sample=True),
            Argument("dtype", Kind.DTYPE, "Dtype of the arrays.", UINT8),
            Argument("layout", Kind.LAYOUT, "Layout of an array.", ""),
            Argument(
                "sequence_axis_name", Kind.LAYOUT, "Letter of the dimension of the blocks, put before `layout`.", "F"
            ),
            Argument(
                "chunk_offsets",
                Kind.INTS,
                "Start of each block; without `chunk_sizes`, a block ends where the next one begins.",
                None,
                per_sample=True,
            ),
            Argument(
                "chunk_sizes",
                Kind.INTS,
                "Size of each block; without `chunk_offsets`, a block begins where the previous one ends.",
                None,
                per_sample=True,
            ),
            Argument("algorithm", Kind.STRING, "Format of the blocks: LZ4, without a frame.", "LZ4"),
            Argument("check_output_size", Kind.BOOL, "Accepted for compatibility; sizes are always checked.", False),
        ),
    )
)


@dataclass(frozen=True)
class _State:
    """Arguments of the samples; None for arguments that aren't given."""

    shapes: Sequence[Array]
    offsets: Sequence[Array] | None
    sizes: Sequence[Array] | None

    def chunks(self, sample: int, total: int) -> list[tuple[int, int]]:
        """Return the bounds of the blocks of a sample.

        Raises:
            ArgumentValueError: they aren't in the sample.
        """
        offsets = None if self.offsets is None else self.offsets[sample].tolist()
        sizes = None if self.sizes is None else self.sizes[sample].tolist()
        if offsets is None and sizes is None:
            return [(0, total)]
        bounds: list[tuple[int, int]]
        if offsets is None:
            assert sizes is not None
            ends = np.cumsum(sizes, dtype=np.int64).tolist()
            bounds = [(end - size, end) for size, end in zip(sizes, ends, strict=True)]
        elif sizes is None:
            bounds = list(zip(offsets, [*offsets[1:], total] if offsets else [], strict=True))
        elif len(sizes) == len(offsets):
            bounds = [(offset, offset + size) for offset, size in zip(offsets, sizes, strict=True)]
        else:
            raise ArgumentValueError(f"there are {len(offsets)} 'chunk_offsets', but {len(sizes)} 'chunk_sizes'")
        for start, end in bounds:
            if not 0 <= start < end <= total:
                raise ArgumentValueError(
                    f"a block from byte {start} to {end} isn't in the sample, which has {total} bytes, or is empty"
                )
        return bounds


@implements(INFLATE, "cpu")
class Inflate(SampleOperator[_State]):
    """Decompresses blocks with liblz4."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        argument = node.argument
        if argument("algorithm").upper() != "LZ4":
            raise ArgumentValueError(f"Unknown inflate algorithm {argument('algorithm')!r}: only LZ4 is supported")
        if len(argument("sequence_axis_name")) != 1:
            raise ArgumentValueError(
                f"argument 'sequence_axis_name' must be a single character, not {argument('sequence_axis_name')!r}"
            )
        self._dtype = to_numpy_type(argument("dtype"))
        self._block = optional_package("lz4.block", "decompressing LZ4", "lz4")

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        arguments = batch.arguments(self.node)
        shapes = arguments.arrays("shape", np.int64)
        assert shapes is not None
        state = _State(shapes, arguments.rows("chunk_offsets", np.int64), arguments.rows("chunk_sizes", np.int64))
        layout = self.node.argument("layout")
        if layout and (state.offsets is not None or state.sizes is not None):
            layout = self.node.argument("sequence_axis_name") + layout
        return state, [describe(layout, None, self._dtype)]

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        if data.ndim != 1 or data.dtype != np.uint8:
            raise ArgumentValueError(f"the samples must be 1-D uint8, not {data.dtype} of shape {data.shape}")
        shape = state.shapes[sample]
        if shape.ndim > 1 or (shape < 0).any():
            raise ArgumentValueError(f"The shape argument must be a number or a list of extents, not {shape.tolist()}")
        extents = tuple(shape.reshape(-1).tolist())
        layout = self.node.argument("layout")
        if layout and len(layout) != len(extents):
            raise ArgumentValueError(f"the layout {layout!r} doesn't have the {len(extents)} dimensions of the shape")
        bounds = state.chunks(sample, len(data))
        result = np.zeros((len(bounds), *extents), self._dtype)
        flat = result.reshape(len(bounds), math.prod(extents))
        for target, (start, end) in zip(flat, bounds, strict=True):
            self._decompress(data[start:end], target.view(np.uint8))
        return result[0] if state.offsets is None and state.sizes is None else result

    def _decompress(self, block: Array, target: Array) -> None:
        try:
            content: Any = self._block.decompress(block.data, uncompressed_size=max(1, target.size))
        except (self._block.LZ4BlockError, ValueError) as error:
            raise DecodeError(
                f"a block of {block.size} bytes isn't LZ4, or contains more than {target.size} bytes: {error}"
            ) from error
        if len(content) > target.size:
            raise DecodeError(f"a block contains {len(content)} bytes, but its array has {target.size}")
        target[: len(content)] = np.frombuffer(content, np.uint8)
