"""Patches of images and videos, and sizes that are multiples of them, as vision-language models need them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Array, Float64s, Int64s
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._imaging.normalize import crop_mirror_normalize

#: Orders of the elements of a patch: of channels, frames (T), rows and columns.
ORDERS = ("CTHW", "THWC")
_LARGEST_RATIO = 200
_STEPS = 60  # of the bisection: more than the bits of a float


@dataclass(frozen=True)
class PatchLayout:
    """How images are divided into patches.

    Attributes:
        patch_size: rows and columns of a patch.
        merge_size: a square of so many patches on each side is adjacent in the output.
        temporal_patch_size: frames of a patch.
        order: one of `ORDERS`.
    """

    patch_size: int
    merge_size: int = 1
    temporal_patch_size: int = 1
    order: str = "CTHW"

    @property
    def channels_last(self) -> bool:
        """Whether the channels of a pixel are adjacent."""
        return self.order == "THWC"

    @property
    def factor(self) -> int:
        """Height and width must be multiples of this."""
        return self.patch_size * self.merge_size

    def features(self, channels: int) -> int:
        """Return the number of elements of a patch."""
        return channels * self.temporal_patch_size * self.patch_size**2

    def shapes(self, extents: Int64s, channels: int) -> Int64s:
        """Return the shapes of the output, (N, 2), given frames, height and width of each sample, (N, 3)."""
        patch = np.array([self.temporal_patch_size, self.patch_size, self.patch_size])
        counts = np.prod(-(-extents // patch), axis=1)
        return np.stack([counts, np.full_like(counts, self.features(channels))], axis=1)


def patchify(
    frames: Array, layout: PatchLayout, out: Array, scale: Sequence[float] = (1.0,), bias: Sequence[float] = (0.0,)
) -> Array:
    """Write the patches of an image or a video, ``value * scale + bias``.

    The last frame is repeated until the number of frames is a multiple of a patch's.

    Args:
        frames: (F, H, W, C), of any strides. Height and width are multiples of `layout.factor`.
        layout: the patches.
        out: patches, C-contiguous, (number, features): in the order of time, of squares of patches (rows, columns), and
            of the patches in a square.
        scale: one value, or one per channel.
        bias: one value, or one per channel.

    Returns:
        `out`.

    Example:
        >>> image = np.arange(16, dtype=np.uint8).reshape(1, 4, 4, 1)
        >>> patchify(image, PatchLayout(2), np.empty((4, 4), np.uint8))
        array([[ 0,  1,  4,  5],
               [ 2,  3,  6,  7],
               [ 8,  9, 12, 13],
               [10, 11, 14, 15]], dtype=uint8)
    """
    count, height, width, channels = frames.shape
    patch, merge, duration = layout.patch_size, layout.merge_size, layout.temporal_patch_size
    steps = -(-count // duration)
    is_fast = frames.dtype == np.uint8 and out.dtype == np.float32 and not layout.channels_last
    values = np.array([np.broadcast_to(each, channels) for each in (scale, bias)], np.float32)
    parts = out.reshape(steps, -1, out.shape[1])
    for frame, image in enumerate(frames):
        step, place = divmod(frame, duration)
        copies = duration - place if frame == count - 1 else 1
        if is_fast and compiled is not None:
            compiled.write_patches(image, parts[step], patch, merge, duration, place, copies, *values)
            continue
        planes = np.empty((channels, height, width), out.dtype)
        crop_mirror_normalize(image, planes, scale=scale, bias=bias)
        squares = planes.reshape(channels, -1, merge, patch, width // layout.factor, merge, patch)
        shape = (squares.shape[1], squares.shape[4], merge, merge)
        if layout.channels_last:
            target = parts[step].reshape(*shape, duration, patch, patch, channels)
            target[:, :, :, :, place : place + copies] = squares.transpose(1, 4, 2, 5, 3, 6, 0)[:, :, :, :, None]
        else:
            target = parts[step].reshape(*shape, channels, duration, patch, patch)
            target[..., place : place + copies, :, :] = squares.transpose(1, 4, 2, 5, 0, 3, 6)[:, :, :, :, :, None]
    return out


def smart_sizes(
    extents: Int64s, factor: int, least: npt.ArrayLike, most: npt.ArrayLike, *, largest: bool = False
) -> Int64s:
    """Return sizes near those of images that are multiples of a factor, with a limited number of pixels.

    Args:
        extents: height and width of each image, (N, 2).
        factor: all heights and widths are multiples of it.
        least: smallest number of pixels, one or (N,).
        most: largest number of pixels, one or (N,).
        largest: scale images to the largest size within `most`, whose sides are rounded up, instead of rounding the
            sides of the image, and scaling only images that then have too few or too many pixels.

    Raises:
        ValueError: an image is empty, or its longer side is over 200 times the shorter one; the message says which.

    Example:
        >>> smart_sizes(np.array([[480, 640], [20, 30]]), 28, 56 * 56, 1280 * 28 * 28).tolist()
        [[476, 644], [56, 84]]
        >>> smart_sizes(np.array([[480, 640]]), 16, 0, 256 * 16 * 16, largest=True).tolist()
        [[224, 288]]
    """
    sides = np.asarray(extents, np.float64)
    wrong = (sides.min(axis=1) < 1) | (sides.max(axis=1) > _LARGEST_RATIO * sides.min(axis=1))
    if wrong.any():
        sample = int(np.argmax(wrong))
        height, width = np.asarray(extents)[sample].tolist()
        raise ValueError(f"sample {sample} of {height} x {width}: the sides must differ by a factor of at most 200")
    if largest:
        return _largest_sizes(sides, factor, np.broadcast_to(np.asarray(most, np.float64), len(sides)))
    sizes = np.maximum(np.rint(sides / factor), 1)
    pixels, areas = sizes.prod(axis=1) * factor**2, sides.prod(axis=1)
    for limit, rounded, wrong in ((most, np.floor, pixels > most), (least, np.ceil, pixels < least)):
        if wrong.any():
            limits = np.broadcast_to(np.asarray(limit, np.float64), len(sides))
            scales = np.sqrt(limits[wrong] / areas[wrong])
            sizes[wrong] = np.maximum(rounded(sides[wrong] * scales[:, None] / factor), 1)
    return np.asarray(sizes * factor, np.int64)


def _largest_sizes(sides: Float64s, factor: int, most: Float64s) -> Int64s:
    """Return the largest multiples, by bisection of the scale: the number of pixels grows with it."""

    def sizes_at(scales: Float64s) -> Float64s:
        return np.maximum(np.ceil(sides * scales[:, None] / factor), 1)

    low, high = np.zeros(len(sides)), 2 * np.sqrt(most / sides.prod(axis=1)) + math.ulp(1)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        fits = sizes_at(middle).prod(axis=1) * factor**2 <= most
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return np.asarray(sizes_at(low) * factor, np.int64)
