"""The formats of encoded images: how each is recognized, named and decoded."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from dali_proxy.pipeline._imaging.info import (
    PIL_CHANNELS,
    PNG_SIGNATURE,
    Encoded,
    ImageInfo,
    as_bytes,
    jpeg_info,
    open_image,
    png_info,
    read_orientation,
    tiff_info,
)

_COLORED_PFM = re.compile(rb"PF\s+(\d{1,9})\s+(\d{1,9})\s")  # pillow reads the gray ones


@dataclass(frozen=True)
class Format:
    """A format of encoded images. pillow reads images of others, too.

    Attributes:
        name: name in `ImageInfo.format`: that of pillow, in lower case.
        title: name in texts.
        extensions: ends of the names of files.
        magic: beginnings of the data.
        peek: function that reads the header, or returns None if pillow must; None for pillow.
        decoder: library that decodes it on the CPU.
        gpu: whether nvImageCodec decodes it on a GPU.
        listed: whether readers list files with its extensions, as in DALI.
    """

    name: str
    title: str
    extensions: tuple[str, ...]
    magic: tuple[bytes, ...] = ()
    peek: Callable[[memoryview], ImageInfo | None] | None = None
    decoder: Literal["simplejpeg", "opencv", "pillow"] = "opencv"
    gpu: bool = False
    listed: bool = True


def _pfm_info(view: memoryview) -> ImageInfo | None:
    found = _COLORED_PFM.match(view[:64])
    return None if found is None else ImageInfo(int(found[2]), int(found[1]), 3, "pfm", 1)


#: The known formats. pillow decodes TIFF, because OpenCV multiplies its colors by alpha.
FORMATS = (
    Format("jpeg", "JPEG", (".jpg", ".jpeg"), (b"\xff\xd8\xff",), jpeg_info, "simplejpeg", gpu=True),
    Format("png", "PNG", (".png",), (PNG_SIGNATURE,), png_info),
    Format("bmp", "BMP", (".bmp",)),
    Format(
        *("tiff", "TIFF", (".tif", ".tiff"), (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), tiff_info, "pillow"), gpu=True
    ),
    Format("ppm", "PNM", (".pnm", ".ppm", ".pgm", ".pbm")),
    Format("pfm", "PFM", (".pfm",), (b"PF",), _pfm_info, listed=False),
    Format("jpeg2000", "JPEG 2000", (".jp2",), (b"\xff\x4f\xff\x51", b"\0\0\0\x0cjP  \r\n\x87\n"), gpu=True),
    Format("webp", "WebP", (".webp",)),
    Format("gif", "GIF", (".gif",), decoder="pillow", listed=False),
)
TITLES = ", ".join(each.title for each in FORMATS)


def peek(encoded: Encoded) -> ImageInfo:
    """Read the header of an encoded image, 1-D uint8 or bytes.

    Raises:
        DecodeError: the data is empty, its format is unknown, or its header is damaged.

    Example:
        >>> import io
        >>> from PIL import Image
        >>> buffer = io.BytesIO()
        >>> Image.new("RGB", (4, 2)).save(buffer, "PNG")
        >>> peek(buffer.getvalue())
        ImageInfo(height=2, width=4, channels=3, format='png', orientation=1)
    """
    view = as_bytes(encoded)
    start = bytes(view[:16])
    for each in FORMATS:
        if each.peek is not None and start.startswith(each.magic):
            info = each.peek(view)
            if info is not None:
                return info
    with open_image(view, TITLES) as image:
        channels = PIL_CHANNELS.get(image.mode, 3)
        return ImageInfo(image.height, image.width, channels, str(image.format).lower(), read_orientation(image))
