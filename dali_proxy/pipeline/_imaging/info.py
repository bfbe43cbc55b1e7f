"""Headers of encoded images, read without decoding the pixels."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from dali_proxy.pipeline._arrays import Bytes
from dali_proxy.pipeline.errors import DecodeError

#: Most scans of a JPEG, so that a small file isn't minutes of work. Encoders write at most a few dozen.
MOST_SCANS = 200

Encoded = Bytes | bytes | bytearray | memoryview

_EXIF_START = b"Exif\0\0"
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Number of channels that ANY_DATA decodes for each color type: gray, colors, palette, gray and alpha, colors and alpha.
_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 4, 6: 4}
_POSTSCRIPT_STARTS = (b"%!PS", b"\xc5\xd0\xd3\xc6")
_OPENEXR_START = b"v/1\x01"
_PALETTE = 3  # photometric interpretation of TIFF
_LONGEST_PNM_HEADER = 4096
_PNM = re.compile(rb"P[2356]" + rb"(?:\s+(?:#[^\n]*\n\s*)*)\d+" * 2 + rb"(?:\s+(?:#[^\n]*\n\s*)*)(\d{1,5})\s")
_LONGEST_SEGMENT = 1 << 16
_ORDERS = {b"II": "<", b"MM": ">"}
# Types of TIFF values, as formats of `struct`; the last two are those of BigTIFF.
_INTEGERS = {1: "B", 3: "H", 4: "I", 6: "b", 8: "h", 9: "i", 16: "Q", 17: "q"}
# Number of channels that ANY_DATA decodes for each of pillow's modes.
PIL_CHANNELS = {"1": 1, "L": 1, "F": 1, "I": 1, "I;16": 1, "I;16B": 1, "LA": 4, "RGBA": 4, "CMYK": 4, "PA": 4}


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


def open_image(view: memoryview, known: str = "") -> Image.Image:
    """Open an encoded image with pillow, which reads only the header. The error lists the `known` formats.

    Raises:
        DecodeError: the format is unknown, or would run another program, or the header is damaged.
    """
    if bytes(view[:4]) in _POSTSCRIPT_STARTS:
        raise DecodeError("the image is PostScript (EPS), which isn't decoded: it is a program for Ghostscript")
    if bytes(view[:4]) == _OPENEXR_START:
        raise DecodeError(
            "the image is OpenEXR, which isn't decoded: convert it to TIFF or .npy, or read it in the dataset and pass "
            "the array"
        )
    try:
        return Image.open(io.BytesIO(view))
    except Image.DecompressionBombError:  # our limit is another one
        return _open_large_image(view)
    except UnidentifiedImageError as error:
        start = bytes(view[:16])  # shows whether the data is a path, HTML or zeros
        known = f"; known are {known}" if known else ""
        message = f"not an image in a known format: {view.nbytes} bytes that begin with {start!r}{known}"
        raise DecodeError(message) from error
    except (OSError, ValueError, SyntaxError, struct.error) as error:
        raise DecodeError(f"the image's header is damaged: {error}") from error


def _open_large_image(view: memoryview) -> Image.Image:
    """Open an image as `Image.open` does, but without pillow's limit, which belongs to the whole process."""
    for factory, accepts in Image.OPEN.values():
        if accepts is None or accepts(bytes(view[:16])):
            try:
                with suppress(SyntaxError, IndexError, TypeError, struct.error):
                    return factory(io.BytesIO(view), "")
            except Image.DecompressionBombError as error:  # pillow checks the frames of a GIF here
                raise DecodeError(f"the image's header is damaged, or the image is too large: {error}") from error
    raise DecodeError("the image's header is damaged")


def read_orientation(image: Image.Image) -> int:
    """Return the EXIF orientation in the header of an open pillow image."""
    try:  # not the method of PNGs, which decodes the pixels in search of EXIF data
        value: Any = Image.Image.getexif(image).get(TiffTag.ORIENTATION, 1)
    except (OSError, ValueError, SyntaxError, struct.error, KeyError, TypeError):
        return 1  # Ignore damaged metadata.
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def png_chunks(view: memoryview) -> Iterator[tuple[bytes, int, int]]:
    """Yield the name of each chunk of a PNG, and the position and the length of its body. The last may be truncated."""
    at = len(PNG_SIGNATURE)
    while at + 8 <= len(view):
        length, name = struct.unpack_from(">I4s", view, at)
        yield name, at + 8, length
        at += 12 + length


