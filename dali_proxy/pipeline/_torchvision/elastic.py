"""Elastic distortion: each pixel is read from another position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._torchvision.arguments import InterpolationMode, is_sequence
from dali_proxy.pipeline._torchvision.color import channels_last
from dali_proxy.pipeline._torchvision.control import uniform_field
from dali_proxy.pipeline._torchvision.declaration import functional, transform
from dali_proxy.pipeline._torchvision.geometry import checked_fill
from dali_proxy.pipeline._torchvision.images import Image, ops, vector
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.types import DALIInterpType

_BILINEAR = InterpolationMode.BILINEAR
_RAMP = np.array([[[0], [1]], [[0], [1]]], np.float32)


def _displacement(name: str, value: Any) -> list[Any]:
    """Return the displacements along x and y, each HW."""
    array = np.asarray(value.cpu() if hasattr(value, "cpu") else value, np.float32)
    if array.ndim != 4 or array.shape[0] != 1 or array.shape[3] != 2:
        raise ArgumentValueError(f"Argument {name} shape should be (1, H, W, 2), but given {array.shape}")
    return [ops.as_tensor(np.ascontiguousarray(array[0, ..., axis]), layout="HW") for axis in range(2)]


@functional(displacement=_displacement)
def elastic(inpt: Image, displacement: Any, interpolation: Any = _BILINEAR, fill: Any = 0) -> Image:
    """Move the pixels of images.

    Args:
        inpt: images of height H and width W.
        displacement: array of shape (1, H, W, 2): the distances in x and y to the positions that are read, where 2
            is the extent of the image.
        interpolation: NEAREST, BILINEAR or BICUBIC.
        fill: value outside of the images, or one per channel.
    """
    if interpolation is DALIInterpType.INTERP_LANCZOS3:
        raise ArgumentValueError("elastic interpolates with NEAREST, BILINEAR or BICUBIC")
    extents = inpt.size()
    maps = [_positions(inpt, distance, extents, axis) for distance, axis in zip(displacement, (1, 0), strict=True)]

    def remapped(data: Any) -> Image:
        result: Image = channels_last(inpt.replaced(data), read)
        return result

    def read(data: Any) -> Any:
        return ops.experimental.remap(data, *maps, interp=interpolation)

    values = checked_fill(inpt, fill)
    if not any(values):
        return remapped(inpt.data)
    inside = remapped(ops.cast(inpt.data, dtype=ops.float32) * 0.0 + 1.0)
    moved = remapped(ops.cast(inpt.data, dtype=ops.float32)).data + (1.0 - inside.data) * inpt.per_channel(values)
    return inpt.rounded(moved + 0.5 if inpt.is_integer else moved)


def _positions(image: Image, distance: Any, extents: Sequence[Any], axis: int) -> Any:
    """Return the positions that are read along an axis, in pixels."""
    ramp = ops.as_tensor(_RAMP if axis else _RAMP.transpose(1, 0, 2), layout="HWC")
    fractions = ops.resize(
        ramp,
        size=vector(*extents),
        roi_start=[0.5, 0.5],  # the centres of the pixels of the ramp
        roi_end=[1.5, 1.5],
        antialias=False,
    )
    grid = ops.squeeze(fractions, axes=[2])
    return (image.beside(grid) + image.beside(distance) * 0.5) * image.beside(extents[axis])


def _pair(name: str, value: Any) -> tuple[float, float]:
    values = list(value) if is_sequence(value) else [value]
    if len(values) not in (1, 2) or not all(isinstance(each, int | float) and each >= 0 for each in values):
        raise ArgumentValueError(f"{name} must be a positive number, or one for x and one for y, got {value!r}")
    return float(values[0]), float(values[-1])


@transform(alpha=_pair, sigma=_pair)
def elastic_transform(
    image: Image, alpha: Any = 50.0, sigma: Any = 5.0, interpolation: Any = _BILINEAR, fill: Any = 0
) -> Image:
    """Move the pixels of images by random distances, which change smoothly.

    Args:
        image: images.
        alpha: strength of the distortion, or one for x and one for y.
        sigma: smoothness of the distortion: the standard deviation of a Gaussian filter, or one for x and one for y.
        interpolation: NEAREST, BILINEAR or BICUBIC.
        fill: value outside of the images, or one per channel.
    """
    displacement = []
    for strength, deviation, extent in zip(alpha, sigma, image.size(), strict=True):
        field = uniform_field(image, -1.0, 1.0)
        if deviation > 0:
            window = int(8 * deviation + 1) | 1
            field = ops.gaussian_blur(field, window_size=[window, window], sigma=[sigma[1] or 1e-6, sigma[0] or 1e-6])
        displacement.append(field * image.beside(strength / extent))
    return elastic(image, displacement, interpolation, fill)


ElasticTransform = elastic_transform
