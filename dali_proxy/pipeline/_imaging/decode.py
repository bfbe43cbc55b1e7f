"""Decoding of images on the CPU, one at a time.

simplejpeg (libjpeg-turbo) decodes JPEG: it was the fastest in measurements, and its pixels equal those of DALI's CPU
decoder bit for bit. nvImageCodec decodes windows of JPEGs, if it is installed. libdeflate inflates most PNGs. OpenCV
decodes other formats, or pillow where OpenCV differs from DALI or lacks the format.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import simplejpeg
from PIL import Image, ImageChops

from dali_proxy.pipeline._arrays import Array, Bytes
from dali_proxy.pipeline._imaging.convert import convert_color
from dali_proxy.pipeline._imaging.depth import full_scale, rescale
from dali_proxy.pipeline._imaging.formats import FORMATS, peek
from dali_proxy.pipeline._imaging.info import (
    MOST_SCANS,
    PNG_SIGNATURE,
    Encoded,
    ImageInfo,
    TiffTag,
    as_bytes,
    has_many_scans,
    is_single_scan,
    open_image,
    png_chunks,
    pnm_maximum,
    read_orientation,
    tiff_tags,
)
from dali_proxy.pipeline._imaging.jpeg_region import decode_region
from dali_proxy.pipeline._imaging.png import decode_plain_png
from dali_proxy.pipeline._imaging.tiff_bands import decode_bands, is_banded
from dali_proxy.pipeline._size_limit import check_image
from dali_proxy.pipeline.errors import DecodeError

Warn = Callable[[str], object]
Narrow = Callable[[Array], Array]

OUTPUT_TYPES = ("RGB", "BGR", "GRAY", "YCbCr", "ANY_DATA")

# Formats that OpenCV decodes as DALI does.
_OPENCV_FORMATS = frozenset(each.name for each in FORMATS if each.decoder == "opencv")
_OPENCV_FLAGS = {"RGB": cv2.IMREAD_COLOR, "GRAY": cv2.IMREAD_GRAYSCALE, "ANY_DATA": cv2.IMREAD_UNCHANGED}
# Positions in the file, and the color type of pixels that are indices of a palette.
_PNG_BITS, _PNG_COLOR_TYPE, _PNG_PALETTE = 24, 25, 3
_PALETTE_ADVICE = (
    "a PNG with a palette was decoded to the gray of its colors. If it is a mask, its classes are the indices: pass "
    "palette_indices=True to the decoder, or read them in the dataset, with np.asarray(PIL.Image.open(file))"
)
_CRITICAL_CHUNKS = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
# Beginnings of libjpeg's warnings; after one, it continues.
_JPEG_WARNINGS = (
    *("Corrupt JPEG data", "Inconsistent progression", "Invalid SOS parameters for sequential"),
    *("Unknown Adobe color transform", "Warning: unknown JFIF"),
)
# Beginnings of the errors and warnings for data in the middle of a file that isn't that of a JPEG.
_GUESSED = (
    *("Bogus", "Corrupt JPEG data: bad", "Corrupt JPEG data: found", "Corrupt JPEG data: premature"),
    *("Invalid JPEG file structure", "Unsupported marker type"),
)
#: Warning of a JPEG some of whose pixels are guessed.
DAMAGED = (
    "a JPEG is damaged in its middle, so a part of its pixels is wrong. DALI and OpenCV don't report this, either; "
    "`jpeginfo -c` finds such files"
)
_warn_caller = partial(warnings.warn, stacklevel=3)  # the line that calls `decode`
_SIGNED, _FLOATS = 2, 3  # samples of a TIFF
_PREMULTIPLIED = 1  # alpha by which the colors of a TIFF are multiplied
# Modes that pillow reads with more than 8 bits, and the dtypes of their samples.
_WIDE_MODES = {"I;16": np.uint16, "I;16B": np.uint16, "I": np.uint16, "F": np.float32}


def decode(
    encoded: Encoded,
    *,
    output_type: Any = "RGB",
    region: tuple[int, int, int, int] | None = None,
    adjust_orientation: bool = True,
    fancy_upsampling: bool = True,
    fast_idct: bool = False,
    min_size: tuple[int, int] | None = None,
    palette_indices: bool = False,
    dtype: npt.DTypeLike = np.uint8,
    out: Array | None = None,
    warn: Warn = _warn_caller,
) -> Array:
    """Decode an image to HWC pixels of uint8 or another dtype.

    As in DALI, a damaged image raises an error if the decoder can't recover all pixels; a truncated JPEG always raises
    one. The decoder doesn't detect damage in a JPEG's compressed data that it can recover from. Integers are scaled to
    the range of the dtype, for floats to 0..1. Floats are kept, or clipped to 0..1 and scaled. Transparency is dropped,
    not blended, except with ``ANY_DATA``.

    Args:
        encoded: 1-D uint8 array or bytes, in one of `FORMATS` or another that pillow reads; of a GIF, the first frame.
        output_type: RGB, BGR, GRAY, YCbCr or ANY_DATA (the stored channels), as a string or `DALIImageType`.
        region: (y0, x0, height, width), the region to decode, inside the image after `adjust_orientation`.
        adjust_orientation: whether to apply the EXIF orientation.
        fancy_upsampling: whether to interpolate a JPEG's chroma planes, as DALI's CPU decoder does, or repeat pixels.
        fast_idct: whether to use the faster, less exact inverse DCT of libjpeg-turbo. As in DALI, images that are
            turned don't use it.
        min_size: (height, width), before the orientation is applied. A JPEG may be decoded at 1/2, 1/4 or 1/8 of its
            size if the result isn't smaller than this; None decodes the full size. Not supported with `region`.
            Each pixel covers a square of 2, 4 or 8 pixels: multiply coordinates by that, not by the ratio of sizes.
        palette_indices: whether an image with a palette is decoded to one channel with its indices, not scaled.
        dtype: dtype of the result; dtypes of more than 8 bits keep the precision of 16-bit files.
        out: output array, of the resulting shape and dtype.
        warn: gets the text of each warning.

    Returns:
        `out`, or a new array; with `region`, a view of a new array.

    Raises:
        DecodeError: the data is empty, unknown, damaged, truncated or too large.
        ValueError: the arguments don't match the image, such as a region outside it.

    Example:
        >>> decode(simplejpeg.encode_jpeg(np.zeros((16, 24, 3), np.uint8)), region=(0, 0, 8, 8)).shape
        (8, 8, 3)
    """
    kind = output_type if isinstance(output_type, str) else output_type.name
    if kind not in OUTPUT_TYPES:
        raise ValueError(f"unknown output_type {kind!r}; known are {', '.join(OUTPUT_TYPES)}")
    if region is not None and min_size is not None:
        raise ValueError("a region is in pixels of the full image: region and min_size are mutually exclusive")
    view = as_bytes(encoded)
    ycbcr = kind == "YCbCr"
    stored = "RGB" if ycbcr else kind
    scaled = ycbcr or np.dtype(dtype) != np.uint8
    try:
        info = peek(view)
        channels = {"GRAY": 1, "ANY_DATA": info.channels}.get(kind, 3)
        check_image(info.height, info.width, channels * np.dtype(dtype).itemsize)
        orientation = info.orientation if adjust_orientation else 1
        if info.format == "jpeg" and not is_single_scan(view) and has_many_scans(view):
            raise DecodeError(f"the JPEG has more than {MOST_SCANS} scans, each of which is as much work as an image")
        # Without further steps, decode directly into the caller's memory.
        final = region is None and orientation == 1 and not scaled
        indices = None
        if palette_indices and info.format != "jpeg":
            indices = _palette_indices(view, info)
            if indices is None:
                _check_classes(view, info, np.dtype(dtype), warn)
        window = None
        if region is not None:
            shape = info.shape[:2] if adjust_orientation else (info.height, info.width)
            _check_region(region, shape)
            plain = info.format == "jpeg" and info.channels == 3 and orientation == 1 and stored == "RGB"
            if plain and fancy_upsampling and not fast_idct:
                window = decode_region(view, region)
        if window is not None:
            pixels: Array = window
        elif indices is not None:
            pixels = indices
        elif info.format == "jpeg" and info.channels != 4:
            fast_idct = fast_idct and orientation == 1
            target = out if final else None
            pixels = _decode_jpeg(view, info, stored, fancy_upsampling, fast_idct, min_size, target, warn)
        else:
            narrow: Narrow = _unchanged if scaled else partial(_scaled, dtype=np.uint8, warn=warn)
            pixels = _decode_other(view, info, stored, narrow, out if final else None, warn)
    except (cv2.error, MemoryError) as error:
        raise DecodeError(f"decoding failed: {error}") from error
    pixels = orient(pixels, orientation)
    if region is not None and window is None:
        y, x, height, width = region
        pixels = pixels[y : y + height, x : x + width]
    if scaled:
        pixels = _scaled(pixels, dtype, warn, ycbcr=ycbcr) if indices is None else pixels.astype(dtype)
    if out is None:
        return pixels
    if pixels is not out:
        if out.shape != pixels.shape:
            raise ValueError(f"out has shape {out.shape}, but the image has {pixels.shape}")
        np.copyto(out, pixels)
    return out


def is_palette_png(encoded: Encoded) -> bool:
    """Return whether an encoded image is a PNG whose pixels are indices of a palette."""
    view = as_bytes(encoded)
    return bytes(view[:8]) == PNG_SIGNATURE and view[_PNG_COLOR_TYPE : _PNG_COLOR_TYPE + 1] == bytes([_PNG_PALETTE])


def is_rare_tiff(encoded: Encoded, *, gray: bool = False) -> bool:
    """Return whether an encoded image is a TIFF for which decoders disagree: it may need this one.

    Args:
        encoded: the image.
        gray: whether it is decoded to gray. Then, that zeros are white is rare, too.
    """
    tags = tiff_tags(as_bytes(encoded))
    return (
        tags.get(TiffTag.BITS, 1) not in (1, 8, 16)
        or tags.get(TiffTag.SAMPLE_FORMAT) == _SIGNED
        or tags.get(TiffTag.EXTRA_SAMPLES) == _PREMULTIPLIED
        or (gray and tags.get(TiffTag.PHOTOMETRIC) == 0)
        or is_banded(tags)
    )


def orient(pixels: Array, orientation: int) -> Array:
    """Apply an EXIF orientation (1 to 8) to HWC pixels.

    Example:
        >>> orient(np.zeros((2, 3, 1)), 6).shape
        (3, 2, 1)
    """
    if orientation == 1:
        return pixels
    if orientation >= 5:
        pixels = pixels.transpose(1, 0, 2)
    # Directions of both axes after the transposition.
    rows = -1 if orientation in (3, 4, 7, 8) else 1
    columns = -1 if orientation in (2, 3, 6, 7) else 1
    return np.ascontiguousarray(pixels[::rows, ::columns])


def _check_region(region: tuple[int, int, int, int], shape: tuple[int, int]) -> None:
    y, x, height, width = region
    if y < 0 or x < 0 or height < 1 or width < 1 or y + height > shape[0] or x + width > shape[1]:
        raise ValueError(f"the region (y0, x0, height, width) = {tuple(region)} exceeds the image of {shape}")


def _decode_jpeg(
    view: memoryview,
    info: ImageInfo,
    kind: str,
    fancy_upsampling: bool,
    fast_idct: bool,
    min_size: tuple[int, int] | None,
    out: Bytes | None,
    warn: Warn,
) -> Bytes:
    colors = "GRAY" if info.channels == 1 and kind == "ANY_DATA" else kind
    colors = colors if colors in ("GRAY", "BGR") else "RGB"
    height, width = (0, 0) if min_size is None else _scaled_size(info, min_size)
    options: dict[str, Any] = {
        "fastdct": fast_idct,
        "fastupsample": not fancy_upsampling,
        "min_height": height,
        "min_width": width,
    }
    expected = (height or info.height, width or info.width, 1 if colors == "GRAY" else 3)
    if out is not None and out.shape != expected:
        raise ValueError(f"out has shape {out.shape}, but the image has {expected}")
    if out is None or not out.flags.c_contiguous or out.dtype != np.uint8:
        out = np.empty(expected, np.uint8)
    try:
        simplejpeg.decode_jpeg(view, colors, buffer=out, **options)
    except ValueError as error:
        if "Premature end of JPEG" in str(error):
            if is_single_scan(view) and _has_all_rows(view, colors, out, options):
                return out
            raise DecodeError(f"the JPEG is truncated: its {view.nbytes} bytes end before its last row") from error
        stored = "GRAY" if info.channels == 1 else "RGB"
        if "color conversion" in str(error) and colors != stored:
            # libjpeg-turbo doesn't convert the colors of lossless JPEGs.
            return convert_color(_decode_jpeg(view, info, stored, True, False, None, None, warn), stored, colors)
        if not _is_warning(view, error):
            out = _decode_with_opencv(view, colors, error)
        if str(error).startswith(_GUESSED):
            warn(DAMAGED)
    return out


def _has_all_rows(view: memoryview, colors: str, out: Bytes, options: dict[str, Any]) -> bool:
    """Decode a JPEG without an end marker. Return whether that is all it lacks; with several scans, it isn't known."""
    try:
        simplejpeg.decode_jpeg(bytes(view) + b"\xff\xd9", colors, buffer=out, **options)
    except ValueError:
        return False
    return True


