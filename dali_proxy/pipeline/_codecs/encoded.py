"""Encoded images of a batch, the input of the decoders: columns of addresses, sizes and headers; arrays on demand."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Array, Bytes, Int64s
from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._codecs.native import compiled
from dali_proxy.pipeline._imaging.info import has_many_scans, jpeg_orientation, jpeg_segments
from dali_proxy.pipeline.errors import DecodeError

HEADER = np.dtype(
    [(name, "i4") for name in ("height", "width", "components", "orientation", "simple", "rgb", "suspect")], align=True
)
"""The header of a JPEG. Sizes are those before the orientation is applied; they are 0 for data that isn't a JPEG.
`simple` means that the image is complete, 8-bit baseline coded in one scan, and gray, 4:4:4, 4:4:0, 4:2:2 or 4:2:0 with
luma and chroma. `rgb` means that it stores red, green and blue instead of luma and chroma. `suspect` means that
the scan or the end marker is missing, or that there are more scans than `MOST_SCANS`."""

_NONE = (0, 0, 0, 1, 0, 0, 0)
_START, _END, _SCAN, _BASELINE, _SEQUENTIAL, _EXIF, _ADOBE = b"\xff\xd8\xff", b"\xff\xd9", 0xDA, 0xC0, 0xC1, 0xE1, 0xEE
_NO_FRAMES = (0xC4, 0xC8, 0xCC)
_TAIL = 66  # number of last bytes to search for the end marker
_SAMPLINGS = ((0x11,), (0x11, 0x11, 0x11), (0x12, 0x11, 0x11), (0x21, 0x11, 0x11), (0x22, 0x11, 0x11))


class EncodedBatch:
    """Encoded images in host memory.

    Args:
        pointers: (N,) int64, addresses of the images.
        lengths: (N,) int64, sizes of the images in bytes.
        arrays: function that returns the images as one-dimensional uint8 arrays.
        owner: object that owns their memory.
        headers: the JPEG headers of the images, as `HEADER`; None to read them.

    Example:
        >>> EncodedBatch.from_arrays([np.zeros(3, np.uint8), np.zeros(5, np.uint8)]).lengths.tolist()
        [3, 5]
    """

    def __init__(
        self,
        pointers: Int64s,
        lengths: Int64s,
        arrays: Callable[[], Sequence[Bytes]],
        owner: Any = None,
        headers: Array | None = None,
    ) -> None:
        self.pointers = pointers
        self.lengths = lengths
        self.owner = owner
        self.headers = read_headers(pointers, lengths) if headers is None else headers
        self._create_arrays = arrays

    @classmethod
    def from_arrays(cls, arrays: Sequence[Bytes]) -> EncodedBatch:
        """Describe one-dimensional uint8 arrays. Arrays that aren't contiguous are copied."""
        arrays = [np.ascontiguousarray(array) for array in arrays]
        pointers = np.array([array.ctypes.data for array in arrays], np.int64)
        return cls(pointers, np.array([array.nbytes for array in arrays], np.int64), lambda: arrays, arrays)

    def __len__(self) -> int:
        return len(self.pointers)

    def select(self, indices: Int64s) -> EncodedBatch:
        """Return the images at these positions, in ascending order; the batch itself if these are all."""
        if len(indices) == len(self):
            return self
        arrays = self.arrays
        return EncodedBatch(
            self.pointers[indices],
            self.lengths[indices],
            lambda: [arrays[index] for index in indices],
            self,
            self.headers[indices],
        )

    @cached_property
    def arrays(self) -> Sequence[Bytes]:
        """The images, one array each."""
        return self._create_arrays()


def flat_bytes(sample: Array) -> Bytes:
    """Return the bytes of a sample, without a copy if it is contiguous.

    Args:
        sample: array of an integer type, with at most one dimension of more than one element.

    Raises:
        DecodeError: the sample has the shape or the type of decoded pixels.

    Example:
        >>> flat_bytes(np.zeros((1, 5), np.uint8)).shape
        (5,)
    """
    if sample.ndim == 1 and sample.dtype == np.uint8:
        return sample
    if sample.ndim > 2 or (sample.ndim == 2 and min(sample.shape) > 1) or sample.dtype.kind == "f":
        raise DecodeError(
            f"the bytes of a file are needed, but this is an array of {sample.dtype} of shape {sample.shape}, like "
            "decoded pixels: pass the content of the file, such as path.read_bytes(), or, for pixels, leave the "
            "decoder out of the pipeline"
        )
    return np.ascontiguousarray(sample).reshape(-1).view(np.uint8)


def read_headers(pointers: Int64s, lengths: Int64s) -> Array:
    """Read the headers of encoded images; with the C module, in less than a microsecond each.

    Args:
        pointers: (N,) addresses of their bytes. The caller keeps the memory alive.
        lengths: (N,) sizes in bytes.

    Returns:
        (N,) of `HEADER`. Damaged headers count as data that isn't a JPEG.

    Example:
        >>> import simplejpeg
        >>> data = np.frombuffer(simplejpeg.encode_jpeg(np.zeros((4, 6, 3), np.uint8)), np.uint8)
        >>> read_headers(np.array([data.ctypes.data]), np.array([data.size]))["width"].tolist()
        [6]
    """
    rows = np.zeros(len(pointers), HEADER)
    if compiled is not None:
        compiled.headers(np.ascontiguousarray(pointers, np.int64), np.ascontiguousarray(lengths, np.int64), rows)
        return rows
    for index, (pointer, length) in enumerate(zip(pointers.tolist(), lengths.tolist(), strict=True)):
        rows[index] = _read(memoryview((ctypes.c_uint8 * length).from_address(pointer)).cast("B")) if length else _NONE
    return rows


def _read(data: memoryview) -> tuple[int, ...]:
    if bytes(data[:3]) != _START:
        return _NONE
    height = width = components = 0
    orientation, baseline, sequential, rgb, named_rgb = 1, False, False, False, False
    for marker, body in jpeg_segments(data):
        if 0xC0 <= marker <= 0xCF and marker not in _NO_FRAMES:
            if width or len(body) < 6:
                return _NONE
            height, width, components = body[1] << 8 | body[2], body[3] << 8 | body[4], body[5]
            if not height or not width:
                return _NONE
            sampling = tuple(body[7 + 3 * index] for index in range(components) if 7 + 3 * index < len(body))
            complete = len(body) >= 6 + 3 * components
            sequential = marker <= _SEQUENTIAL
            baseline = marker == _BASELINE and body[0] == 8 and complete and sampling in _SAMPLINGS
            named_rgb = complete and components == 3 and bytes(body[6:15:3]) == b"RGB"
        elif marker == _EXIF and orientation == 1 and not width:
            orientation = jpeg_orientation(body)
        elif marker == _ADOBE:  # its last byte is 0 if colors weren't converted to luma and chroma
            rgb |= len(body) >= 12 and bytes(body[:5]) == b"Adobe" and body[11] == 0
        elif marker == _SCAN:
            if not width:
                return _NONE
            rgb = named_rgb or (rgb and components == 3)
            simple = baseline and not rgb and len(body) >= 1 and body[0] == components
            ends = _END in bytes(data[-_TAIL:])
            suspect = not ends or (not (sequential and bytes(body[:1]) == bytes([components])) and has_many_scans(data))
            return height, width, components, orientation, int(simple and ends), int(rgb), int(suspect)
    return (height, width, components, orientation, 0, int(named_rgb), 1) if width else _NONE
