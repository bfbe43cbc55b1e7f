"""TIFFs of several bands, as geographic and scientific programs write them: layouts that pillow doesn't know.

pillow decodes them as gray images: a new directory of tags describes pixels of several bands as gray pixels of a wider
image, or each plane as an image.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from PIL import Image

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._imaging.info import TiffTag, open_image
from dali_proxy.pipeline.errors import DecodeError

_GRAY, _COLORS = 1, 2  # photometric interpretations
_SEPARATE = 2  # planes
_DIFFERENCES = 2  # the predictor that stores differences to the pixel before
_COMPRESSION, _PREDICTOR, _TILE_WIDTH = 259, 317, 322
_OFFSETS = (273, 279, 324, 325)  # offsets and sizes of strips and tiles
#: Tags of the new directory.
_KEPT = (256, 257, 258, _COMPRESSION, 262, 266, 277, 278, 284, _PREDICTOR, _TILE_WIDTH, 323, 339, *_OFFSETS)
_ROW_BY_ROW = (1, 5, 8, 32773, 32946, 34925, 50000)  # compressions of bytes: none, LZW, deflate, packed bits, LZMA, ...
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 6: 1, 7: 1, 8: 2, 9: 4, 16: 8, 17: 8}
_SHORT, _LONG = 3, 4
_FLOATS = 3  # sample format


def is_banded(tags: Mapping[int, int]) -> bool:
    """Return whether a TIFF with `tiff_tags` has bands that are neither gray with alpha nor colors with alpha."""
    samples, extra = tags.get(TiffTag.SAMPLES, 1), tags.get(TiffTag.EXTRA_SAMPLES)
    wide = tags.get(TiffTag.BITS, 1) > 8
    if tags.get(TiffTag.PHOTOMETRIC) == _GRAY:
        return samples > 1 and not (samples == 2 and extra in (1, 2) and not wide)
    separate = tags.get(TiffTag.PLANAR) == _SEPARATE
    return tags.get(TiffTag.PHOTOMETRIC) == _COLORS and (
        samples > 4 or (samples == 4 and extra == 0) or (separate and wide)
    )


def decode_bands(view: memoryview, tags: Mapping[int, int]) -> Array:
    """Return the stored values of a TIFF with `tiff_tags`, (height, width, bands) of uint8, uint16 or float32.

    Raises:
        DecodeError: the layout isn't supported, or the file is damaged.
    """
    samples, bits = tags.get(TiffTag.SAMPLES, 1), tags.get(TiffTag.BITS, 1)
    separate, predictor = tags.get(TiffTag.PLANAR) == _SEPARATE, tags.get(_PREDICTOR, 1)
    kind = "float" if tags.get(TiffTag.SAMPLE_FORMAT) == _FLOATS else "uint"
    if (kind, bits) not in (("uint", 8), ("uint", 16), ("float", 32)) or (
        tags.get(_COMPRESSION, 1) not in _ROW_BY_ROW or (not separate and predictor not in (1, _DIFFERENCES))
    ):
        raise DecodeError(
            f"the TIFF has {samples} bands of {bits} bits in an unsupported form: bands must have 8 or 16 bits or be "
            "float32, without compression or in LZW, deflate, packed bits or LZMA"
        )
    try:
        return _stored(view, tags, samples, np.dtype(f"{kind}{bits}"))
    except (
        *(OSError, ValueError, TypeError, SyntaxError, EOFError, LookupError, OverflowError, struct.error),
        Image.DecompressionBombError,  # pillow's limit, which applies to TIFF
    ) as error:
        raise DecodeError(f"the image is damaged or truncated: {error}") from error


def _stored(view: memoryview, tags: Mapping[int, int], samples: int, dtype: np.dtype[Any]) -> Array:
    entries = dict(_entries(view))
    if tags.get(TiffTag.PLANAR) == _SEPARATE:
        planes = [_gray(_rewritten(view, entries, samples, plane), dtype) for plane in range(samples)]
        return np.stack(planes, axis=2)
    pixels = _gray(_rewritten(view, entries, samples, None), dtype).reshape(tags[TiffTag.HEIGHT], -1, samples)
    if tags.get(_PREDICTOR) == _DIFFERENCES:
        step = tags.get(_TILE_WIDTH) or pixels.shape[1]
        for start in range(0, pixels.shape[1], step):  # each tile has its own sums
            part = pixels[:, start : start + step]
            pixels[:, start : start + step] = part.cumsum(axis=1, dtype=dtype)
    return pixels


def _gray(encoded: bytes, dtype: np.dtype[Any]) -> Array:
    with open_image(memoryview(encoded)) as image:
        return np.array(image).astype(dtype, copy=False)


def _form(view: memoryview) -> tuple[str, str, str, int]:
    """Return the formats of `struct` for the byte order, offsets and the number of entries; and the inline size."""
    order = "<" if bytes(view[:2]) == b"II" else ">"
    return (order, "Q", "Q", 8) if bytes(view[2:4]) in (b"+\0", b"\0+") else (order, "I", "H", 4)


def _entries(view: memoryview) -> Iterator[tuple[int, tuple[int, bytes]]]:
    """Yield each tag of the first directory, with its type and the bytes of its values."""
    order, word, number, inline = _form(view)
    (offset,) = struct.unpack_from(order + word, view, inline if inline == 4 else 8)
    (count,) = struct.unpack_from(order + number, view, offset)
    first, size = offset + struct.calcsize(number), 4 + 2 * inline
    for entry in range(first, min(first + size * count, len(view) - size + 1), size):
        tag, kind, length = struct.unpack_from(order + "HH" + word, view, entry)
        nbytes = _SIZES.get(kind, 0) * length
        start = entry + 4 + inline
        if nbytes > inline:
            (start,) = struct.unpack_from(order + word, view, start)
        if nbytes and start + nbytes <= len(view):
            yield tag, (kind, bytes(view[start : start + nbytes]))


def _rewritten(view: memoryview, entries: Mapping[int, tuple[int, bytes]], samples: int, plane: int | None) -> bytes:
    """Return the file with a directory of a gray image: of a plane, or of all bands as neighbouring pixels."""
    order, word, number, inline = _form(view)
    wider = samples if plane is None else 1

    def times(tag: int) -> tuple[int, bytes]:
        kind, values = entries[tag]
        letter = {_SHORT: "H", _LONG: "I", 16: "Q"}.get(kind, "I")
        return _LONG, struct.pack(order + "I", struct.unpack_from(order + letter, values)[0] * wider)

    changed: dict[int, tuple[int, bytes]] = {tag: entry for tag, entry in entries.items() if tag in _KEPT}
    for tag in (int(TiffTag.WIDTH), _TILE_WIDTH):
        if tag in changed:
            changed[tag] = times(tag)
    for tag in (TiffTag.BITS, TiffTag.SAMPLE_FORMAT):  # one value for all bands
        if tag in changed:
            changed[tag] = (changed[tag][0], changed[tag][1][:2])
    for tag in (int(TiffTag.PHOTOMETRIC), int(TiffTag.SAMPLES), int(TiffTag.PLANAR)):
        changed[tag] = _SHORT, struct.pack(order + "H", 1)
    if plane is None:
        changed[_PREDICTOR] = _SHORT, struct.pack(order + "H", 1)
    else:
        for tag in set(_OFFSETS) & set(changed):
            kind, values = changed[tag]
            size = len(values) // samples
            changed[tag] = kind, values[plane * size : (plane + 1) * size]
    header = 16 if inline == 8 else 8
    directory = len(view) + (len(view) & 1)
    values_at = directory + struct.calcsize(number) + len(changed) * (4 + 2 * inline) + inline
    rows, behind = [struct.pack(order + number, len(changed))], b""
    for tag in sorted(changed):
        kind, values = changed[tag]
        rows.append(struct.pack(order + "HH" + word, tag, kind, len(values) // _SIZES[kind]))
        if len(values) > inline:
            rows.append(struct.pack(order + word, values_at + len(behind)))
            behind += values
        else:
            rows.append(values.ljust(inline, b"\0"))
    start = bytes(view[: header - inline]) + struct.pack(order + word, directory)
    padding = b"\0" * (directory - len(view))
    return b"".join([start, view[header:], padding, *rows, b"\0" * inline, behind])
