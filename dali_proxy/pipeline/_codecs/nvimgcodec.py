"""Decodes batches of images with nvImageCodec: with CUDA, or on the host."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Array, Bytes, Int64s
from dali_proxy.pipeline._closing import Closing
from dali_proxy.pipeline._codecs.decoded import DecodedBatch
from dali_proxy.pipeline._codecs.encoded import EncodedBatch
from dali_proxy.pipeline._codecs.missing import require_codec
from dali_proxy.pipeline._codecs.stream_free_list import StreamFreeList
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._cuda.errors import load_cupy, require_device
from dali_proxy.pipeline._imaging.formats import FORMATS
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline._size_limit import check_image
from dali_proxy.pipeline.errors import DecodeError, DeviceError, PipelineError, SampleFailure
from dali_proxy.pipeline.types import BGR, GRAY, RGB, DALIImageType

# Colour space and sample format of nvImageCodec, by name, for each output.
_FORMATS = {RGB: ("SRGB", "I_RGB"), BGR: ("SRGB", "I_BGR"), GRAY: ("GRAY", "I_Y")}
_CHANNELS = {RGB: 3, BGR: 3, GRAY: 1}

_CODESTREAM = re.compile(rb"\xff\x4f\xff\x51")  # start of JPEG 2000 data, which may lie in a file of boxes
_SIZE = struct.Struct(">4x16xII8xH")  # of an image and its tiles: the tiles' width and height, the number of components
_GPU_STARTS = tuple(magic for each in FORMATS if each.gpu for magic in each.magic)

# Streams of all decodings. nvImageCodec frees an image on its stream when the last reference to the image is dropped.
# The stream must still exist then, so it is never destroyed.
_STREAMS: dict[int, Any] = {}


class GpuDecoder(Closing):
    """A decoder of one device. Any thread may call it; calls are serialized.

    Later batches on the same stream reuse the images of released batches. Allocations stop when the images have grown
    to the sizes of the data.

    Args:
        device_id: the CUDA device. With None, nvImageCodec's CPU decoders decode on the host, without a GPU.
        num_threads: number of CPU threads for images that are decoded on the CPU; 0 for one per core.
        fancy_upsampling: smooth chroma upsampling, as in libjpeg; slower.

    Raises:
        DeviceError: nvImageCodec, libnvjpeg, CuPy or the device is missing.

    Example:
        >>> with GpuDecoder(0, num_threads=4) as decoder:  # doctest: +SKIP
        ...     batch = decoder.decode(encoded, stream)
        ...     context.run_plan(ResamplePlan(batch.samples, target), stream)
        ...     batch.release()
    """

    def __init__(self, device_id: int | None, num_threads: int, *, fancy_upsampling: bool = False) -> None:
        codec = require_codec()
        self.device_id = device_id
        self._codec = codec
        kinds = codec.BackendKind
        if device_id is None:
            backends = [codec.Backend(kinds.CPU_ONLY)]
        else:
            require_device(device_id)
            # Not CPU_ONLY: its decoders of TIFF and JPEG 2000 write beyond their memory if a file is damaged.
            # Not HW_GPU_ONLY: the engine doesn't follow the order of the stream, and its calls could deadlock with
            # those of `NvjpegDecoder`.
            backends = [codec.Backend(kind) for kind in (kinds.GPU_ONLY, kinds.HYBRID_CPU_GPU)]
        try:
            self._decoder: Any = codec.Decoder(
                device_id=codec.NVIMGCODEC_DEVICE_CPU_ONLY if device_id is None else device_id,
                max_num_cpu_threads=num_threads,
                backends=backends,
                options=f":fancy_upsampling={int(fancy_upsampling)}",
            )
        except RuntimeError as error:
            raise DeviceError(f"nvImageCodec can't create a decoder for device {device_id}: {error}") from error
        self._lock = new_lock(Level.IMAGE_CODEC, "image codec")
        self._idle = StreamFreeList(device_id)  # released images

    def decode(
        self,
        encoded: Sequence[Bytes],
        stream: Any = None,
        *,
        output_type: DALIImageType = RGB,
        regions: Sequence[Sequence[int] | None] | Int64s | None = None,
        use_exif: bool = True,
        headers: Array | None = None,
    ) -> DecodedBatch:
        """Decode a batch. The pixels are ready in stream order; this call doesn't wait for the device.

        Args:
            encoded: one-dimensional uint8 arrays, each with the bytes of a file; kept alive until the batch is
                released.
            stream: `cupy.cuda.Stream`; None only for a decoder without a GPU.
            output_type: RGB, BGR or GRAY.
            regions: for each image None or (y0, x0, y1, x1), end exclusive, in pixels after the EXIF orientation is
                applied; or an (N, 4) array.
            use_exif: apply the EXIF orientation.
            headers: result of `read_headers` for the images, if known.

        Returns:
            The images, and the failures: an image that can't be decoded doesn't raise an exception.

        Raises:
            PipelineError: the output type or the regions are invalid, or the decoder is closed.
            CudaError: CUDA failed.
        """
        if output_type not in _FORMATS:
            raise PipelineError(f"the GPU decodes to RGB, BGR or GRAY, not {output_type!r}")
        if stream is None and self.device_id is not None:
            raise PipelineError("decoding on the GPU needs a stream")
        if regions is not None and len(regions) != len(encoded):
            raise PipelineError(f"{len(regions)} regions for {len(encoded)} images")
        if stream is not None:
            _STREAMS.setdefault(int(stream.ptr), stream)
        failures: dict[int, SampleFailure] = {}
        sources = [self._source(i, data, regions, failures) for i, data in enumerate(encoded)]
        _refuse(encoded, headers, sources, failures)
        good = [i for i, source in enumerate(sources) if source is not None]
        color, layout = _FORMATS[output_type]
        params = self._codec.DecodeParams(
            apply_exif_orientation=use_exif,
            color_spec=getattr(self._codec.ColorSpec, color),
            sample_format=getattr(self._codec.SampleFormat, layout),
        )
        images: list[Any] = [None] * len(encoded)
        if good:
            decoded = self._decode([sources[i] for i in good], params, stream)
            for i, image in zip(good, decoded, strict=True):
                images[i] = image
                if image is None:
                    failures[i] = SampleFailure(i, DecodeError(_undecodable(sources[i])))
        samples = _describe(images, _CHANNELS[output_type])
        found = tuple(failures[i] for i in sorted(failures))
        keep_alive = [sources, encoded]

        def release(last: Any) -> None:
            self._idle.put([image for image in images if image is not None], stream, last)
            keep_alive.clear()

        return DecodedBatch(samples, found, self.device_id, images, release)

    def close(self) -> None:
        """Free the decoder and its idle images. Batches that weren't released keep their images. Idempotent."""
        with self._lock:
            self._decoder = None
        self._idle.close()

    def _source(self, index: int, data: Bytes, regions: Any, failures: dict[int, SampleFailure]) -> Any:
        """Return the code stream of an image, or None after recording its failure."""
        try:
            if data.dtype != np.uint8 or data.ndim != 1 or data.size == 0:
                raise DecodeError(f"not an encoded image: an array of {data.dtype} of shape {data.shape}")
            data = np.ascontiguousarray(data)
            if _ends_the_process(data):
                raise DecodeError("a damaged JPEG 2000 image: it has no components, or tiles without pixels")
            source = self._codec.CodeStream(data)
            height, width = source.height, source.width  # reads the header; the EXIF orientation may swap them
            check_image(height, width, 3)
            region = None if regions is None else regions[index]
            if region is None:
                return source
            y0, x0, y1, x1 = (int(value) for value in region)
            if not (0 <= y0 < y1 <= max(height, width) and 0 <= x0 < x1 <= max(height, width)):
                raise DecodeError(f"the region {(y0, x0, y1, x1)} exceeds the image of {height} x {width}")
            return source.get_sub_code_stream(0, self._codec.Region(y0, x0, y1, x1))
        except DecodeError as error:
            failures[index] = SampleFailure(index, error)
        except (RuntimeError, ValueError) as error:
            head = data[:4].tobytes().hex(" ")
            reason = (
                f"not an image format that nvImageCodec supports: {error} ({data.size} bytes that begin with {head})"
            )
            failures[index] = SampleFailure(index, DecodeError(reason))
        return None

    def _decode(self, sources: list[Any], params: Any, stream: Any) -> list[Any]:
        with self._lock:
            if self._decoder is None:
                raise PipelineError("the decoder is closed")
            reused = self._idle.take(len(sources), stream)
            options = {"images": reused + [None] * (len(sources) - len(reused))} if reused else {}
            try:
                if self.device_id is None:
                    return list(self._decoder.decode(sources, params=params, **options))
                with load_cupy().cuda.Device(self.device_id):
                    return list(self._decoder.decode(sources, params=params, cuda_stream=stream.ptr, **options))
            except (RuntimeError, ValueError) as error:
                raise PipelineError(f"nvImageCodec failed for the whole batch: {error}") from error


