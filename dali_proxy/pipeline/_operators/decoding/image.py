"""`decoders.image*`: decoders of images, or of windows of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._bulk.buffer_pool import BufferPool, Lease
from dali_proxy.pipeline._codecs import DecodedBatch, EncodedBatch, ImageBatchDecoder, is_gpu_format
from dali_proxy.pipeline._declaration import Input, Role, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import is_rare_tiff
from dali_proxy.pipeline._imaging.depth import full_scale
from dali_proxy.pipeline._imaging.formats import TITLES
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.strided_copy import plan_strided_copy
from dali_proxy.pipeline._operator_api.batch import Batch, no_place
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate
from dali_proxy.pipeline._operator_api.operator import BatchOperator, Setup
from dali_proxy.pipeline._operator_api.traits import Traits
from dali_proxy.pipeline._operator_api.upload import upload
from dali_proxy.pipeline._operators.decoding.image_arguments import DECODER_ARGUMENTS, channels_of, decoding_options
from dali_proxy.pipeline._operators.decoding.image_batches import (
    allocate_images,
    decode_images,
    encoded_batch,
    regions_of,
    shown_sizes,
)
from dali_proxy.pipeline._operators.decoding.image_warnings import ImageWarnings
from dali_proxy.pipeline._operators.geometry.crop_arguments import CROP_ARGUMENTS
from dali_proxy.pipeline._operators.geometry.random_windows import RANDOM_CROP_ARGUMENTS, WINDOW_DRAWS
from dali_proxy.pipeline._operators.geometry.slice_arguments import SLICE_ARGUMENTS
from dali_proxy.pipeline._size_limit import image_limit
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU
from dali_proxy.pipeline.types import BGR, GRAY, RGB

_ENCODED = Input("encoded", f"Encoded images: the bytes of {TITLES} and other files.")

IMAGE = declare_operator(
    name="decoders.image",
    role=Role.IMAGE_DECODER,
    doc="Decodes images to HWC. With device='mixed', the bytes are on the CPU and the GPU decodes them.",
    inputs=(_ENCODED,),
    arguments=DECODER_ARGUMENTS,
    devices=("cpu", "mixed"),
)

IMAGE_RANDOM_CROP = declare_operator(
    name="decoders.image_random_crop",
    role=Role.IMAGE_DECODER,
    random=True,
    draws=WINDOW_DRAWS,
    doc="""Decodes a window of random area, aspect ratio and position of each image, to HWC.

