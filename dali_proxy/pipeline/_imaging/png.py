"""Decoding of the PNGs that datasets have: 8 bits, not interlaced.

Most of the time of a PNG is inflation, at which libdeflate takes a half (photographs) to a fortieth (masks) of zlib's
time, which OpenCV and pillow use.
"""

from __future__ import annotations

import struct

import deflate
import numpy as np

from dali_proxy.pipeline._arrays import Array, Bytes
from dali_proxy.pipeline._imaging.info import PNG_SIGNATURE, png_chunks
from dali_proxy.pipeline._imaging.native import compiled

_SAMPLES = {0: 1, 2: 3, 3: 1, 6: 4}  # of a pixel, by the color type
_PALETTE, _LARGEST_PALETTE = 3, 256 * 3  # color type, bytes
# Chunks that don't change pixels: OpenCV and DALI don't convert colors by profiles, either.
_HARMLESS = frozenset(
    (b"cHRM", b"eXIf", b"gAMA", b"iCCP", b"iTXt", b"pHYs", b"sBIT", b"sRGB", b"tEXt", b"tIME", b"zTXt")
)


def decode_plain_png(view: memoryview, out: Array | None = None) -> tuple[Bytes, Bytes | None] | None:
    """Return the samples of a PNG as they are stored, HWC, and its palette: RGB, ``[number, 3]``, or None.

    Args:
        view: the file.
        out: memory for the samples, used if its shape, dtype and order fit.

    Returns:
        None if it has a rare form, for example interlaced or transparent by a color, or if it is damaged.
    """
    if compiled is None or bytes(view[:8]) != PNG_SIGNATURE:
        return None
    chunks = _chunks_of_image(view)
    if not chunks or chunks[0][0] != b"IHDR" or chunks[-1][0] != b"IEND":
        return None
    data: list[memoryview] = []
    palette, ended = None, False
    for name, at, length in chunks:
        if at + length + 4 > len(view):
            return None
        if deflate.crc32(view[at - 4 : at + length]) != struct.unpack_from(">I", view, at + length)[0]:
            return None
        if name == b"IDAT" and not ended:
            data.append(view[at : at + length])
            continue
        ended = ended or bool(data)
        if name == b"PLTE" and palette is None and not data and length % 3 == 0 and length <= _LARGEST_PALETTE:
            palette = np.frombuffer(view[at : at + length], np.uint8).reshape(-1, 3)
        elif name not in _HARMLESS and name not in (b"IHDR", b"IEND"):
            return None
    width, height, bits, color, *methods = struct.unpack_from(">IIBBBBB", view, chunks[0][1])
    if bits != 8 or color not in _SAMPLES or any(methods) or (color == _PALETTE) != (palette is not None):
        return None
    shape = (height, width, _SAMPLES[color])
    nbytes = height * (1 + width * shape[2])  # each row begins with the number of its filter
    try:
        rows = deflate.zlib_decompress(data[0] if len(data) == 1 else b"".join(data), nbytes)
    except deflate.DeflateError:
        return None
    if len(rows) != nbytes:
        return None
    fits = out is not None and out.shape == shape and out.dtype == np.uint8 and out.flags.c_contiguous
    pixels = out if out is not None and fits else np.empty(shape, np.uint8)
    if not compiled.unfilter_png(rows, pixels):
        return None
    if palette is not None and int(pixels.max()) >= len(palette):
        return None
    return pixels, palette


def _chunks_of_image(view: memoryview) -> list[tuple[bytes, int, int]]:
    """Return the chunks of a PNG up to the first that ends it: what follows isn't a part of the image."""
    chunks = []
    for chunk in png_chunks(view):
        chunks.append(chunk)
        if chunk[0] == b"IEND":
            break
    return chunks