def _refuse(
    encoded: Sequence[Any], headers: Array | None, sources: list[Any], failures: dict[int, SampleFailure]
) -> None:
    """Fail JPEGs that nvImageCodec 0.9 decodes without an error, but to other pixels than the CPU.

    It takes red, green and blue for luma and chroma, it doesn't convert inks, and it fills what is missing with gray.
    """
    valid = [i for i, source in enumerate(sources) if source is not None]
    known = EncodedBatch.from_arrays([encoded[i] for i in valid]).headers if headers is None else headers[valid]
    columns = (known[name].tolist() for name in ("rgb", "components", "suspect"))
    for i, rgb, components, suspect in zip(valid, *columns, strict=True):
        if rgb:
            reason = "a JPEG that stores red, green and blue instead of luma and chroma; use device='cpu'"
        elif components == 4:
            reason = "a JPEG that stores cyan, magenta, yellow and black instead of luma and chroma; use device='cpu'"
        elif suspect:
            reason = "a JPEG without an end marker, or with too many scans"
        else:
            continue
        sources[i] = None
        failures[i] = SampleFailure(i, DecodeError(reason))


def is_gpu_format(encoded: Bytes) -> bool:
    """Return whether an encoded image has a format that nvImageCodec decodes on a GPU.

    Example:
        >>> is_gpu_format(np.frombuffer(b"BM: not such a format", np.uint8))
        False
    """
    return bytes(encoded[:16]).startswith(_GPU_STARTS)


