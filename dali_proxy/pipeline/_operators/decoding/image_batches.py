"""Decoding of a whole batch of images on the CPU: several images per call, into one block of memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import numpy as np

from dali_proxy.pipeline._arrays import Bools, Int64s
from dali_proxy.pipeline._bulk.buffer_pool import BufferPool
from dali_proxy.pipeline._codecs.encoded import EncodedBatch, flat_bytes
from dali_proxy.pipeline._concurrency.interrupts import pass_on_interrupt
from dali_proxy.pipeline._graph.graph import Edge, GraphNode
from dali_proxy.pipeline._imaging import decode, peek
from dali_proxy.pipeline._imaging.jpeg_region import decode_regions
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import as_pipeline_error, each_sample, fail
from dali_proxy.pipeline._operators.decoding.image_warnings import ImageWarnings
from dali_proxy.pipeline._operators.geometry.crop_arguments import CropWindows
from dali_proxy.pipeline._operators.geometry.random_windows import RandomWindows
from dali_proxy.pipeline._operators.geometry.slice_arguments import SliceWindows, positional
from dali_proxy.pipeline._operators.geometry.windows import inside
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

# Images that a thread decodes per call, at most. Each call needs the GIL anew, which many threads share.
_GROUP = 16
# Largest height and width of an image that may be allocated in advance; the decoder refuses more.
_LARGEST_EXTENT = 1 << 24
# Size in bytes up to which memory is allocated for a batch before it is decoded: damaged headers may claim any size.
_MOST_BYTES = 1 << 30
_LAYOUT = "HWC"


def encoded_batch(data: TensorListCPU) -> EncodedBatch:
    """Return a batch in the form of GPU decoders. Contiguous 1-D uint8 samples need no work per sample.

    Raises:
        OperatorError: samples have the shape of decoded pixels.
    """
    table = data.table()
    if table.ndim == 1 and table.dtype == np.uint8 and table.is_contiguous():
        return EncodedBatch(table.pointers, table.shapes[:, 0], lambda: data.samples, data)
    return EncodedBatch.from_arrays(each_sample(flat_bytes, data.samples))


def allocate_images(
    batch: Batch, node: GraphNode, shapes: Int64s, dtype: np.dtype[Any], buffers: BufferPool, for_gpu: bool
) -> TensorListCPU | None:
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
    return batch.allocate_samples(Edge(node.index), shapes, dtype, "HWC", buffers, for_gpu)


def decode_images(
    batch: Batch,
    encoded: EncodedBatch,
    which: Int64s,
    regions: Int64s | None,
    options: Mapping[str, Any],
    limit: float,
    warnings: ImageWarnings,
    output: TensorListCPU | None = None,
) -> list[Array]:
    """Decode some images of a batch on the threads of the CPU stage.

    Args:
        batch: the batch.
        encoded: its images.
        which: (M,) positions in the batch.
        regions: windows of the images of the batch, as `regions_of` returns them; None for full images.
        options: further arguments of `decode`.
        limit: largest size of an image in bytes; see `image_limit`.
        warnings: gets the decoder's warnings.
        output: memory for the images of the batch; None for new memory.

    Returns:
        The pixels of these images; nothing if they are in the output.

    Raises:
        OperatorError: images can't be decoded; the error lists them.
    """
    compiled = _are_usual(encoded, options, limit)
    inside = _whole_images(encoded) if regions is None else regions
    images: dict[int, Array] = {}  # by position in the batch; with an output, only those of `decode`
    addresses = np.zeros(len(encoded), np.int64) if output is None else output.table().pointers
    failures: list[tuple[int, PipelineError]] = []

    def allocate(samples: Sequence[int]) -> None:
        for sample in samples:
            with suppress(MemoryError):  # `decode` raises it again, for this sample
                images[sample] = np.empty((*inside[sample, 2:].tolist(), 3), np.uint8)
                addresses[sample] = images[sample].ctypes.data

    def decode_traced(begin: int, end: int) -> None:
        with batch.traced(int(which[begin]), int(which[end - 1])):
            decode_range(begin, end)

    def decode_range(begin: int, end: int) -> None:
        group = which[begin:end]
        if output is None:
            allocate(group[compiled[group]].tolist())
        done = compiled[group] & (addresses[group] != 0)
        some = group[done]
        done[done] = decode_regions(encoded.pointers[some], encoded.lengths[some], inside[some], addresses[some])
        for sample in group[~done].tolist():
            window = None if regions is None or regions[sample, 0] < 0 else tuple(regions[sample].tolist())
            target = None if output is None else output.samples[sample]
            warn = partial(warnings.show, batch, sample)
            try:
                images[sample] = decode(encoded.arrays[sample], region=window, out=target, warn=warn, **options)
            except Exception as error:  # noqa: BLE001 - it belongs to the sample
                pass_on_interrupt(error)
                failures.append((sample, as_pipeline_error(error)))

    decode_group = decode_range if batch.trace is None else decode_traced
    if len(which) == 1 or batch.pool.num_threads == 1:
        decode_group(0, len(which))
    else:
        batch.pool.run_ranges(decode_group, len(which), _GROUP)
    if failures:
        fail(sorted(failures, key=lambda failure: failure[0]))
    return [] if output is not None else [images[sample] for sample in which.tolist()]


def _whole_images(encoded: EncodedBatch) -> Int64s:
    """Return the windows of whole JPEGs, before their orientation is applied; see `regions_of`."""
    windows = np.zeros((len(encoded), 4), np.int64)
    windows[:, 2], windows[:, 3] = encoded.headers["height"], encoded.headers["width"]
    return windows


def _are_usual(encoded: EncodedBatch, options: Mapping[str, Any], limit: float) -> Bools:
    """Return, for each image, whether `decode_regions` decodes it as `decode` does."""
    headers = encoded.headers
    nbytes = headers["height"].astype(np.int64) * headers["width"] * 3
    fits: Bools = (headers["components"] == 3) & (headers["suspect"] == 0) & (nbytes <= limit)
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


class DecodedWindows(Protocol):
    """Windows of the images of one batch."""

    def choose(self, sample: int, height: int, width: int, inputs: Sequence[Array]) -> tuple[int, int, int, int]:
        """Return the window of an image: first row and column, height, width.

        Raises:
            PipelineError: the window isn't inside the image.
        """


class _Cropped:
    """Windows from the arguments of `crop`."""

    def __init__(self, node: GraphNode, batch: Batch) -> None:
        self._windows = CropWindows(batch.arguments(node), batch.size, _LAYOUT)

    def choose(self, sample: int, height: int, width: int, inputs: Sequence[Array]) -> tuple[int, int, int, int]:
        return _checked(*self._windows.locate(sample, (height, width, 1)), (height, width, 1))


class _Sliced:
    """Windows from the arguments of `slice`, or from inputs."""

    def __init__(self, node: GraphNode, batch: Batch) -> None:
        inputs = len(node.inputs) - 1
        if inputs == 1:
            raise ArgumentTypeError("the anchor needs a shape as the third input")
        self._windows = SliceWindows(batch.arguments(node), batch.size, _LAYOUT, len(_LAYOUT), inputs == 2)
        self._normalized = node.argument("normalized_anchor"), node.argument("normalized_shape")

    def choose(self, sample: int, height: int, width: int, inputs: Sequence[Array]) -> tuple[int, int, int, int]:
        bounds = positional(inputs[0], inputs[1], self._normalized) if inputs else None
        return _checked(*self._windows.locate(sample, (height, width, 1), bounds), (height, width, 1))


_WINDOWS: dict[str, Callable[[GraphNode, Batch], DecodedWindows | RandomWindows]] = {
    "decoders.image_crop": _Cropped,
    "decoders.image_slice": _Sliced,
    "decoders.image_random_crop": RandomWindows,
}


def windows_of(node: GraphNode, batch: Batch) -> DecodedWindows | RandomWindows | None:
    """Return the windows of a batch; None for decoders of full images."""
    kind = _WINDOWS.get(node.operator)
    return None if kind is None else kind(node, batch)


def _checked(start: Sequence[int], extent: Sequence[int], shape: Sequence[int]) -> tuple[int, int, int, int]:
    if not inside(start, extent, shape):
        rows, columns = (f"{low}..{low + length}" for low, length in zip(start[:2], extent[:2], strict=True))
        raise ArgumentValueError(
            f"The cropping window [{rows}, {columns}] is not valid for image dimensions [{shape[0]} x {shape[1]}]"
        )
    return start[0], start[1], extent[0], extent[1]
