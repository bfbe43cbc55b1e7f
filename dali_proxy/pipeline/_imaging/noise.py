"""Gaussian, salt-and-pepper and shot noise. The caller's generator draws the noise, so it is reproducible."""

from __future__ import annotations

import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._imaging.convert import WIDE, convert
from dali_proxy.pipeline._imaging.scratch import scratch

#: From this number of expected events on, shot noise is far below the precision of all dtypes.
CERTAIN = 2.0**53


def gaussian_noise(image: Array, generator: np.random.Generator, mean: float, stddev: float, out: Array) -> Array:
    """Add normally distributed noise to each value of an image of any dtype; integers are rounded and clamped.

    Returns:
        `out`.
    """
    noise = scratch("noise", image.shape, np.float32)
    generator.standard_normal(dtype=np.float32, out=noise)
    work = noise
    if image.dtype in WIDE:
        work = scratch("noisy", image.shape, np.float64)
        np.copyto(work, noise)
    work *= work.dtype.type(stddev)
    work += work.dtype.type(mean)
    np.add(work, image, out=work, casting="unsafe")
    return convert(work, out.dtype, out)


def shot_noise(image: Array, generator: np.random.Generator, factor: float, out: Array) -> Array:
    """Replace each value by a draw from a Poisson distribution with that mean, in steps of a factor.

    Negative values become 0, and integers are rounded and clamped. The factor 0 keeps the values.

    Returns:
        `out`.
    """
    if factor == 0:
        return convert(image, out.dtype, out)
    expected = np.maximum(image / np.float64(factor), 0.0)
    certain = ~(expected < CERTAIN)
    result = generator.poisson(np.where(certain, 0.0, expected)) * np.float64(factor)
    if certain.any():
        result[certain] = image[certain]
    return convert(result, out.dtype, out)


def salt_and_pepper(
    image: Array,
    generator: np.random.Generator,
    prob: float,
    salt_prob: float,
    salt: float,
    pepper: float,
    out: Array,
    channel_axis: int | None = None,
) -> Array:
    """Replace random values by salt or pepper.

    Args:
        image: array of any shape and numeric dtype.
        generator: random generator that draws the replaced values.
        prob: probability of a replacement.
        salt_prob: probability of `salt`; the rest of `prob` is the probability of `pepper`.
        salt: value of salt, in the dtype of `out`.
        pepper: value of pepper, in the dtype of `out`.
        out: output array, of the same shape and dtype.
        channel_axis: dimension along which values share a draw; None draws each value separately.

    Returns:
        `out`.
    """
    shape = [1 if axis == channel_axis else extent for axis, extent in enumerate(image.shape)]
    drawn = generator.random(shape)
    np.copyto(out, image)
    np.copyto(out, pepper, where=drawn < prob, casting="unsafe")
    np.copyto(out, salt, where=drawn < salt_prob, casting="unsafe")
    return out
