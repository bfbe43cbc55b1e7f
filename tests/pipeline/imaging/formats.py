"""Writers of image formats that pillow and OpenCV read, but don't write."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tifffile

Array = npt.NDArray[Any]

_CLEAR, _END = 256, 257  # codes of LZW
_PASSES = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))  # of Adam7


def as_bytes(bits: str, fill: str = "0") -> bytes:
    """Return a text of zeros and ones as bytes."""
    bits += fill * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big")


def lossless_jpeg(pixels: Array, bits: int = 8) -> bytes:
    """Write a lossless JPEG: each sample is predicted by its left neighbour."""
    height, width, channels = pixels.shape
    numbers = range(1, channels + 1)
    frame = struct.pack(">BHHB", bits, height, width, channels) + b"".join(bytes([n, 0x11, 0]) for n in numbers)
    codes = b"\0" + bytes([0, 0, 0, 0, 17, *[0] * 11]) + bytes(range(17))  # 17 categories, each a code of 5 bits
    scan = bytes([channels]) + b"".join(bytes([n, 0]) for n in numbers) + bytes([1, 0, 0])
    values = pixels.astype(int)
    predicted = np.roll(values, 1, axis=1)
    predicted[1:, 0], predicted[0, 0] = values[:-1, 0], 1 << (bits - 1)
    text = ""
    for difference in (values - predicted).ravel().tolist():
        length = abs(difference).bit_length()
        text += f"{length:05b}"
        if length:
            text += f"{difference if difference > 0 else difference + (1 << length) - 1:0{length}b}"
    segments = b"".join(
        marker + struct.pack(">H", len(body) + 2) + body
        for marker, body in ((b"\xff\xc3", frame), (b"\xff\xc4", codes), (b"\xff\xda", scan))
    )
    return b"\xff\xd8" + segments + as_bytes(text, "1").replace(b"\xff", b"\xff\0") + b"\xff\xd9"


def tiff(pixels: Array, **options: Any) -> bytes:
    """Write a TIFF: options of tifffile, such as `tile` and `compression`."""
    file, names = io.BytesIO(), ("bigtiff", "byteorder")
    outer = {name: options.pop(name) for name in names if name in options}
    options.setdefault("photometric", "rgb" if pixels.shape[-1] in (3, 4) else "minisblack")
    tifffile.imwrite(file, pixels, **outer, **options)
    return file.getvalue()


def tiff_12_bits(gray: Array) -> bytes:
    """Write the upper 12 of 16 bits of each sample, two samples in three bytes; the width is even."""
    pairs = (gray >> 4).astype(np.uint32).reshape(-1, 2)
    both = pairs[:, 0] << 12 | pairs[:, 1]
    packed = np.stack([both >> 16, both >> 8 & 255, both & 255], axis=1).astype(np.uint8).tobytes()
    file, (height, width) = io.BytesIO(), gray.shape
    options: dict[str, Any] = {"photometric": "minisblack", "bitspersample": 12, "rowsperstrip": height}
    tifffile.imwrite(file, iter([packed]), shape=(height, width), dtype=np.uint16, **options)
    return file.getvalue()


def lzw_tiles(pixels: Array, tile: int = 16) -> bytes:
    """Write a TIFF of tiles in LZW, all of whose codes are single bytes."""
    height, width, channels = pixels.shape
    down, across = -(-height // tile), -(-width // tile)
    padded = np.pad(pixels, ((0, down * tile - height), (0, across * tile - width), (0, 0)))
    blocks = padded.reshape(down, tile, across, tile, channels).swapaxes(1, 2).reshape(down * across, -1)
    tiles = [_lzw(block.astype(pixels.dtype.newbyteorder("<")).tobytes()) for block in blocks]
    tags = {
        256: [width], 257: [height], 258: [8 * pixels.itemsize] * channels, 259: [5], 262: [2 if channels > 1 else 1],
        277: [channels], 284: [1], 322: [tile], 323: [tile], 324: [], 325: [len(each) for each in tiles],
    }  # fmt: skip
    tags[324] = [0] * len(tiles)
    kinds = {tag: "H" if tag == 258 else "I" for tag in tags}
    sizes = {tag: struct.calcsize(kinds[tag]) * len(values) for tag, values in tags.items()}
    offsets, position = {}, 8 + 2 + 12 * len(tags) + 4
    for tag in (tag for tag, size in sizes.items() if size > 4):
        offsets[tag], position = position, position + sizes[tag]
    tags[324][:] = np.cumsum([position] + [len(each) for each in tiles[:-1]]).tolist()
    entries = b"".join(
        struct.pack("<HHII", tag, 3 if kinds[tag] == "H" else 4, len(values), offsets.get(tag, values[0]))
        for tag, values in tags.items()
    )
    values = b"".join(struct.pack(f"<{len(tags[tag])}{kinds[tag]}", *tags[tag]) for tag in offsets)
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4) + values + b"".join(tiles)


def _lzw(data: bytes) -> bytes:
    """Compress nothing: clear the table before codes would need more than 9 bits."""
    codes = [code for start in range(0, len(data), 250) for code in (_CLEAR, *data[start : start + 250])]
    return as_bytes("".join(f"{code:09b}" for code in [*codes, _END]))


def png(
    pixels: Array, bits: int, color: int, *, palette: bytes = b"", transparent: bytes = b"", interlaced: bool = False
) -> bytes:
    """Write a PNG of any depth and color type, as one image or as Adam7's seven."""
    height, width = pixels.shape[:2]
    images = [pixels[y::down, x::across] for y, x, down, across in _PASSES] if interlaced else [pixels]
    rows = b"".join(b"\0" + _packed(row, bits) for image in images if image.size for row in image)
    header = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, interlaced)
    chunks = [(b"IHDR", header), (b"PLTE", palette), (b"tRNS", transparent), (b"IDAT", zlib.compress(rows))]
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in [*((name, data) for name, data in chunks if data), (b"IEND", b"")]
    )
    return b"\x89PNG\r\n\x1a\n" + body


