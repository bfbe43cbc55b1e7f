"""Decoding of a whole batch of images on the CPU: several images per call, into one block of memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._bulk.buffer_pool import BufferPool
from pipeline._bulk.gather import copy_ranges
from pipeline._codecs import EncodedBatch
from pipeline._concurrency.thread_pool import ThreadPool
from pipeline._graph.graph import Edge, GraphNode
from pipeline._imaging import decode, peek
from pipeline._imaging.jpeg_region import decode_regions
from pipeline._kernels import Samples
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import as_pipeline_error, fail
from pipeline._operator_api.operator import BatchOperator, Setup
from pipeline._operators.decoding.encoded import channels_of, encoded_batch
from pipeline._operators.decoding.image_arguments import decoding_options
from pipeline._operators.decoding.image_windows import windows_of
from pipeline._operators.geometry.random_windows import RandomWindows
from pipeline.errors import PipelineError
from pipeline.tensors.cpu import Array, TensorListCPU

__all__ = ["BatchImageDecoder", "decode_images", "regions_of", "shown_size", "shown_sizes"]

Int64s = npt.NDArray[np.int64]

# Images that a thread decodes per call, at most. Each call needs the GIL anew, which many threads share.
_GROUP = 8
# Size in bytes up to which memory is allocated for a batch before it is decoded: damaged headers may claim any size.
_MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class _Output:
    """Memory for a batch of images: the batch, and its bytes."""

    batch: TensorListCPU
    memory: npt.NDArray[np.uint8]

    def place(self, images: Mapping[int, Array]) -> None:
        """Copy images, given by their positions in the batch, with one call that doesn't need the GIL."""
        positions = list(images)
        pointers = np.array([image.ctypes.data for image in images.values()], np.int64)
        sizes = np.array([image.nbytes for image in images.values()], np.int64)
        offsets = self.batch.table().pointers[positions] - self.memory.ctypes.data
        copy_ranges(self.memory, pointers, sizes, offsets, None, images)


