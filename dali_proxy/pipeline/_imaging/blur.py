"""Gaussian blur: a filter along each axis, one after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._imaging.convert import convert
from dali_proxy.pipeline._imaging.native import compiled

#: Dtypes that OpenCV filters directly; other dtypes are converted to float32 first.
_OPENCV = {np.dtype(name) for name in ("uint8", "uint16", "int16", "float32", "float64")}
#: Largest number of channels that OpenCV filters.
_MOST_CHANNELS = 4
_BORDER = cv2.BORDER_REFLECT_101


def gaussian_window(sigma: float, size: int) -> Array:
    """Return the weights of a Gaussian filter: float32, with the sum 1.

    Args:
        sigma: standard deviation in pixels; 0 derives it from the size.
        size: odd number of weights; 0 covers three standard deviations on each side.

    Raises:
        ValueError: a value is negative, both are 0, or the size is even.

    Example:
        >>> gaussian_window(0.0, 3)
        array([0.23899427, 0.52201146, 0.23899427], dtype=float32)
    """
    windows = GaussianWindows.from_arguments(np.array([[sigma]]), np.array([[size]]))
    if windows.errors:
        raise windows.errors[0]
    return windows.of_sample(0)[0]


@dataclass(frozen=True)
class GaussianWindows:
    """The weights of Gaussian filters, for each sample and axis.

    Attributes:
        weights: (samples, axes, odd length) float32; a narrower window is in the middle.
        radii: number of weights on each side, (samples, axes).
        errors: the errors of samples with invalid arguments.
    """

    weights: Array
    radii: Array
    errors: dict[int, ValueError]

    @classmethod
    def from_arguments(cls, sigmas: Array, sizes: Array) -> GaussianWindows:
        """Return the windows of many samples; arguments as in `gaussian_window`, (samples, axes)."""
        sigma, size = np.ascontiguousarray(sigmas, np.float64), np.ascontiguousarray(sizes, np.int64)
        radii, deviation, errors = _measured(sigma, size)
        largest = int(radii.max(initial=0))
        offsets = np.arange(-largest, largest + 1)
        with np.errstate(invalid="ignore", over="ignore"):
            values = np.exp(-0.5 * (offsets / deviation[..., None]) ** 2)
        return cls(_normalized(values, radii), radii, errors)

    def repeated(self, axes: int) -> GaussianWindows:
        """Return the windows of one axis for several axes."""
        weights, radii = (np.repeat(each, axes, axis=1) for each in (self.weights, self.radii))
        return GaussianWindows(weights, radii, self.errors)

    def of_axis(self, axis: int) -> tuple[Array, Array]:
        """Return the weights, (samples, odd length), and the radii, (samples,), along an axis."""
        return self.weights[:, axis], self.radii[:, axis]

    def of_sample(self, sample: int) -> list[Array]:
        """Return the weights for each axis of a sample."""
        middle = self.weights.shape[-1] // 2
        rows = zip(self.weights[sample], self.radii[sample].tolist(), strict=True)
        return [row[middle - radius : middle + radius + 1] for row, radius in rows]


def _measured(sigma: Array, size: Array) -> tuple[Array, Array, dict[int, ValueError]]:
    """Return the radii and the standard deviations of windows, and the errors of samples with invalid arguments."""
    if compiled is not None:
        measured = np.empty(size.shape, np.int64), np.empty(size.shape)
        if compiled.measure_gaussians(sigma, size, *measured) >= 0:
            return *measured, {}
    valid = np.isfinite(sigma) & (sigma >= 0) & ((size == 0) & (sigma > 0) | (size > 0) & (size % 2 == 1))
    radii = np.where(size > 0, (size - 1) // 2, np.ceil(3 * np.where(valid, sigma, 0)).astype(np.int64))
    radii = np.where(valid, radii, 0)
    deviation = np.where(sigma > 0, sigma, (radii - 1) * 0.3 + 0.8)
    wrong = () if valid.all() else reversed(np.argwhere(~valid))
    errors = {int(sample): _error(float(sigma[sample, axis]), int(size[sample, axis])) for sample, axis in wrong}
    return radii, deviation, errors


def _normalized(values: Array, radii: Array) -> Array:
    """Return the middle of the rows of values, with a sum of 1 and zeros around it."""
    if compiled is not None:
        weights = np.empty(values.shape, np.float32)
        compiled.normalize_windows(values, radii, weights)
        return weights
    values = values * (np.abs(np.arange(values.shape[-1]) - values.shape[-1] // 2) <= radii[..., None])
    # A running sum has the same bits whatever the number of zeros around a window.
    return (values / values.cumsum(axis=-1)[..., -1:]).astype(np.float32)


def _error(sigma: float, size: int) -> ValueError:
    if sigma < 0 or size < 0 or not math.isfinite(sigma):
        return ValueError(f"sigma and window_size can't be negative; they are {sigma} and {size}")
    if not sigma and not size:
        return ValueError("sigma and window_size can't both be 0")
    return ValueError(f"window_size must be odd, not {size}")


def blur(image: Array, windows: Sequence[Array], out: Array) -> Array:
    """Filter along the first axes of an array. Borders reflect without repeating the outermost value.

    Args:
        image: (..., channels): up to three axes to filter, and the axis of channels.
        windows: an odd number of float32 weights for each filtered axis.
        out: output array, of the same shape; integers are rounded and clamped.

    Returns:
        `out`.

    Raises:
        ValueError: the number of windows doesn't match the number of axes.
    """
    if len(windows) != image.ndim - 1:
        raise ValueError(f"{len(windows)} windows were given for {image.ndim - 1} axes")
    if not out.size:
        return out
    depth = np.float64 if image.dtype == np.float64 else np.float32
    work = np.ascontiguousarray(image, image.dtype if image.dtype in _OPENCV else depth)
    if work.ndim == 4:
        # Three passes over all frames at once: a call for each frame would need the GIL each time.
        frames, height, width, channels = work.shape
        work = _along_rows(work.reshape(frames, -1, 1), windows[0], depth)
        work = _planes(work.reshape(frames * height, width, channels), _ONE, windows[2], depth)
        columns = np.ascontiguousarray(work.reshape(frames, height, -1).swapaxes(0, 1))
        work = _along_rows(columns.reshape(height, -1, 1), windows[1], depth).reshape(columns.shape).swapaxes(0, 1)
    elif work.ndim == 3:
        work = _planes(work, windows[0], windows[1], depth)
    else:
        work = _along_rows(work[:, :, None], windows[0], depth)
    return convert(work.reshape(out.shape), out.dtype, out)


_ONE = np.ones(1, np.float32)


def _along_rows(image: Array, window: Array, depth: Any) -> Array:
    """Filter (rows, columns, 1) along the first axis."""
    return _filtered(image, window, _ONE, depth)


def _planes(image: Array, vertical: Array, horizontal: Array, depth: Any) -> Array:
    """Filter (height, width, channels)."""
    if image.shape[2] <= _MOST_CHANNELS:
        return _filtered(image, vertical, horizontal, depth)
    planes = [
        _filtered(np.ascontiguousarray(image[:, :, channel]), vertical, horizontal, depth)
        for channel in range(image.shape[2])
    ]
    return np.stack(planes, axis=2)


def _filtered(image: Array, vertical: Array, horizontal: Array, depth: Any) -> Array:
    kind = cv2.CV_64F if depth is np.float64 else cv2.CV_32F
    result = cv2.sepFilter2D(image, kind, horizontal, vertical, borderType=_BORDER)
    return np.asarray(result).reshape(image.shape)
