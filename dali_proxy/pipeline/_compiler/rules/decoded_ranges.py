"""Threads decode a few images at a time and process them at once, in memory that they use again.

All images of a batch would take hundreds of megabytes, and more than the processor's caches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._compiler.rules.fused_images import FusedImages
from dali_proxy.pipeline._compiler.rules.scope import Scope, replaced
from dali_proxy.pipeline._compiler.steps.chain import ChainStep
from dali_proxy.pipeline._compiler.steps.sample_work import SampleWork
from dali_proxy.pipeline._compiler.steps.step import FusedStep, OperatorStep, Step
from dali_proxy.pipeline._concurrency.cost import charged
from dali_proxy.pipeline._graph.graph import Edge
from dali_proxy.pipeline._imaging.scratch import scratch
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operators.decoding.image import ImageDecoder
from dali_proxy.pipeline._operators.decoding.image_batches import MOST_IMAGES, ImageDecoding
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

# Bytes of the images that a thread decodes before it processes them. Small images are several, because each call needs
# the GIL.
_MOST_BYTES = 8 << 20
_ALIGNMENT = 64


class UndecodedImages(TensorListCPU):
    """Images of a batch whose shapes are known. Those of a range get their memory before the range runs.

    Args:
        shapes: (N, 3) heights, widths and channels.
        dtype: dtype of the pixels.
    """

    __slots__ = ("_places",)

    def __init__(self, shapes: Int64s, dtype: np.dtype[Any]) -> None:
        self._places = [np.empty((0, 0, 0), dtype)] * len(shapes)
        super().__init__(self._places, "HWC")
        self._samples = self._places
        if (shapes == shapes[0]).all():
            self._dense = np.broadcast_to(np.empty((), dtype), (len(shapes), *shapes[0].tolist()))
        self._table = Samples.contiguous(np.zeros(len(shapes), np.int64), shapes, dtype)

    def shape(self) -> list[tuple[int, ...]]:
        """Return the shapes of all images."""
        return [tuple(shape) for shape in self.table().shapes.tolist()]

    def place(self, begin: int, end: int, images: Sequence[Array]) -> None:
        """Set the arrays of images `begin` to `end`, which are C-contiguous."""
        assert self._table is not None
        self._places[begin:end] = images
        self._table.pointers[begin:end] = [image.ctypes.data for image in images]


class _Decoder:
    """A decoder, prepared for one batch."""

    def __init__(self, number: int, operator: ImageDecoder, decoding: ImageDecoding, shapes: Int64s) -> None:
        self.node, self._name, self._decoding = operator.node, f"decoded images {number}", decoding
        self._dtype = operator.dtype
        self.sizes = -(-shapes.prod(axis=1) * self._dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        self.nbytes = int(self.sizes.sum())
        self.images = UndecodedImages(shapes, self._dtype)
        self._shapes = self.images.shape()

    def decode(self, begin: int, end: int) -> Array:
        """Decode images `begin` to `end`. Return their memory, which this thread's next call overwrites."""
        offsets = [0, *np.cumsum(self.sizes[begin:end]).tolist()]
        memory = scratch(self._name, (offsets.pop(),), np.uint8)
        images = [
            np.ndarray(shape, self._dtype, memory, offset)
            for shape, offset in zip(self._shapes[begin:end], offsets, strict=True)
        ]
        self.images.place(begin, end, images)
        addresses = memory.ctypes.data + np.array(offsets)
        for sample in self._decoding.decode_usual(np.arange(begin, end), addresses):
            self._decoding.decode(sample, images[sample - begin])
        return memory


class DecodedRanges(FusedStep):
    """Decoders of images, and what computes each sample from the images.

    Any error makes the members run instead, which report it.
    """

    title = "decoded ranges"

    def __init__(self, decoders: Sequence[OperatorStep], reader: ChainStep | FusedImages) -> None:
        super().__init__([*decoders, reader])
        self._decoders, self._reader = decoders, reader
        self._chain = reader.members[0] if isinstance(reader, FusedImages) else reader
        self.units = [unit for member in self.members for unit in member.units]

    def run_members(self, batch: Batch) -> None:
        for member in self.members:
            member.run_charged(batch)

    def run_as_one(self, batch: Batch) -> bool:
        warned: list[tuple[ImageDecoder, int, str]] = []  # shown when nothing has failed, because errors show them, too
        decoders: list[_Decoder] = []
        for number, step in enumerate(self._decoders):
            operator: Any = step.operator
            with charged(batch.costs, step.node.index):
                inputs = [batch.values[edge] for edge in step.node.inputs]
                begun = operator.begin(batch, inputs, lambda _, *of, operator=operator: warned.append((operator, *of)))
            if begun is None:
                return False
            decoders.append(_Decoder(number, operator, *begun))
        try:
            for decoder in decoders:
                batch.outputs[Edge(decoder.node.index)] = decoder.images
            self._run(batch, decoders)
            if batch.memory is not None:
                for decoder in decoders:
                    batch.memory.add_batch(Edge(decoder.node.index), decoder.images)
        finally:
            batch.outputs.drop([Edge(decoder.node.index) for decoder in decoders])
        for operator, sample, message in warned:
            operator.warnings.show(batch, sample, message)
        return True

    def _run(self, batch: Batch, decoders: Sequence[_Decoder]) -> None:
        work: SampleWork | None = self._reader.begin(batch)
        if work is None:
            assert isinstance(self._chain, ChainStep)
            work = self._chain.begin(batch)

        def run(begin: int, end: int) -> None:
            memory = []
            for decoder in decoders:
                with charged(batch.costs, decoder.node.index), batch.traced(begin, end - 1):
                    memory.append(decoder.decode(begin, end))
            work.run_range(begin, end, memory)

        mean = sum(decoder.nbytes for decoder in decoders) / batch.size
        step = min(MOST_IMAGES, max(1, math.floor(_MOST_BYTES / mean)))
        if batch.size == 1 or batch.pool.num_threads == 1:
            for begin in range(0, batch.size, step):
                run(begin, min(batch.size, begin + step))
        else:
            batch.pool.run_ranges(run, batch.size, step)
        work.publish()


def decode_ranges(steps: list[Step], scope: Scope) -> list[Step]:
    """Fuse the decoders of images of a step with the chain behind them."""
    decoders = [step for step in steps if isinstance(step, OperatorStep) and isinstance(step.operator, ImageDecoder)]
    readers = [step for step in steps if isinstance(step, (ChainStep, FusedImages))]
    if not decoders or not readers:
        return steps
    return replaced(steps, scope, [DecodedRanges(decoders, reader) for reader in readers])