class BatchImageDecoder(BatchOperator):
    """Decodes a batch on the threads of the CPU stage, into one block of memory, pinned if a GPU reads it."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._options = decoding_options(node)
        self._channels = channels_of(node.argument("output_type"))
        self._buffers = BufferPool(pin_for=setup.reading_gpu)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        encoded = encoded_batch(inputs[0])
        regions = regions_of(self.node, batch, encoded, inputs[1:])
        extents = shown_sizes(encoded, self._options["adjust_orientation"]) if regions is None else regions[:, 2:]
        output = self._allocate(batch, extents)
        images = decode_images(encoded, np.arange(len(encoded)), regions, self._options, batch.pool, output)
        return [TensorListCPU(images, "HWC") if output is None else output.batch]

    def _allocate(self, batch: Batch, extents: Int64s) -> _Output | None:
        """Return memory for images of these heights and widths; None if these are unknown or implausible."""
        if self._channels is None or (extents <= 0).any():
            return None
        dtype = np.dtype(self._options["dtype"])
        shapes = np.column_stack([extents, np.full(len(extents), self._channels)])
        if shapes.prod(axis=1).sum() * dtype.itemsize > _MOST_BYTES:
            return None
        if (shapes == shapes[0]).all():
            array, owner = batch.allocate(Edge(self.node.index), (len(shapes), *shapes[0].tolist()), dtype)
            images = TensorListCPU.from_dense(array, "HWC")
            images.owner = owner
            return _Output(images, array.reshape(-1).view(np.uint8))
        table, nbytes = Samples.packed(0, shapes, dtype)
        memory, is_pinned = self._buffers.memory(nbytes)
        placed = replace(table, pointers=memory.ctypes.data + table.pointers)
        images = TensorListCPU.from_table(placed, [memory], layout="HWC")
        images.pinned = is_pinned
        return _Output(images, memory)


def decode_images(
    encoded: EncodedBatch,
    which: Int64s,
    regions: Int64s | None,
    options: Mapping[str, Any],
    pool: ThreadPool,
    output: _Output | None = None,
) -> list[Array]:
    """Decode some images of a batch on the threads of a pool.

    Args:
        encoded: the batch.
        which: (M,) positions in the batch.
        regions: windows of the images of the batch, as `regions_of` returns them; None for full images.
        options: further arguments of `decode`.
        pool: the threads.
        output: memory for the images of the batch; None for new memory.

    Returns:
        The pixels of these images.

    Raises:
        OperatorError: images can't be decoded; the error lists them.
    """
    positions, arrays = which.tolist(), encoded.arrays
    windows: list[Any] = [None] * len(encoded)
    if regions is not None:
        windows = [tuple(row) if row[0] >= 0 else None for row in regions.tolist()]
    skips_rows = (_skips_rows(encoded, options) & (regions is not None)).tolist()
    targets = [None] * len(encoded) if output is None else output.batch.samples
    images: list[Any] = [None] * len(positions)
    failures: list[tuple[int, PipelineError]] = []

    def decode_group(begin: int, end: int) -> None:
        group = positions[begin:end]
        skipping = [sample for sample in group if skips_rows[sample]]
        pixels = decode_regions([memoryview(arrays[sample]) for sample in skipping], [windows[s] for s in skipping])
        found = {sample: image for sample, image in zip(skipping, pixels, strict=True) if image is not None}
        for index, sample in enumerate(group, begin):
            try:
                if sample not in found:
                    images[index] = decode(arrays[sample], region=windows[sample], out=targets[sample], **options)
                elif output is None:
                    images[index] = found[sample]
            except Exception as error:  # noqa: BLE001 - it belongs to the sample
                failures.append((sample, as_pipeline_error(error)))
        if output is not None and found:
            output.place(found)

    step = max(1, min(_GROUP, -(-len(positions) // pool.num_threads)))
    if len(positions) <= step:
        decode_group(0, len(positions))
    else:
        pool.run_ranges(decode_group, len(positions), step)
    fail(sorted(failures, key=lambda failure: failure[0]))
    return images


def _skips_rows(encoded: EncodedBatch, options: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
    """Return, for each image, whether `decode_regions` decodes its windows as `decode` does."""
    headers = encoded.headers
    fits: npt.NDArray[np.bool_] = (headers["components"] == 3) & (headers["truncated"] == 0)
    if options["adjust_orientation"]:
        fits &= headers["orientation"] == 1
    is_usual = options["output_type"] == "RGB" and options["dtype"] == np.uint8 and not options["fast_idct"]
    return fits & is_usual


def regions_of(node: GraphNode, batch: Batch, encoded: EncodedBatch, inputs: Sequence[Any]) -> Int64s | None:
    """Return the windows that a decoder decodes.

    Args:
        node: the decoder.
        batch: the batch.
        encoded: its images.
        inputs: further inputs of the decoder.

    Returns:
        (N, 4): first row and column, height and width; -1 for samples that aren't images. None for full images.

    Raises:
        OperatorError: windows aren't inside of their images.
    """
    windows = windows_of(node, batch)
    if windows is None:
        return None
    heights, widths = shown_sizes(encoded, node.argument("adjust_orientation")).T
    if isinstance(windows, RandomWindows):
        regions = windows.choose_all(heights, widths)
        regions[heights == 0] = -1
        return regions
    regions = np.full((len(encoded), 4), -1, np.int64)
    failures: list[tuple[int, PipelineError]] = []
    for sample in np.flatnonzero(heights).tolist():
        given = [values.samples[sample] for values in inputs]
        try:
            regions[sample] = windows.choose(sample, int(heights[sample]), int(widths[sample]), given)
        except PipelineError as error:
            failures.append((sample, error))
    fail(failures)
    return regions


def shown_sizes(encoded: EncodedBatch, adjust_orientation: bool) -> Int64s:
    """Return the heights and widths of images after decoding, (N, 2); 0 for data that isn't an image."""
    headers = encoded.headers
    sizes = np.column_stack([headers["height"], headers["width"]]).astype(np.int64)
    if adjust_orientation:
        transposed = headers["orientation"] >= 5
        sizes[transposed] = sizes[transposed, ::-1]
    for sample in np.flatnonzero(headers["height"] == 0).tolist():
        with suppress(PipelineError):
            sizes[sample] = shown_size(encoded.arrays[sample], adjust_orientation)
    return sizes


def shown_size(encoded: Array, adjust_orientation: bool) -> tuple[int, int]:
    """Return the height and width of an encoded image after decoding."""
    info = peek(encoded)
    return info.shape[:2] if adjust_orientation else (info.height, info.width)