def _is_warning(view: memoryview, error: ValueError) -> bool:
    """Return whether libjpeg has decoded all pixels despite an error. DALI, pillow and OpenCV also return them."""
    if not str(error).startswith(_JPEG_WARNINGS):
        return False
    try:
        simplejpeg.decode_jpeg_header(view)
    except ValueError:  # it comes from the header, behind which nothing was decoded
        return False
    return True


def _scaled_size(info: ImageInfo, min_size: tuple[int, int]) -> tuple[int, int]:
    """Return the smallest of 1, 1/2, 1/4 and 1/8 of the size that isn't below `min_size`; other scales are slow."""
    for factor in (8, 4, 2):
        height, width = -(-info.height // factor), -(-info.width // factor)
        if height >= min_size[0] and width >= min_size[1]:
            return height, width
    return info.height, info.width


def _decode_with_opencv(view: memoryview, colors: str, cause: ValueError) -> Bytes:
    """Decode a JPEG at which simplejpeg fails because of extra bytes between its segments."""
    flags = _OPENCV_FLAGS["GRAY" if colors == "GRAY" else "RGB"] | cv2.IMREAD_IGNORE_ORIENTATION
    found = cv2.imdecode(np.frombuffer(view, np.uint8), flags)
    if found is None:
        raise DecodeError(f"the JPEG is damaged: {cause}") from cause
    return _with_channels(found) if colors != "RGB" else _recolored(found, cv2.COLOR_BGR2RGB)


def _recolored(pixels: Array, code: int, out: Array | None = None) -> Array:
    """Convert colors, to an output array if it has the resulting shape and dtype."""
    fits = out is not None and out.shape == pixels.shape and out.dtype == pixels.dtype and out.flags.c_contiguous
    return np.asarray(cv2.cvtColor(pixels, code, dst=out if fits else None))


def _with_channels(pixels: Array) -> Array:
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def _unchanged(pixels: Array) -> Array:
    return pixels


def _scaled(pixels: Array, dtype: npt.DTypeLike, warn: Warn, *, ycbcr: bool = False) -> Array:
    """Scale samples to the range of a dtype; warn of floats that it doesn't have."""
    if pixels.dtype.kind == "f" and np.dtype(dtype).kind != "f" and ((pixels < 0) | (pixels > 1)).any():
        warn(
            f"an image of floats from {np.nanmin(pixels):g} to {np.nanmax(pixels):g} was decoded to {np.dtype(dtype)}: "
            "as in DALI, its values were clipped to 0 to 1, and scaled; pass dtype=types.FLOAT to keep them"
        )
    return rescale(pixels, dtype, ycbcr=ycbcr)


def _decode_other(view: memoryview, info: ImageInfo, kind: str, narrow: Narrow, out: Array | None, warn: Warn) -> Array:
    """Decode an image that isn't a JPEG, possibly to an array; `narrow` may convert values of more than 8 bits."""
    wanted = kind if kind in _OPENCV_FLAGS else "RGB"
    found = None
    if info.format == "tiff":
        tags = tiff_tags(view)
        if tags.get(TiffTag.SAMPLE_FORMAT) == _SIGNED:
            raise DecodeError("the TIFF has signed samples, whose black and white aren't defined")
        if is_banded(tags):
            return _from_bands(decode_bands(view, tags), kind, narrow)
        is_stored = tags.get(TiffTag.BITS, 1) > 8 or tags.get(TiffTag.EXTRA_SAMPLES) == _PREMULTIPLIED
        if is_stored and info.channels in (3, 4):
            return _decode_stored_tiff(view, info, kind, narrow, tags)
    if wanted == "GRAY" and is_palette_png(view):
        warn(_PALETTE_ADVICE)
    if info.format == "png" and (wanted != "GRAY" or info.channels == 1):
        plain = _decode_png(view, info, wanted, out)
        if plain is not None:
            return convert_color(plain, "RGB", kind) if kind == "BGR" else plain
    if info.format in _OPENCV_FORMATS:
        # Keep wide samples and scale them later: OpenCV would drop their lower bits instead of rounding.
        flags = _OPENCV_FLAGS[wanted] | (cv2.IMREAD_ANYDEPTH if wanted != "ANY_DATA" else 0)
        found = cv2.imdecode(np.frombuffer(view, np.uint8), flags | cv2.IMREAD_IGNORE_ORIENTATION)
    if found is not None and info.format == "ppm":
        found = _with_full_range(found, pnm_maximum(view))
    if found is None:
        pixels = _decode_with_pillow(view, info, wanted, narrow)
    else:
        pixels = _with_channels(narrow(found))
        if pixels.shape[2] == 4 and info.channels == 4:
            pixels = _recolored(pixels, cv2.COLOR_BGRA2RGBA)
        elif pixels.shape[2] == 4:
            # OpenCV adds an alpha channel if a palette has a transparent color; DALI doesn't.
            pixels = _recolored(pixels, cv2.COLOR_BGRA2RGB)
        elif pixels.shape[2] == 3:
            pixels = _recolored(pixels, cv2.COLOR_BGR2RGB, out if kind == "RGB" else None)
    if wanted == "RGB" and pixels.shape[2] == 1:  # OpenCV doesn't convert gray PFM
        pixels = np.repeat(pixels, 3, axis=2)
    elif wanted == "GRAY" and pixels.shape[2] == 3:
        pixels = convert_color(pixels, "RGB", "GRAY")
    if kind == "BGR":
        pixels = convert_color(pixels, "RGB", kind)
    return np.ascontiguousarray(pixels)


def _decode_png(view: memoryview, info: ImageInfo, wanted: str, out: Array | None) -> Array | None:
    """Decode a PNG to its own colors, or to RGB; None if it has a rare form."""
    decoded = decode_plain_png(view, out)
    if decoded is None:
        return None
    pixels, palette = decoded
    if palette is not None:
        return palette[pixels[:, :, 0]]
    if wanted == "RGB" and info.channels != 3:
        return _recolored(pixels, cv2.COLOR_GRAY2RGB if info.channels == 1 else cv2.COLOR_RGBA2RGB, out)
    return pixels


def _with_full_range(pixels: Array, maximum: int) -> Array:
    """Return a PNM's pixels with its value of white as that of their dtype. OpenCV and DALI don't scale them."""
    white = 255 if pixels.dtype == np.uint8 else 65535
    if maximum in (0, white):
        return pixels
    return np.rint(np.minimum(pixels, maximum) * (white / maximum)).astype(pixels.dtype)


def _decode_stored_tiff(view: memoryview, info: ImageInfo, kind: str, narrow: Narrow, tags: dict[int, int]) -> Array:
    """Decode a TIFF to its stored colors, by OpenCV.

    pillow reduces colors of more than 8 bits to 8 bits, refuses floats, and divides colors by alpha if the file says
    that they are multiplied by it.
    """
    found = None
    if tags.get(TiffTag.PLANAR) != 2:  # OpenCV takes planes for pixels
        found = cv2.imdecode(np.frombuffer(view, np.uint8), cv2.IMREAD_UNCHANGED | cv2.IMREAD_IGNORE_ORIENTATION)
    if found is None or found.ndim != 3:
        raise DecodeError("the TIFF has colors of more than 8 bits, or multiplied by alpha, in an unsupported form")
    pixels = found[:, :, [2, 1, 0, 3][: found.shape[2]]]
    pixels = _turned_back(pixels if kind == "ANY_DATA" else _from_rgb(pixels[:, :, :3], kind), info.orientation)
    return np.ascontiguousarray(narrow(pixels))


def _from_bands(bands: Array, kind: str, narrow: Narrow) -> Array:
    """Convert bands to an output type: the first three are colors, and the first of two is gray."""
    if kind != "ANY_DATA":
        first = bands[:, :, :3] if bands.shape[2] > 2 else np.repeat(bands[:, :, :1], 3, axis=2)
        bands = first[:, :, :1] if kind == "GRAY" and bands.shape[2] == 2 else _from_rgb(first, kind)
    return np.ascontiguousarray(narrow(bands))


def _turned_back(pixels: Array, orientation: int) -> Array:
    """Revert a TIFF's orientation, which OpenCV and pillow apply: the caller decides about the orientation."""
    return orient(pixels, {6: 8, 8: 6}.get(orientation, orientation))


def _from_rgb(pixels: Array, kind: str) -> Array:
    """Convert to an output type; YCbCr is computed later, from RGB."""
    return convert_color(pixels, "RGB", kind if kind in ("BGR", "GRAY") else "RGB")


def _decode_with_pillow(view: memoryview, info: ImageInfo, wanted: str, narrow: Narrow) -> Array:
    pixels = _loaded(view, info, lambda image: _pixels_of(image, wanted, narrow))
    if wanted == "ANY_DATA" and pixels.shape[2] != info.channels:
        raise DecodeError(f"the image has {info.channels} channels, of which only {pixels.shape[2]} can be decoded")
    return pixels


def _palette_indices(view: memoryview, info: ImageInfo) -> Array | None:
    """Return the indices of an image with a palette; None for other images."""
    if info.format == "png" and not is_palette_png(view):
        return None
    plain = decode_plain_png(view)
    if plain is not None:
        return plain[0]
    try:
        with open_image(_readable(view)) as image:
            has_palette = image.mode == "P"
    except DecodeError:  # a TIFF that only OpenCV reads
        return None
    return _loaded(view, info, lambda image: _with_channels(np.array(image))) if has_palette else None


def _check_classes(view: memoryview, info: ImageInfo, dtype: np.dtype[Any], warn: Warn) -> None:
    """Warn if the classes of a mask without a palette are scaled, because the dtype has another range than the file."""
    if info.format == "png":
        white = (1 << view[_PNG_BITS]) - 1
    elif info.format == "tiff":
        tags = tiff_tags(view)
        if tags.get(TiffTag.SAMPLE_FORMAT) == _FLOATS:
            return  # they have no range
        white = (1 << tags.get(TiffTag.BITS, 1)) - 1
    else:
        with open_image(view) as image:
            white = 1 if image.mode == "1" else 65535 if image.mode in _WIDE_MODES else 255
        white = pnm_maximum(view) or white
    factor = full_scale(dtype) / white
    if factor == 1:
        return
    change = f"multiplied by {factor:g}" if factor > 1 else f"divided by {1 / factor:g}, so that classes become equal"
    remedy = (
        f"divide them by {factor:g}" if factor > 1 else "read it in the dataset, with np.asarray(PIL.Image.open(file))"
    )
    remedy = {255: "pass dtype=types.UINT8", 65535: "pass dtype=types.UINT16"}.get(white, remedy)
    warn(f"a mask with values up to {white} was decoded to {dtype}: as in DALI, its values were {change}; {remedy}")


def _loaded(view: memoryview, info: ImageInfo, pixels_of: Callable[[Image.Image], Array]) -> Array:
    turned = 1
    try:
        with open_image(_readable(view)) as image:
            if info.format == "tiff":  # pillow turns it
                turned = read_orientation(image)
            image.load()
            pixels = pixels_of(image)
    except (
        *(OSError, ValueError, SyntaxError, EOFError, IndexError, struct.error),
        Image.DecompressionBombError,  # pillow's limit, which applies to TIFF
    ) as error:
        raise DecodeError(f"the image is damaged or truncated: {error}") from error
    return _turned_back(pixels, turned)


def _readable(view: memoryview) -> memoryview:
    """Return an image without the chunks of a PNG that pillow needn't read, and might refuse."""
    if bytes(view[:8]) != PNG_SIGNATURE:
        return view
    kept = [view[at - 8 : at + length + 4] for name, at, length in png_chunks(view) if name in _CRITICAL_CHUNKS]
    return memoryview(PNG_SIGNATURE + b"".join(kept))


def _pixels_of(image: Image.Image, wanted: str, narrow: Narrow) -> Array:
    if image.mode in _WIDE_MODES:
        gray = _with_channels(np.asarray(image))
        bits = _tags_of(image)[TiffTag.BITS][0] if image.format == "TIFF" and image.mode != "F" else 16
        if bits != 16:  # pillow scales neither 12 nor 32 bits
            gray = gray << 16 - bits if bits < 16 else gray.view(np.uint32) >> bits - 16
        gray = gray.astype(_WIDE_MODES[image.mode])
        gray = narrow(gray)
        return np.repeat(gray, 3, axis=2) if wanted == "RGB" else gray
    if image.format == "TIFF" and image.mode == "P":
        palette = np.array(_tags_of(image)[TiffTag.COLORS], np.uint16).reshape(3, -1).T
        colors = _from_rgb(palette[np.asarray(image)], wanted)
        return narrow(colors)
    if image.format == "JPEG" and image.mode == "CMYK" and "adobe" not in image.info:
        image = ImageChops.invert(image)  # pillow takes all inks for inverted ones, as in Adobe's files
    if wanted == "ANY_DATA":
        alpha = "LA" if image.format == "TIFF" else "RGBA"
        mode = {"1": "L", "P": "RGB", "PA": "RGBA", "LA": alpha}.get(image.mode, image.mode)
        return _with_channels(np.asarray(image.convert(mode)))
    if image.mode == "La":  # gray that is multiplied by alpha, which pillow can't convert
        image = image.getchannel(0)
    if wanted == "GRAY" and image.mode in ("1", "L"):
        return _with_channels(np.asarray(image.convert("L")))
    return convert_color(
        _colors_of_ink(image) if image.mode == "CMYK" else np.asarray(image.convert("RGB")), "RGB", wanted
    )


def _tags_of(image: Image.Image) -> Any:
    return image.tag_v2  # type: ignore[attr-defined]


def _colors_of_ink(image: Image.Image) -> Bytes:
    """Convert CMYK to RGB as DALI does: multiply the light that each ink and black transmit, and truncate."""
    left = 255 - np.asarray(image).astype(np.uint16)
    return (left[..., :3] * left[..., 3:] // 255).astype(np.uint8)