def _packed(row: Array, bits: int) -> bytes:
    """Return samples of a number of bits, the first in the highest bits."""
    if bits >= 8:
        return row.astype(f">u{bits // 8}").tobytes()
    return as_bytes("".join(f"{value:0{bits}b}" for value in row.ravel().tolist()))


def bmp(pixels: Array, bits: int, *, palette: bytes = b"", masks: Sequence[int] = (), top_down: bool = False) -> bytes:
    """Write a BMP of 1 to 32 bits per pixel; `masks` are those of red, green and blue."""
    height, width = pixels.shape[:2]
    rows = [row.tobytes() if bits >= 8 else _packed(row, bits) for row in pixels[:: 1 if top_down else -1]]
    return _bmp(width, -height if top_down else height, bits, b"".join(row + bytes(-len(row) % 4) for row in rows),
                palette, masks, 3 if masks else 0)  # fmt: skip


def run_length_bmp(pixels: Array, palette: bytes) -> bytes:
    """Write a BMP of 8 bits in runs of one pixel each."""
    rows = b"".join(b"".join(bytes([1, value]) for value in row.ravel().tolist()) + b"\0\0" for row in pixels[::-1])
    return _bmp(pixels.shape[1], pixels.shape[0], 8, rows + b"\0\1", palette, (), 1)


def _bmp(
    width: int, height: int, bits: int, data: bytes, palette: bytes, masks: Sequence[int], compression: int
) -> bytes:
    fields = (40, width, height, 1, bits, compression, len(data), 0, 0, len(palette) // 4, 0)
    header = struct.pack("<IiiHHIIiiII", *fields) + struct.pack(f"<{len(masks)}I", *masks) + palette
    start = 14 + len(header)
    return b"BM" + struct.pack("<IHHI", start + len(data), 0, 0, start) + header + data