The windows are those of `fn.random_crop_generator` with the same seed.""",
    inputs=(_ENCODED,),
    arguments=(*DECODER_ARGUMENTS, *RANDOM_CROP_ARGUMENTS),
    devices=("cpu", "mixed"),
)

IMAGE_CROP = declare_operator(
    name="decoders.image_crop",
    role=Role.IMAGE_DECODER,
    doc="Decodes a window of each image to HWC, with the same result as `fn.crop` on the full image.",
    inputs=(_ENCODED,),
    arguments=(*DECODER_ARGUMENTS, *CROP_ARGUMENTS),
    devices=("cpu", "mixed"),
)

IMAGE_SLICE = declare_operator(
    name="decoders.image_slice",
    role=Role.IMAGE_DECODER,
    doc="Decodes a window of each image to HWC, with the same result as `fn.slice` on the full image.",
    inputs=(
        _ENCODED,
        Input("anchor", "Positions at which the windows begin, on the CPU.", optional=True, any_device=True),
        Input("shape_input", "Extents of the windows, on the CPU.", optional=True, any_device=True),
    ),
    arguments=(*DECODER_ARGUMENTS, *SLICE_ARGUMENTS),
    devices=("cpu", "mixed"),
)


@implements(IMAGE, "cpu")
@implements(IMAGE_CROP, "cpu")
@implements(IMAGE_RANDOM_CROP, "cpu")
@implements(IMAGE_SLICE, "cpu")
class ImageDecoder(BatchOperator):
    """Decodes a batch on the threads of the CPU stage, into one block of memory, pinned if a GPU reads it.

    Decoding image by image in a chain would need the GIL several times per image, which many threads share.
    """

    traits = Traits(per_sample=True)

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._options = decoding_options(node)
        self._channels = channels_of(node.argument("output_type"))
        self._reading_gpu = setup.reading_gpu
        self._buffers = BufferPool(pin_for=self._reading_gpu)
        self._limit, self._warnings = image_limit(), ImageWarnings(node)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        encoded = encoded_batch(inputs[0])
        regions = regions_of(self.node, batch, encoded, inputs[1:])
        output = self._allocate(batch, encoded, regions)
        images = decode_images(
            batch, encoded, np.arange(len(encoded)), regions, self._options, self._limit, self._warnings, output
        )
        return [TensorListCPU(images, "HWC") if output is None else output]

    def _allocate(self, batch: Batch, encoded: EncodedBatch, regions: Int64s | None) -> TensorListCPU | None:
        """Return memory for the images of a batch; None if their sizes are unknown or implausible."""
        if self._channels is None or (regions is None and not self._takes_memory(batch, encoded)):
            return None
        extents = shown_sizes(encoded, self._options["adjust_orientation"]) if regions is None else regions[:, 2:]
        if (extents <= 0).any():
            return None
        shapes = np.column_stack([extents, np.full(len(extents), self._channels)])
        dtype, for_gpu = np.dtype(self._options["dtype"]), self._reading_gpu is not None
        return allocate_images(batch, self.node, shapes, dtype, self._buffers, for_gpu)

    def _takes_memory(self, batch: Batch, encoded: EncodedBatch) -> bool:
        """Return whether full images are decoded to given memory: if they are JPEGs, or if a cache keeps them."""
        is_placed = batch.place is not no_place and not self._options["palette_indices"]
        return is_placed or bool(encoded.headers["height"].all())


@implements(IMAGE, "mixed")
@implements(IMAGE_CROP, "mixed")
@implements(IMAGE_RANDOM_CROP, "mixed")
@implements(IMAGE_SLICE, "mixed")
class MixedImageDecoder(GpuOperator):
    """Decodes one batch per call. The decoder reuses the memory of a batch after its last view is released.

    The CPU decoder decodes the images and output types that the GPU's libraries don't support. If the output has more
    than 8 bits, it also decodes all files except JPEGs, because the libraries return 8 bits.
    """

    traits = replace(GpuOperator.traits, any_thread=True, only_launches=False, per_sample=True)

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._options = decoding_options(node)
        self.dtype = self._options["dtype"]
        self._output_type = node.argument("output_type")
        self._limit, self._warnings = image_limit(), ImageWarnings(node)
        assert setup.device_id is not None
        self._decoder = ImageBatchDecoder(
            setup.device_id,
            setup.num_threads,
            node.argument("hw_decoder_load"),
            fancy_upsampling=node.argument("jpeg_fancy_upsampling"),
            stream_priority=setup.stream_priority,
        )
        try:
            self._decoder.reserve(setup.gpu_streams, setup.max_batch_size, self._output_type)
        except BaseException:
            self._decoder.close()
            raise
        #: Decodes samples of a batch on the CPU, through the cache of the host; None without such a cache.
        self.on_cores: Callable[[Batch, Int64s], TensorListCPU] | None = None
        #: Batches without readers. Finalizers add to it; they can run in any thread at any time, so they take no lock.
        self._finished: deque[DecodedBatch] = deque()

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        with suppress(IndexError):  # no more; another thread may take the last one
            while True:
                self._finished.popleft().release()
        batch.keep_alive.append(inputs)  # the engine reads them until the stream reaches the decoded images
        encoded = encoded_batch(inputs[0])
        batch.keep_alive.append(encoded)  # possibly copies of the samples, which the engine reads later
        regions = regions_of(self.node, batch, encoded, inputs[1:])
        count = len(encoded)
        offered = self._for_gpu(encoded)
        if not len(offered):
            return [self._decode_on_cpu(batch, encoded, regions, np.arange(count))]
        decoded = self._decoder.decode(
            encoded.select(offered),
            batch.stream,
            output_type=self._output_type,
            regions=None if regions is None else _corners(regions[offered]),
            use_exif=self._options["adjust_orientation"],
        )
        batch.is_repeatable &= decoded.is_repeatable
        try:
            found = np.flatnonzero(decoded.samples.pointers)
            done = offered[found]
            if len(done) == count:
                return [self._output(batch, decoded, decoded.samples, done)]
            rest = np.setdiff1d(np.arange(count), done)
            others = self._decode_on_cpu(batch, encoded, regions, rest)
            if not len(done):
                decoded.release()
                return [others]
            return [self._output(batch, decoded, decoded.samples.take(found), np.append(done, rest), others)]
        except BaseException:
            decoded.release()
            raise

    def close(self) -> None:
        """Free the decoder. The executor calls this after the last batch."""
        self._decoder.close()

    def _for_gpu(self, encoded: EncodedBatch) -> Int64s:
        """Return the positions of the images that the GPU's libraries may decode."""
        if self._output_type not in (RGB, BGR, GRAY):
            return np.arange(0)
        is_jpeg = encoded.headers["height"] > 0
        if self.dtype != np.uint8 or self._options["palette_indices"]:
            return np.flatnonzero(is_jpeg)
        accepted = np.ones(len(encoded), np.bool_)
        for sample in np.flatnonzero(~is_jpeg).tolist():
            image = encoded.arrays[sample]
            accepted[sample] = is_gpu_format(image) and not is_rare_tiff(image, gray=self._output_type == GRAY)
        return np.flatnonzero(accepted)

    def _decode_on_cpu(
        self, batch: Batch, encoded: EncodedBatch, regions: Int64s | None, which: Int64s
    ) -> TensorListGPU:
        """Decode the images at these positions on the CPU, to the dtype of the output, and copy them to the GPU.

        Raises:
            OperatorError: images can't be decoded; the error lists them.
        """
        if self.on_cores is not None:
            return upload(batch, self.on_cores(batch, which))
        images = decode_images(batch, encoded, which, regions, self._options, self._limit, self._warnings)
        return upload(batch, TensorListCPU(images, "HWC"))

    def _output(
        self,
        batch: Batch,
        decoded: DecodedBatch,
        images: Samples,
        positions: Int64s,
        others: TensorListGPU | None = None,
    ) -> TensorListGPU:
        """Return the images as a batch of the requested dtype.

        Args:
            batch: the batch that runs.
            decoded: owner of the memory of `images`. It is released after the output and all views of it, or now if
                the output is a copy.
            images: images of the GPU's libraries.
            positions: positions in the batch of `images`, then of `others`.
            others: images of the CPU decoder, already of the requested dtype.
        """
        if self.dtype == np.uint8:
            if others is not None:
                images = Samples.concatenate([images, others.table()]).take(np.argsort(positions))
            assert self.setup.device_id is not None
            lease = Lease(partial(self._finished.append, decoded))
            return TensorListGPU.from_table(images, (lease, others), self.setup.device_id, "HWC")
        shapes = images.shapes if others is None else np.concatenate([images.shapes, others.table().shapes])
        output, target = allocate(shapes[np.argsort(positions)], self.dtype, "HWC")
        scale, count = full_scale(self.dtype) / 255, len(images)
        pixels = PixelExpression.from_samples(images, "HWC") or PixelExpression.from_elements(images, "HWC")
        assert pixels is not None  # images have three dimensions
        self.launch(pixels.normalize(scale, 0.0, self.dtype).launch(target.take(positions[:count])), batch)
        if others is not None:
            batch.keep_alive.append(others)
            self.launch(plan_strided_copy(others.table(), target.take(positions[count:])), batch)
        decoded.release()
        return output


def _corners(regions: Int64s) -> Int64s:
    """Return windows as y0, x0, y1, x1, with -1 for samples that aren't images."""
    corners = np.where(regions < 0, 0, regions)
    corners[:, 2:] += corners[:, :2]
    corners[regions[:, 0] < 0] = -1
    return corners
