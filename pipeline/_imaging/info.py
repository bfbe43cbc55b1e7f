"""Headers of encoded images, read without decoding the pixels."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from pipeline.errors import DecodeError

__all__ = [
    "Encoded",
    "ImageInfo",
    "TiffTag",
    "as_bytes",
    "jpeg_info",
    "jpeg_orientation",
    "jpeg_segments",
    "peek",
    "tiff_tags",
]

Encoded = npt.NDArray[np.uint8] | bytes | bytearray | memoryview

_EXIF_START = b"Exif\0\0"
_JPEG_START = b"\xff\xd8\xff"
_TIFF_STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_POSTSCRIPT_STARTS = (b"%!PS", b"\xc5\xd0\xd3\xc6")
_PALETTE = 3  # photometric interpretation of TIFF
_LONGEST_SEGMENT = 1 << 16
_INTEGERS = {3: "H", 4: "I", 16: "Q"}  # types of TIFF values, as formats of `struct`
# Number of channels that ANY_DATA decodes for each of pillow's modes.
_CHANNELS = {"1": 1, "L": 1, "F": 1, "I": 1, "I;16": 1, "I;16B": 1, "LA": 4, "RGBA": 4, "CMYK": 4, "PA": 4}


class TiffTag(IntEnum):
    """Tags of a TIFF directory, which EXIF data uses, too."""

    WIDTH = 256
    HEIGHT = 257
    BITS = 258  # per sample
    PHOTOMETRIC = 262
    ORIENTATION = 274
    SAMPLES = 277  # per pixel
    PLANAR = 284  # 2: separate planes
    COLORS = 320  # of the palette
    EXTRA_SAMPLES = 338  # the meaning of those that follow the colors
    SAMPLE_FORMAT = 339  # 1: unsigned, 2: signed, 3: floats


@dataclass(frozen=True)
class ImageInfo:
    """Header of an encoded image.

    Attributes:
        height: stored height in pixels, before the orientation is applied.
        width: stored width in pixels.
        channels: number of channels of the stored image; a palette counts as 3.
        format: name of the format in lower case: jpeg, png, bmp, webp, tiff, ppm, gif, jpeg2000 ...
        orientation: EXIF orientation, 1 to 8; 1 if the header has none.
    """

    height: int
    width: int
    channels: int
    format: str
    orientation: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels after the orientation is applied."""
        if self.orientation >= 5:
            return self.width, self.height, self.channels
        return self.height, self.width, self.channels


def as_bytes(encoded: Encoded) -> memoryview:
    """Return a byte view of encoded data, without a copy if the data is contiguous.

    Raises:
        DecodeError: the data is empty, doesn't consist of bytes, or has more than one axis.
    """
    if isinstance(encoded, np.ndarray):
        if encoded.dtype.itemsize != 1 or encoded.ndim != 1:
            raise DecodeError(
                f"encoded data must be a 1-D uint8 array, not one of shape {encoded.shape} and dtype {encoded.dtype}"
            )
        encoded = memoryview(np.ascontiguousarray(encoded).data)
    view = memoryview(encoded)
    if not view.c_contiguous or view.ndim != 1 or view.format != "B":
        view = memoryview(bytes(view))
    if not view.nbytes:
        raise DecodeError("the encoded data is empty")
    return view


def peek(encoded: Encoded) -> ImageInfo:
    """Read the header of an encoded image.

    Args:
        encoded: 1-D uint8 array or bytes.

    Raises:
        DecodeError: the data is empty, its format is unknown, or its header is damaged.

    Example:
        >>> from PIL import Image, UnidentifiedImageError
        >>> buffer = io.BytesIO()
        >>> Image.new("RGB", (4, 2)).save(buffer, "PNG")
        >>> peek(buffer.getvalue())
        ImageInfo(height=2, width=4, channels=3, format='png', orientation=1)
    """
    view = as_bytes(encoded)
    if bytes(view[:3]) == _JPEG_START:
        return jpeg_info(view)
    if bytes(view[:4]) in _TIFF_STARTS:
        return _tiff_info(view)
    with open_image(view) as image:
        channels = _CHANNELS.get(image.mode, 3)
        exif = _png_exif(view) if image.format == "PNG" else view[:0]
        orientation = _exif_orientation(exif) if exif else _read_orientation(image)
        return ImageInfo(image.height, image.width, channels, str(image.format).lower(), orientation)


def open_image(view: memoryview) -> Image.Image:
    """Open an encoded image with pillow, which reads only the header.

    Raises:
        DecodeError: the format is unknown, or would run another program, or the header is damaged.
    """
    if bytes(view[:4]) in _POSTSCRIPT_STARTS:
        raise DecodeError("the image is PostScript (EPS), which isn't decoded: it is a program for Ghostscript")
    try:
        return Image.open(io.BytesIO(view))
    except Image.DecompressionBombError:  # our limit is another one
        return _open_large_image(view)
    except UnidentifiedImageError as error:
        start = bytes(view[:16])  # shows whether the data is a path, HTML or zeros
        raise DecodeError(f"not an image in a known format: {view.nbytes} bytes that begin with {start!r}") from error
    except (OSError, ValueError, SyntaxError, struct.error) as error:
        raise DecodeError(f"the image's header is damaged: {error}") from error


def _open_large_image(view: memoryview) -> Image.Image:
    """Open an image as `Image.open` does, but without pillow's limit, which belongs to the whole process."""
    for factory, accepts in Image.OPEN.values():
        if accepts is None or accepts(bytes(view[:16])):
            with suppress(SyntaxError, IndexError, TypeError, struct.error):
                return factory(io.BytesIO(view), "")
    raise DecodeError("the image's header is damaged")


