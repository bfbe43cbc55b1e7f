"""Conversion of element types and colors, with DALI's rounding."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Array, Float64s
from dali_proxy.pipeline._imaging.native import compiled

#: Dtypes with more digits than float32.
WIDE = {np.dtype(name) for name in ("int32", "uint32", "int64", "uint64", "float64")}

COLOR_CHANNELS = {"RGB": 3, "BGR": 3, "GRAY": 1, "YCbCr": 3}

# ITU-R BT.601 with studio range: Y in 16..235, Cb and Cr in 16..240. A row computes one result from the inputs and 1.
_YCBCR_OF_RGB = np.array(
    [
        [0.25678824, 0.50412941, 0.09790588, 16.0],
        [-0.14822290, -0.29099279, 0.43921569, 128.0],
        [0.43921569, -0.36778831, -0.07142737, 128.0],
    ]
)
_LUMA = 1.16438356
_RGB_OF_YCBCR = np.array(
    [
        [_LUMA, 0.0, 1.59602678, -16 * _LUMA - 128 * 1.59602678],
        [_LUMA, -0.39176229, -0.81296764, -16 * _LUMA + 128 * (0.39176229 + 0.81296764)],
        [_LUMA, 2.01723214, 0.0, -16 * _LUMA - 128 * 2.01723214],
    ]
)
_GRAY_OF_RGB = np.array([[0.299, 0.587, 0.114, 0.0]])
_GRAY_OF_YCBCR = np.array([[_LUMA, 0.0, 0.0, -16 * _LUMA]])
_YCBCR_OF_GRAY = np.array([[219.0 / 255.0, 16.0], [0.0, 128.0], [0.0, 128.0]])
# Integers that the compiled loop supports.
_SMALL_INTEGERS = frozenset(map(np.dtype, ("u1", "i1", "u2", "i2", "i4")))


def convert(array: Array, dtype: npt.DTypeLike, out: Array | None = None) -> Array:
    """Convert elements as DALI's ``cast`` does.

    To integers: round half away from zero, then clamp to the range; NaN becomes 0 (DALI leaves NaN undefined for
    wide integers). To bool: whether the rounded value differs from 0. To floats: nearest; float16 overflows to inf.

    Args:
        array: array of any shape and numeric dtype.
        dtype: dtype of the result.
        out: output array, of the same shape and of dtype `dtype`.

    Returns:
        `out`; without it, `array` itself if it already has the dtype, otherwise a new array.

    Example:
        >>> convert(np.array([0.5, 2.5, -1.5, 300.0]), np.uint8)
        array([  1,   3,   0, 255], dtype=uint8)
    """
    target = np.dtype(dtype)
    if array.dtype == target:
        if out is None:
            return array
        np.copyto(out, array)
        return out
    if out is None:
        out = np.empty(array.shape, target)
    if target.kind == "f":
        with np.errstate(over="ignore"):
            np.copyto(out, array, casting="unsafe")
    elif array.dtype.kind == "f":
        # NumPy's operations turn zero-dimensional arrays into scalars.
        _float_to_int(np.atleast_1d(array), np.atleast_1d(out))
    elif target.kind == "b":
        np.not_equal(array, 0, out=out)
    elif np.can_cast(array.dtype, target):
        np.copyto(out, array)
    else:
        _int_to_int(array, out)
    return out


def _float_to_int(array: Array, out: Array) -> None:
    if compiled is not None and array.dtype == np.float32 and out.dtype in _SMALL_INTEGERS and out.flags.c_contiguous:
        compiled.round_floats(np.ascontiguousarray(array), out)
        return
    work = array.astype(np.float32) if array.dtype == np.float16 else array
    # trunc(x + 0.5) is wrong where the sum x + 0.5 itself rounds up (0.49999997, odd numbers beyond 2**23).
    rounded = np.trunc(work)
    with np.errstate(invalid="ignore"):
        rounded += np.copysign(np.abs(work - rounded) >= 0.5, work)
    if out.dtype.kind == "b":
        np.not_equal(rounded, 0, out=out)
        return
    limits = np.iinfo(out.dtype)
    lowest, highest = rounded.dtype.type(limits.min), rounded.dtype.type(limits.max)
    with np.errstate(invalid="ignore"):
        np.nan_to_num(rounded, copy=False, nan=0.0, posinf=np.inf, neginf=-np.inf)
        np.copyto(out, np.clip(rounded, lowest, highest), casting="unsafe")
        # The float type can't represent the largest wide integers, so the limit itself overflowed above.
        out[rounded >= highest] = limits.max


def _int_to_int(array: Array, out: Array) -> None:
    source, target = np.iinfo(array.dtype), np.iinfo(out.dtype)
    clipped = np.clip(array, max(source.min, target.min), min(source.max, target.max))
    np.copyto(out, clipped, casting="unsafe")


def convert_color(image: Array, source: str, target: str, out: Array | None = None) -> Array:
    """Convert an image between the color spaces of DALI's ``DALIImageType``.

    Gray is 0.299 R + 0.587 G + 0.114 B; YCbCr is ITU-R BT.601 with studio range, as DALI documents. Results of
    integer images are rounded half away from zero and clamped; DALI differs by 1 in fewer than 1 of 300 values, and not
    at all in gray of RGB or BGR.

    Args:
        image: HWC, or other leading axes; float images must have the range 0..255.
        source: color space of the image: RGB, BGR, GRAY or YCbCr.
        target: color space of the result.
        out: contiguous memory that the result may use.

    Returns:
        An image of the same dtype with 1 or 3 channels; `image` itself if the color spaces are the same.

    Raises:
        ValueError: a color space is unknown, or the number of channels doesn't match `source`.
    """
    for space in (source, target):
        if space not in COLOR_CHANNELS:
            raise ValueError(f"unknown colour space {space!r}; known are {', '.join(COLOR_CHANNELS)}")
    if image.shape[-1] != COLOR_CHANNELS[source]:
        raise ValueError(f"a {source} image has {COLOR_CHANNELS[source]} channels, but this one has {image.shape[-1]}")
    if source == target:
        return image
    if image.dtype == np.uint8 and source in _OPENCV_GRAY and target == "GRAY" and image.size:
        pixels = np.ascontiguousarray(image).reshape(-1, *image.shape[-2:])
        gray = np.empty((*image.shape[:-1], 1), np.uint8) if out is None else out
        if compiled is not None:  # both have the bits of DALI's CPU operator
            compiled.to_gray(pixels, source == "BGR", gray)
        else:
            cv2.cvtColor(pixels, _OPENCV_GRAY[source], gray.reshape(pixels.shape[:-1]))
        return gray
    if source == "BGR":
        return convert_color(_swapped(image), "RGB", target)
    if target == "BGR":
        return _swapped(convert_color(image, source, "RGB"))
    if (source, target) == ("GRAY", "RGB"):
        return np.repeat(image, 3, axis=-1)
    if (source, target) == ("YCbCr", "GRAY"):
        return _transform(image[..., :1], _GRAY_OF_YCBCR[:, [0, 3]])
    return _transform(image, COLOR_MATRICES[source, target])


#: Conversions between color spaces: each row computes one channel from the inputs and 1.
COLOR_MATRICES = {
    ("RGB", "YCbCr"): _YCBCR_OF_RGB,
    ("YCbCr", "RGB"): _RGB_OF_YCBCR,
    ("RGB", "GRAY"): _GRAY_OF_RGB,
    ("YCbCr", "GRAY"): _GRAY_OF_YCBCR,
    ("GRAY", "YCbCr"): _YCBCR_OF_GRAY,
}


_OPENCV_GRAY = {"RGB": cv2.COLOR_RGB2GRAY, "BGR": cv2.COLOR_BGR2GRAY}


def _swapped(image: Array) -> Array:
    """Return the channels in the opposite order."""
    swapped: Array
    if image.dtype not in (np.uint8, np.uint16, np.float32) or not image.size:
        swapped = image[..., ::-1].copy()
        return swapped
    pixels = np.ascontiguousarray(image).reshape(-1, *image.shape[-2:])
    swapped = np.empty(pixels.shape, image.dtype)
    cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR, dst=swapped)
    return swapped.reshape(image.shape)


def _transform(image: Array, matrix: Float64s) -> Array:
    if compiled is not None and image.dtype == np.uint8 and matrix.shape == (3, 4):
        made = np.empty(image.shape, np.uint8)
        compiled.map_colors(np.ascontiguousarray(image), matrix.astype(np.float32), made)
        return made
    rows = np.ascontiguousarray(image, np.float32).reshape(-1, 1, image.shape[-1])
    result = cv2.transform(rows, matrix).reshape(*image.shape[:-1], len(matrix))
    return convert(result, image.dtype)
