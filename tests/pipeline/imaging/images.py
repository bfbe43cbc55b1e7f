"""Generated images, and their encodings."""

from __future__ import annotations

import io
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from tests.pipeline.imaging import formats

Array = npt.NDArray[Any]


def smooth(height: int = 30, width: int = 40, channels: int = 3, seed: int = 0, highest: int = 255) -> Array:
    """Create an image like a photograph: large soft patches of colour."""
    coarse = np.random.default_rng(seed).integers(0, highest + 1, (6, 8, channels)).astype(np.float32)
    large = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC).reshape(height, width, channels)
    return np.clip(large, 0, highest).astype(np.uint8 if highest == 255 else np.uint16)


def pillow(pixels: Any, kind: str, **options: Any) -> bytes:
    image = Image.fromarray(np.squeeze(pixels)) if isinstance(pixels, np.ndarray) else pixels
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def opencv(pixels: Array, extension: str, *options: int) -> bytes:
    return cv2.imencode(extension, pixels, list(options))[1].tobytes()


def with_orientation(pixels: Array, kind: str, orientation: int, **options: Any) -> bytes:
    if kind == "TIFF":
        return pillow(pixels, kind, tiffinfo={274: orientation})
    exif = Image.Exif()
    exif[274] = orientation
    return pillow(pixels, kind, exif=exif, **options)


def encodings() -> dict[str, bytes]:
    """Return one small image in many formats, those of programs and those of `rare_encodings`."""
    rgb, rgba, deep = smooth(), smooth(channels=4), smooth(highest=65535)
    gray = rgb[:, :, 0]
    image = Image.fromarray(rgb)
    return {
        "jpeg 420": pillow(rgb, "JPEG"),
        "jpeg 422": pillow(rgb, "JPEG", subsampling=1),
        "jpeg 444": pillow(rgb, "JPEG", subsampling=0),
        "jpeg 440": opencv(rgb, ".jpg", cv2.IMWRITE_JPEG_SAMPLING_FACTOR, 0x121111),
        "jpeg 411": opencv(rgb, ".jpg", cv2.IMWRITE_JPEG_SAMPLING_FACTOR, 0x411111),
        "jpeg rgb": pillow(rgb, "JPEG", keep_rgb=True),
        "jpeg progressive": pillow(rgb, "JPEG", progressive=True),
        "jpeg gray": pillow(gray, "JPEG"),
        "jpeg cmyk": pillow(image.convert("CMYK"), "JPEG"),
        "png rgb": pillow(rgb, "PNG"),
        "png rgba": pillow(rgba, "PNG"),
        "png gray": pillow(gray, "PNG"),
        "png palette": pillow(image.quantize(16), "PNG"),
        "png transparent palette": pillow(image.quantize(16), "PNG", transparency=0),
        "png 1 bit": pillow(image.convert("1"), "PNG"),
        "png 16 rgb": opencv(deep, ".png"),
        "png 16 gray": opencv(deep[:, :, 0], ".png"),
        "bmp rgb": pillow(rgb, "BMP"),
        "bmp palette": pillow(image.quantize(16), "BMP"),
        "webp lossy": pillow(rgb, "WEBP"),
        "webp lossless": pillow(rgba, "WEBP", lossless=True, exact=True),
        "tiff rgb": pillow(rgb, "TIFF", compression="tiff_lzw"),
        "tiff rgba": pillow(rgba, "TIFF"),
        "tiff 16 rgb": opencv(deep, ".tiff"),
        "tiff 16 gray": opencv(deep[:, :, 0], ".tiff"),
        "tiff float": pillow(gray.astype(np.float32) / 255, "TIFF"),
        "ppm": pillow(rgb, "PPM"),
        "ppm 16": opencv(deep, ".ppm"),
        "ppm of 100": b"P6\n2 2\n100\n" + bytes(range(0, 96, 8)),
        "pgm text": b"P2\n# a comment\n2 2\n15\n1 2 3 15\n",
        "pbm": pillow(image.convert("1"), "PPM"),
        "jpeg 2000": pillow(rgb, "JPEG2000"),
        **rare_encodings(),
    }


