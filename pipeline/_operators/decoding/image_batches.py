"""Decoding of a whole batch of images on the CPU: several images per call, into one block of memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._bulk.buffer_pool import BufferPool
from pipeline._bulk.gather import copy_ranges
from pipeline._codecs import EncodedBatch
from pipeline._graph.graph import Edge, GraphNode
from pipeline._imaging import decode, peek
from pipeline._imaging.jpeg_region import decode_regions
from pipeline._kernels import Samples
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import as_pipeline_error, fail
from pipeline._operators.decoding.image_windows import windows_of
from pipeline._operators.geometry.random_windows import RandomWindows
from pipeline._size_limit import image_limit
from pipeline.errors import PipelineError
from pipeline.tensors.cpu import Array, TensorListCPU

__all__ = ["Output", "allocate_images", "decode_images", "regions_of", "shown_sizes"]

Int64s = npt.NDArray[np.int64]

# Images that a thread decodes per call, at most. Each call needs the GIL anew, which many threads share.
_GROUP = 8
# Largest height and width of an image that may be allocated in advance; the decoder refuses more.
_LARGEST_EXTENT = 1 << 24
# Size in bytes up to which memory is allocated for a batch before it is decoded: damaged headers may claim any size.
_MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class Output:
    """Memory for a batch of images: the images, and the bytes of all."""

    images: TensorListCPU
    memory: npt.NDArray[np.uint8]

    def place(self, pixels: Mapping[int, Array]) -> None:
        """Copy images, given by their positions in the batch, with one call that doesn't need the GIL."""
        pointers = np.array([image.ctypes.data for image in pixels.values()], np.int64)
        sizes = np.array([image.nbytes for image in pixels.values()], np.int64)
        offsets = self.images.table().pointers[list(pixels)] - self.memory.ctypes.data
        copy_ranges(self.memory, pointers, sizes, offsets, None, pixels)


def allocate_images(
    batch: Batch, node: GraphNode, shapes: Int64s, dtype: np.dtype[Any], buffers: BufferPool, for_gpu: bool
) -> Output | None:
    """Return memory for the images of a batch; None if they are implausibly large.

    Args:
        batch: the batch.
        node: the decoder.
        shapes: (N, 3) heights, widths and channels.
        dtype: dtype of the pixels.
        buffers: allocator of memory.
        for_gpu: whether a GPU may read the images. Otherwise, images of one shape use memory of the batch's outputs.
    """
    if shapes.prod(axis=1, dtype=np.float64).sum() * dtype.itemsize > _MOST_BYTES:
        return None
    shape = (len(shapes), *shapes[0].tolist()) if (shapes == shapes[0]).all() else None
    if shape is not None and not for_gpu:
        array, owner = batch.allocate(Edge(node.index), shape, dtype)
        images = TensorListCPU.from_dense(array, "HWC")
        images.owner = owner
        return Output(images, array.reshape(-1).view(np.uint8))
    if shape is not None:
        memory, is_pinned = buffers.memory(math.prod(shape) * dtype.itemsize)
        images = TensorListCPU.from_dense(memory.view(dtype).reshape(shape), "HWC")
    else:
        table, nbytes = Samples.packed(0, shapes, dtype)
        memory, is_pinned = buffers.memory(nbytes)
        placed = replace(table, pointers=memory.ctypes.data + table.pointers)
        images = TensorListCPU.from_table(placed, [memory], layout="HWC")
    images.pinned = is_pinned
    return Output(images, memory)


def decode_images(
    batch: Batch,
    encoded: EncodedBatch,
    which: Int64s,
    regions: Int64s | None,
    options: Mapping[str, Any],
    output: Output | None = None,
) -> list[Array]:
    """Decode some images of a batch on the threads of the CPU stage.

    Args:
        batch: the batch.
        encoded: its images.
        which: (M,) positions in the batch.
        regions: windows of the images of the batch, as `regions_of` returns them; None for full images.
        options: further arguments of `decode`.
        output: memory for the images of the batch; None for new memory.

    Returns:
        The pixels of these images; without meaning if there is an output.

    Raises:
        OperatorError: images can't be decoded; the error lists them.
    """
    positions, arrays = which.tolist(), encoded.arrays
    windows: list[Any] = [None] * len(encoded)
    if regions is not None:
        windows = [tuple(row) if row[0] >= 0 else None for row in regions.tolist()]
    skips_rows = (_skips_rows(encoded, options) & (regions is not None)).tolist()
    targets = [None] * len(encoded) if output is None else output.images.samples
    images: list[Any] = [None] * len(positions)
    failures: list[tuple[int, PipelineError]] = []

    def decode_group(begin: int, end: int) -> None:
        with batch.traced(positions[begin], positions[end - 1]):
            decode_range(begin, end)

    def decode_range(begin: int, end: int) -> None:
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

    step = max(1, min(_GROUP, -(-len(positions) // batch.pool.num_threads)))
    if len(positions) <= step:
        decode_group(0, len(positions))
    else:
        batch.pool.run_ranges(decode_group, len(positions), step)
    fail(sorted(failures, key=lambda failure: failure[0]))
    return images


def _skips_rows(encoded: EncodedBatch, options: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
    """Return, for each image, whether `decode_regions` decodes its windows as `decode` does."""
    headers = encoded.headers
    nbytes = headers["height"].astype(np.int64) * headers["width"] * 3
    fits: npt.NDArray[np.bool_] = (headers["components"] == 3) & (headers["truncated"] == 0) & (nbytes <= image_limit())
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
    """Return the heights and widths of images after decoding, (N, 2); 0 for data that isn't a plausible image."""
    headers = encoded.headers
    sizes = np.column_stack([headers["height"], headers["width"]]).astype(np.int64)
    if adjust_orientation:
        transposed = headers["orientation"] >= 5
        sizes[transposed] = sizes[transposed, ::-1]
    for sample in np.flatnonzero(headers["height"] == 0).tolist():
        with suppress(PipelineError):
            info = peek(encoded.arrays[sample])
            if max(info.height, info.width) <= _LARGEST_EXTENT:
                sizes[sample] = info.shape[:2] if adjust_orientation else (info.height, info.width)
    return sizes