def png_info(view: memoryview) -> ImageInfo:
    """Read the header of a PNG, and its EXIF data, which may follow the pixels.

    pillow also reads other chunks, and refuses images whose text or color profile is large or damaged.

    Raises:
        DecodeError: the header is damaged.
    """
    chunks = png_chunks(view)
    name, at, length = next(chunks, (b"", 0, 0))
    if name != b"IHDR" or length != 13 or at + length > len(view):
        raise DecodeError("the image's header is damaged: a PNG must begin with its size")
    width, height, _, color = struct.unpack_from(">IIBB", view, at)
    if not width or not height or color not in _PNG_CHANNELS:
        raise DecodeError(f"the image's header is damaged: a PNG of {width} x {height} pixels of the type {color}")
    exif = next((view[start : start + size] for each, start, size in chunks if each == b"eXIf"), view[:0])
    exif = exif[6:] if bytes(exif[:6]) == _EXIF_START else exif
    return ImageInfo(height, width, _PNG_CHANNELS[color], "png", _exif_orientation(exif))


def tiff_tags(view: memoryview) -> dict[int, int]:
    """Return the first value of each integer tag in the first directory of a TIFF structure, also of BigTIFF.

    Entries that lie outside of the data are left out.
    """
    return dict(_tiff_entries(view))


def _tiff_entries(view: memoryview) -> Iterator[tuple[int, int]]:
    order = _ORDERS.get(bytes(view[:2]))
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
        letter = _INTEGERS.get(kind) if kind < 16 or big else None
        if letter is None or not length:
            continue
        start = entry + size - inline
        if struct.calcsize(letter) * length > inline:
            (start,) = struct.unpack_from(order + word, view, start)
        if start + struct.calcsize(letter) <= len(view):
            value = struct.unpack_from(order + letter, view, start)[0]
            if value >= 0:
                yield tag, value


def tiff_info(view: memoryview) -> ImageInfo:
    """Read the header of a TIFF.

    Raises:
        DecodeError: the data ends, or is damaged, before the size.
    """
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
    """Return the orientation from the first directory of a TIFF structure, or 1 if it has none.

    Its type is SHORT or LONG, with or without a sign. As in DALI, the count is ignored. `_codecs/_native.c` does the
    same.
    """
    order = _ORDERS.get(bytes(tiff[:2]))
    if order is None or len(tiff) < 8:
        return 1
    (offset,) = struct.unpack_from(order + "I", tiff, 4)
    if offset > len(tiff) - 2:
        return 1
    (count,) = struct.unpack_from(order + "H", tiff, offset)
    for entry in range(offset + 2, min(offset + 2 + 12 * count, len(tiff) - 11), 12):
        tag, kind = struct.unpack_from(order + "HH", tiff, entry)
        if tag == TiffTag.ORIENTATION:
            value = struct.unpack_from(order + _INTEGERS[kind], tiff, entry + 8)[0] if kind in (3, 4, 8, 9) else 1
            return value if 1 <= value <= 8 else 1
    return 1


def has_many_scans(view: memoryview) -> bool:
    """Return whether a JPEG has more scans than `MOST_SCANS`. Each of them is as much work as a whole image."""
    return bytes(view).count(b"\xff\xda") > MOST_SCANS


def is_single_scan(view: memoryview) -> bool:
    """Return whether a JPEG is sequential and its first scan has all components: the decoder needs no other one."""
    sequential, components = False, b""
    for marker, body in jpeg_segments(view):
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            sequential, components = marker <= 0xC1, bytes(body[5:6])
        elif marker == 0xDA:
            return sequential and bytes(body[:1]) == components
    return False


def pnm_maximum(view: memoryview) -> int:
    r"""Return the value of white in the header of a PGM or PPM; 0 for other images.

    Example:
        >>> pnm_maximum(memoryview(b"P5 # a comment\n4 4\n1023\n"))
        1023
    """
    found = _PNM.match(view[:_LONGEST_PNM_HEADER])
    return int(found[1]) if found else 0