def rare_encodings() -> dict[str, bytes]:
    """Return a small image in variants of formats that few programs write."""
    rgb, rgba, deep, deep_alpha = smooth(), smooth(channels=4), smooth(highest=65535), smooth(channels=4, highest=65535)
    gray, floats = rgb[:, :, :1], (smooth(highest=65535) / 65535).astype(np.float32)
    image = Image.fromarray(rgb)
    colors = np.random.default_rng(3).integers(0, 256, (256, 3)).astype(np.uint8)
    blue_first = np.pad(colors[:, ::-1], ((0, 0), (0, 1))).tobytes()
    cmyk = pillow(image.convert("CMYK"), "JPEG", quality=95)
    adobe = cmyk.index(b"\xff\xee")
    length = 2 + int.from_bytes(cmyk[adobe + 2 : adobe + 4], "big")
    return {
        "jpeg cmyk, not adobe": cmyk[:adobe] + cmyk[adobe + length :],
        "jpeg ycck": cmyk[: adobe + length - 1] + b"\2" + cmyk[adobe + length :],
        "jpeg lossless": formats.lossless_jpeg(rgb),
        "jpeg lossless gray": formats.lossless_jpeg(gray),
        **{f"png gray {bits} bits": formats.png(gray >> (8 - bits), bits, 0) for bits in (1, 2, 4)},
        **{
            f"png palette {bits} bits": formats.png(
                gray >> (8 - bits), bits, 3, palette=colors[: 2**bits].tobytes(), transparent=b"\0\x64"
            )
            for bits in (1, 2, 4, 8)
        },
        "png gray transparent": formats.png(gray, 8, 0, transparent=b"\0" + gray[3, 3].tobytes()),
        "png gray alpha": formats.png(rgba[:, :, :2], 8, 4),
        "png 16 rgba": formats.png(deep_alpha, 16, 6),
        "png interlaced": formats.png(rgb, 8, 2, interlaced=True),
        "png interlaced 16 rgba": formats.png(deep_alpha, 16, 6, interlaced=True),
        **{
            f"bmp palette {bits} bits": formats.bmp(gray >> (8 - bits), bits, palette=blue_first[: 4 * 2**bits])
            for bits in (1, 4, 8)
        },
        "bmp run lengths": formats.run_length_bmp(gray, blue_first),
        "bmp 565": formats.bmp(deep[:, :, :1], 16, masks=(0xF800, 0x7E0, 0x1F)),
        "bmp 32 bits": formats.bmp(rgba, 32),
        "bmp from the top": formats.bmp(rgb, 24, top_down=True),
        "webp alpha": pillow(rgba, "WEBP"),
        "webp animated": pillow(image, "WEBP", save_all=True, append_images=[image.rotate(90)]),
        "tiff tiles": formats.tiff(rgb, tile=(16, 16)),
        "tiff tiles lzw": formats.lzw_tiles(rgb),
        "tiff tiles lzw 16": formats.lzw_tiles(deep),
        "tiff tiles deflate 16 rgba": formats.tiff(deep_alpha, tile=(16, 16), compression="zlib"),
        "tiff 12 gray": formats.tiff_12_bits(deep[:, :, 0]),
        "tiff premultiplied": formats.tiff(rgba, extrasamples=["assocalpha"]),
        "tiff premultiplied 16": formats.tiff(deep_alpha, extrasamples=["assocalpha"]),
        "tiff big-endian 16": formats.tiff(deep, byteorder=">"),
        "tiff big": formats.tiff(rgb, bigtiff=True),
        "tiff 16 turned": formats.tiff(deep, extratags=[(274, 3, 1, 6, True)]),
        "tiff palette": pillow(image.quantize(16), "TIFF"),
        "tiff white is 0": formats.tiff(gray[:, :, 0], photometric="miniswhite"),
        "tiff fax": pillow(image.convert("1"), "TIFF", compression="group4"),
        "tiff jpeg": pillow(rgb, "TIFF", compression="jpeg"),
        "tiff packed bits": pillow(rgb, "TIFF", compression="packbits"),
        "tiff float rgb": formats.tiff(floats),
        "tiff float tiles": formats.tiff(floats[:, :, 0], tile=(16, 16)),
        "tiff pages": pillow(image, "TIFF", save_all=True, append_images=[image.rotate(90)]),
        "tiff planes": formats.tiff(rgb.transpose(2, 0, 1), photometric="rgb", planarconfig="separate"),
        "ppm text": b"P3\n2 2\n255\n" + b" ".join(b"%d" % value for value in range(0, 240, 20)) + b"\n",
        "ppm 16 gray": opencv(deep[:, :, 0], ".pgm"),
        "jpeg2000 gray": pillow(gray, "JPEG2000"),
        "jpeg2000 rgba": pillow(rgba, "JPEG2000"),
        "jpeg2000 16 gray": pillow(Image.fromarray(deep[:, :, 0]), "JPEG2000"),
        "jpeg2000 lossy": pillow(rgb, "JPEG2000", irreversible=True, quality_layers=[5]),
        "jpeg2000 codestream": pillow(rgb, "JPEG2000", no_jp2=True),
        "jpeg2000 tiles": pillow(rgb, "JPEG2000", tile_size=(16, 16)),
    }
