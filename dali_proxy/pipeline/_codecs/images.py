"""Decodes batches of images on the GPU: simple JPEGs on the JPEG engine, all other images with nvImageCodec."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Bools, Int64s
from dali_proxy.pipeline._closing import Closing
from dali_proxy.pipeline._codecs.decoded import DecodedBatch
from dali_proxy.pipeline._codecs.encoded import EncodedBatch
from dali_proxy.pipeline._codecs.engine_memory import EngineMemory
from dali_proxy.pipeline._codecs.nvimgcodec import GpuDecoder
from dali_proxy.pipeline._codecs.nvjpeg import NvjpegDecoder, NvjpegError
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline._size_limit import image_limit
from dali_proxy.pipeline.errors import DeviceError, PipelineError, SampleFailure
from dali_proxy.pipeline.types import BGR, GRAY, RGB, DALIImageType

#: A block of 8 x 8 pixels takes at least two bits of baseline coding: the codes of its mean and of its end.
_PIXELS_PER_BYTE = 256


class ImageBatchDecoder(Closing):
    """A decoder of one GPU. Any thread may call it.

    Args:
        device_id: the CUDA device.
        num_threads: number of CPU threads for images that are decoded on the CPU.
        hw_load: 0 disables the JPEG engine. Otherwise the engine decodes every baseline JPEG that needs no rotation,
            because it is faster alone than together with CUDA (see docs/decisions-gpu.md).
        fancy_upsampling: smooth chroma upsampling, as in libjpeg; slower, and not supported by the engine.
        stream_priority: priority of the streams on which the engine's images are decoded.

    Raises:
        DeviceError: nvImageCodec, libnvjpeg, CuPy or the device is missing.
        CudaError: CUDA failed, or the GPU's memory is full.
    """

    def __init__(
        self,
        device_id: int,
        num_threads: int,
        hw_load: float = 1.0,
        *,
        fancy_upsampling: bool = False,
        stream_priority: int = 0,
    ) -> None:
        self._device_id = device_id
        with_engine = hw_load > 0 and not fancy_upsampling
        self._engine = _open_engine(device_id, stream_priority) if with_engine else None
        self._create_codec = partial(GpuDecoder, device_id, num_threads, fancy_upsampling=fancy_upsampling)
        self._codec_lock = new_lock(Level.IMAGE_DECODER, "image decoder")
        self._codec = self._create_codec() if self._engine is None else None
        self._closed = False
        self._memory = EngineMemory(device_id)

    def reserve(self, batches: int, batch_size: int, output_type: DALIImageType) -> None:
        """Prepare the hardware engine, if it is used, for a number of batches. See `NvjpegDecoder.reserve`.

        Args:
            batches: number of batches that may be decoded, or wait for their turn, at the same time.
            batch_size: usual number of images of a batch.
            output_type: output type of the images.
        """
        if self._engine is not None and output_type in (RGB, BGR, GRAY):
            with suppress(NvjpegError):  # the GPU may be full at present: batches try again
                self._engine.reserve(batches, batch_size, output_type)

    def decode(
        self,
        encoded: EncodedBatch,
        stream: Any,
        *,
        output_type: DALIImageType = RGB,
        regions: Int64s | None = None,
        use_exif: bool = True,
    ) -> DecodedBatch:
        """Decode a batch. The pixels are ready in stream order.

        Args:
            encoded: the images; kept alive until the batch is released.
            stream: `cupy.cuda.Stream`.
            output_type: RGB, BGR or GRAY.
            regions: (N, 4): y0, x0, y1, x1, end exclusive, in pixels after the EXIF orientation is applied. A row of
                -1 decodes the whole image.
            use_exif: apply the EXIF orientation.

        Returns:
            The images, and the failures: an image that can't be decoded doesn't raise an exception.

        Raises:
            PipelineError: the output type is invalid, or the decoder is closed.
            CudaError: CUDA failed.
        """
        easy = self._for_engine(encoded, regions, use_exif)
        if not easy.any():
            return self._decode_others(encoded, np.arange(len(encoded)), stream, output_type, regions, use_exif)
        try:
            decoded = self._decode_on_engine(encoded, np.flatnonzero(easy), stream, output_type, regions)
        except NvjpegError:  # caused by one of the images, and nvImageCodec finds out which; or by lack of memory
            decoded = self._decode_others(encoded, np.arange(len(encoded)), stream, output_type, regions, use_exif)
            decoded.is_repeatable = False
            return decoded
        if easy.all():
            return decoded
        rest = np.flatnonzero(~easy)
        others = self._decode_others(encoded, rest, stream, output_type, regions, use_exif)
        return _merged(len(encoded), self._device_id, np.flatnonzero(easy), decoded, rest, others)

    def close(self) -> None:
        """Free the decoders and idle memory. Batches that weren't released keep their memory. Idempotent."""
        if self._engine is not None:
            self._engine.close()
        with self._codec_lock:
            self._closed = True
            if self._codec is not None:
                self._codec.close()
        self._memory.close()

    def _for_engine(self, encoded: EncodedBatch, regions: Int64s | None, use_exif: bool) -> Bools:
        """Return a mask of the images for the engine: simple JPEGs that need no rotation."""
        if self._engine is None:
            return np.zeros(len(encoded), np.bool_)
        headers = encoded.headers
        easy: Bools = headers["simple"] != 0
        # A damaged header may claim gigabytes. Memory allocated for it would stay allocated.
        pixels = headers["height"].astype(np.int64) * headers["width"]
        easy &= (pixels <= encoded.lengths * _PIXELS_PER_BYTE) & (pixels * 3 <= image_limit())
        if use_exif:
            easy &= headers["orientation"] == 1
        if regions is not None:
            y0, x0, y1, x1 = regions.T
            inside = (y0 >= 0) & (x0 >= 0) & (y0 < y1) & (x0 < x1)
            inside &= (y1 <= headers["height"]) & (x1 <= headers["width"])
            easy &= inside | (y0 < 0)
        return easy

    def _decode_on_engine(
        self, encoded: EncodedBatch, which: Int64s, stream: Any, output_type: DALIImageType,
        regions: Int64s | None,
    ) -> DecodedBatch:  # fmt: skip
        assert self._engine is not None
        headers = encoded.headers[which]
        starts, shapes = np.zeros((len(which), 2), np.int64), np.empty((len(which), 3), np.int64)
        shapes[:, 0], shapes[:, 1] = headers["height"], headers["width"]
        shapes[:, 2] = 1 if output_type == GRAY else 3
        if regions is not None:
            chosen = regions[which]
            given = chosen[:, 0] >= 0
            starts[given], shapes[given, :2] = chosen[given, :2], chosen[given, 2:] - chosen[given, :2]
        _, size = Samples.packed(0, shapes, np.uint8)
        block = self._memory.take(size, stream)
        try:
            target, _ = Samples.packed(int(block.ptr), shapes, np.uint8)
            pointers, lengths = encoded.pointers[which], encoded.lengths[which]
            self._engine.decode(pointers, lengths, starts, target, output_type, stream)
        except BaseException:
            self._memory.give(block, stream)
            raise
        keep_alive = [encoded]

        def release(last: Any) -> None:
            self._memory.give(block, stream if last is None else last)
            keep_alive.clear()

        return DecodedBatch(target, (), self._device_id, [block] * len(which), release)

    def _decode_others(
        self, encoded: EncodedBatch, which: Int64s, stream: Any, output_type: DALIImageType,
        regions: Int64s | None, use_exif: bool,
    ) -> DecodedBatch:  # fmt: skip
        wanted = None if regions is None else [None if row[0] < 0 else row for row in regions[which].tolist()]
        arrays = [encoded.arrays[index] for index in which.tolist()]
        return self._others().decode(
            arrays, stream, output_type=output_type, regions=wanted, use_exif=use_exif, headers=encoded.headers[which]
        )

    def _others(self) -> GpuDecoder:
        """Return nvImageCodec's decoder, created on first use: loading takes a second and isn't always needed."""
        with self._codec_lock:
            if self._closed:
                raise PipelineError("the decoder is closed")
            if self._codec is None:
                self._codec = self._create_codec()
            return self._codec


def _open_engine(device_id: int, stream_priority: int = 0) -> NvjpegDecoder | None:
    try:
        return NvjpegDecoder(device_id, stream_priority)
    except DeviceError:  # most GPUs have no engine; nvImageCodec decodes with CUDA there
        return None


def _merged(
    count: int, device_id: int, first: Int64s, one: DecodedBatch, second: Int64s,
    other: DecodedBatch,
) -> DecodedBatch:  # fmt: skip
    """Return the images of two batches as one batch."""

    def column(name: str) -> Int64s:
        values = getattr(one.samples, name)
        merged = np.empty((count, *values.shape[1:]), np.int64)
        merged[first], merged[second] = values, getattr(other.samples, name)
        return merged

    samples = Samples(column("pointers"), column("shapes"), column("strides"), one.samples.dtype)
    owners: list[Any] = [None] * count
    for positions, batch in ((first, one), (second, other)):
        for position, owner in zip(positions.tolist(), batch.owners, strict=True):
            owners[position] = owner
    failures = tuple(SampleFailure(int(second[failure.sample]), failure.error) for failure in other.failures)

    def release(last: Any) -> None:
        one.release(last)
        other.release(last)

    return DecodedBatch(samples, failures, device_id, owners, release)