def _ends_the_process(data: Bytes) -> bool:
    """Return whether nvImageCodec 0.9 would divide by zero when it reads the header of a JPEG 2000 image."""
    if bytes(data[:3]) == b"\xff\xd8\xff":  # a JPEG
        return False
    sizes = (bytes(data[found.end() : found.end() + _SIZE.size]) for found in _CODESTREAM.finditer(data.data))
    return any(len(size) < _SIZE.size or 0 in _SIZE.unpack(size) for size in sizes)


def _undecodable(source: Any) -> str:
    return (
        f"nvImageCodec can't decode this {source.codec_name} image of {source.height} x {source.width}: "
        "the image is corrupt, truncated or of an unsupported kind, or the GPU's memory is full "
        "(nvImageCodec prints the reason to stderr)"
    )


def _describe(images: list[Any], channels: int) -> Samples:
    pointers = np.zeros(len(images), np.int64)
    shapes = np.zeros((len(images), 3), np.int64)
    shapes[:, 2] = channels
    strides = np.ones((len(images), 3), np.int64)
    for i, image in enumerate(images):
        if image is not None:
            host = image.cuda_stream is None
            interface = image.__array_interface__ if host else image.__cuda_array_interface__
            pointers[i] = interface["data"][0]
            shapes[i], strides[i] = image.shape, image.strides
    return Samples(pointers, shapes, strides, np.dtype(np.uint8))
