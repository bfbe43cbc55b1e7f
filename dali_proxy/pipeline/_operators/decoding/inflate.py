"""`decoders.inflate`: arrays from compressed data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, Role, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._kernels.inflate import BLOCK, plan_inflate
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate, each_sample, fail, samples_of
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from dali_proxy.pipeline._operator_api.output_specs import describe
from dali_proxy.pipeline._optional import optional_package
from dali_proxy.pipeline._size_limit import check_size
from dali_proxy.pipeline.errors import ArgumentValueError, DecodeError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import UINT8, to_numpy_type


def _check(node: GraphNode) -> None:
    argument = node.argument
    if argument("algorithm").upper() != "LZ4":
        raise ArgumentValueError(f"Unknown inflate algorithm {argument('algorithm')!r}: only LZ4 is supported")
    if len(argument("sequence_axis_name")) != 1:
        raise ArgumentValueError(
            f"argument 'sequence_axis_name' must be a single character, not {argument('sequence_axis_name')!r}"
        )


INFLATE = declare_operator(
    name="decoders.inflate",
    role=Role.DECODER,
    doc="""Decompresses arrays.

A sample is one compressed block, or several blocks of arrays with the same shape and dtype: then `chunk_offsets` or
`chunk_sizes` is required, and the output has the blocks along a new first dimension. The missing end of an array is
filled with zeros.""",
    inputs=(Input("data", "Compressed data, 1-D uint8."),),
    arguments=(
        Argument("shape", Kind.INTS, "Shape of an array.", REQUIRED, per_sample=True),
        Argument("dtype", Kind.DTYPE, "Dtype of the arrays.", UINT8),
        Argument("layout", Kind.LAYOUT, "Layout of an array.", ""),
        Argument("sequence_axis_name", Kind.LAYOUT, "Letter of the dimension of the blocks, put before `layout`.", "F"),
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
    devices=("cpu", "gpu"),
    check=_check,
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

    def arrays(
        self, sample: int, length: int, layout: str, itemsize: int
    ) -> tuple[tuple[int, ...], list[tuple[int, int]]]:
        """Return the shape of a sample's arrays, and the bounds of their blocks.

        Args:
            sample: position in the batch.
            length: number of compressed bytes.
            layout: layout of an array, or an empty string.
            itemsize: size of an element in bytes.

        Raises:
            ArgumentValueError: the arguments don't fit.
            DecodeError: the result is too large.
        """
        shape = self.shapes[sample]
        if shape.ndim > 1 or (shape < 0).any():
            raise ArgumentValueError(f"The shape argument must be a number or a list of extents, not {shape.tolist()}")
        extents = tuple(shape.reshape(-1).tolist())
        if layout and len(layout) != len(extents):
            raise ArgumentValueError(f"the layout {layout!r} doesn't have the {len(extents)} dimensions of the shape")
        bounds = self.chunks(sample, length)
        check_size("the decompressed data", len(bounds), *extents, itemsize)
        return extents, bounds

    @property
    def single(self) -> bool:
        """Whether each sample is one block."""
        return self.offsets is None and self.sizes is None

    @classmethod
    def from_batch(cls, node: GraphNode, batch: Batch) -> _State:
        arguments = batch.arguments(node)
        shapes = arguments.arrays("shape", np.int64)
        names = ("chunk_offsets", "chunk_sizes")
        return cls(shapes, *(arguments.optional(arguments.rows, name, np.int64) for name in names))

    def layout(self, node: GraphNode) -> str:
        """Return the layout of the output."""
        layout = str(node.argument("layout"))
        return layout if self.single or not layout else node.argument("sequence_axis_name") + layout


def _check_bytes(dtype: np.dtype[Any], shape: Sequence[int]) -> None:
    if len(shape) != 1 or dtype != np.uint8:
        raise ArgumentValueError(f"the samples must be 1-D uint8, not {dtype} of shape {tuple(shape)}")


@implements(INFLATE, "cpu")
class Inflate(SampleOperator[_State]):
    """Decompresses blocks with liblz4."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._dtype = to_numpy_type(node.argument("dtype"))
        self._block = optional_package("lz4.block", "decompressing LZ4", "lz4")

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        state = _State.from_batch(self.node, batch)
        return state, [describe(state.layout(self.node), None, self._dtype)]

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        _check_bytes(data.dtype, data.shape)
        extents, bounds = state.arrays(sample, len(data), self.node.argument("layout"), self._dtype.itemsize)
        result = np.zeros((len(bounds), *extents), self._dtype)
        flat = result.reshape(len(bounds), math.prod(extents))
        for target, (start, end) in zip(flat, bounds, strict=True):
            self._decompress(data[start:end], target.view(np.uint8))
        return result[0] if state.single else result

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


@implements(INFLATE, "gpu")
class InflateGpu(GpuOperator):
    """Decompresses a block with each warp, and waits to learn whether all blocks are valid."""

    traits = replace(GpuOperator.traits, repeatable=False)

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._dtype = to_numpy_type(node.argument("dtype"))

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        source, state = samples_of(self.contiguous(inputs[0], batch.stream)), _State.from_batch(self.node, batch)

        def describe(sample: int, shape: list[int]) -> tuple[tuple[int, ...], list[tuple[int, int]]]:
            _check_bytes(source.dtype, shape)
            extents, own = state.arrays(sample, shape[0], self.node.argument("layout"), self._dtype.itemsize)
            return extents if state.single else (len(own), *extents), own

        shapes, bounds = zip(*each_sample(describe, range(batch.size), source.shapes.tolist()), strict=True)
        if len(set(map(len, shapes))) > 1:
            raise ArgumentValueError("the arrays of a batch must have the same number of dimensions")
        output, target = allocate(
            np.array(shapes, np.int64).reshape(batch.size, -1), self._dtype, state.layout(self.node)
        )
        counts = np.array([len(own) for own in bounds])
        owners = np.repeat(np.arange(batch.size), counts)
        if len(owners):
            numbers = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
            rooms = target.sizes // np.maximum(1, counts)
            edges = np.concatenate([np.array(own, np.int64).reshape(-1, 2) for own in bounds])
            states, failed = allocate(np.zeros((len(owners), 0), np.int64), np.dtype(np.int32))
            blocks = np.zeros(len(owners), BLOCK)
            blocks["src"], blocks["size"] = source.pointers[owners] + edges[:, 0], edges[:, 1] - edges[:, 0]
            blocks["dst"], blocks["room"] = target.pointers[owners] + numbers * rooms[owners], rooms[owners]
            blocks["failed"] = failed.pointers
            self.launch(plan_inflate(blocks), batch)
            damaged = np.flatnonzero(np.ravel(self.on_host(states, batch)))
            fail([(sample, _damage(rooms[sample])) for sample in np.unique(owners[damaged]).tolist()])
        return [output]


def _damage(room: int) -> DecodeError:
    return DecodeError(f"a block isn't LZ4, or contains more than {room} bytes")