def _read_orientation(image: Image.Image) -> int:
    """Return the EXIF orientation in the header of an open pillow image."""
    try:  # not the method of PNGs, which decodes the pixels in search of EXIF data
        value: Any = Image.Image.getexif(image).get(TiffTag.ORIENTATION, 1)
    except (OSError, ValueError, SyntaxError, struct.error, KeyError, TypeError):
        return 1  # Ignore damaged metadata.
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _png_exif(view: memoryview) -> memoryview:
    """Return the EXIF data of a PNG, which may follow the pixels; no bytes if it has none."""
    at = 8
    while at + 12 <= len(view):
        (length,) = struct.unpack_from(">I", view, at)
        if bytes(view[at + 4 : at + 8]) == b"eXIf":
            body = view[at + 8 : at + 8 + length]
            return body[6:] if bytes(body[:6]) == _EXIF_START else body
        at += 12 + length
    return view[:0]


def tiff_tags(view: memoryview) -> dict[int, int]:
    """Return the first value of each integer tag in the first directory of a TIFF structure, also of BigTIFF.

    Entries that lie outside of the data are left out.
    """
    return dict(_tiff_entries(view))


def _tiff_entries(view: memoryview) -> Iterator[tuple[int, int]]:
    order = {b"II": "<", b"MM": ">"}.get(bytes(view[:2]))
    if order is None or len(view) < 16:
        return
    big = bytes(view[2:4]) in (b"+\0", b"\0+")
    word, count_format, size = ("Q", "Q", 20) if big else ("I", "H", 12)
    inline = 8 if big else 4  # longer values are elsewhere
    (offset,) = struct.unpack_from(order + word, view, 8 if big else 4)
    if offset + inline > len(view):
        return
    (count,) = struct.unpack_from(order + count_format, view, offset)
    first = offset + struct.calcsize(count_format)
    for entry in range(first, min(first + size * count, len(view) - size + 1), size):
        tag, kind, length = struct.unpack_from(order + "HH" + word, view, entry)
        letter = _INTEGERS.get(kind)
        if letter is None or not length:
            continue
        start = entry + size - inline
        if struct.calcsize(letter) * length > inline:
            (start,) = struct.unpack_from(order + word, view, start)
        if start + struct.calcsize(letter) <= len(view):
            yield tag, struct.unpack_from(order + letter, view, start)[0]


def _tiff_info(view: memoryview) -> ImageInfo:
    tags = tiff_tags(view)
    height, width = tags.get(TiffTag.HEIGHT, 0), tags.get(TiffTag.WIDTH, 0)
    if not height or not width:
        raise DecodeError(f"the TIFF of {view.nbytes} bytes ends, or is damaged, before its size")
    channels = 3 if tags.get(TiffTag.PHOTOMETRIC) == _PALETTE else tags.get(TiffTag.SAMPLES, 1)
    orientation = tags.get(TiffTag.ORIENTATION, 1)
    return ImageInfo(height, width, channels, "tiff", orientation if 1 <= orientation <= 8 else 1)


def jpeg_info(view: memoryview) -> ImageInfo:
    """Read a JPEG's header: walk its markers up to the frame, within a few microseconds.

    Raises:
        DecodeError: the data ends before the frame header, or isn't a sequence of markers.
    """
    orientation = 1
    for marker, body in jpeg_segments(view):
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            if len(body) < 6:
                break
            height, width, channels = struct.unpack_from(">HHB", body, 1)
            if not height or not width:
                raise DecodeError(f"the JPEG's header gives a size of {width} by {height}")
            return ImageInfo(height, width, channels, "jpeg", orientation)
        if marker == 0xE1 and orientation == 1:
            orientation = jpeg_orientation(body)
        elif marker in (0xD9, 0xDA):
            break
    raise DecodeError(f"the JPEG of {view.nbytes} bytes ends, or is damaged, before its size")


def jpeg_segments(view: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the marker and the body of each segment of a JPEG. The body is shorter in truncated data.

    Compressed data follows the marker 0xDA, so callers must stop there. The iterator ends at the end marker.
    """
    position, end = 2, view.nbytes
    while position + 4 <= end:
        if view[position] != 0xFF:
            # Some writers leave bytes between segments. Decoders warn and skip them; this function skips them too.
            skipped = bytes(view[position : position + _LONGEST_SEGMENT]).find(b"\xff")
            if skipped < 0:
                return
            position += skipped
            continue
        marker = view[position + 1]
        if marker == 0xFF or marker == 0x00 or 0xD0 <= marker <= 0xD8 or marker == 0x01:
            position += 1 if marker == 0xFF else 2
            continue
        if marker == 0xD9:
            return
        length = view[position + 2] << 8 | view[position + 3]
        yield marker, view[position + 4 : position + 2 + length]
        position += 2 + max(length, 2)


def jpeg_orientation(body: memoryview) -> int:
    """Return the EXIF orientation from a JPEG's segment 0xE1, or 1 if it has none."""
    return _exif_orientation(body[6:]) if bytes(body[:6]) == _EXIF_START else 1


def _exif_orientation(tiff: memoryview) -> int:
    """Return the orientation from the first directory of a TIFF structure, or 1 if it has none."""
    value = next((value for tag, value in _tiff_entries(tiff) if tag == TiffTag.ORIENTATION), 1)
    return value if 1 <= value <= 8 else 1
