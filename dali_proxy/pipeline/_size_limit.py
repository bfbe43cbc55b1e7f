"""The limit for the size of a sample: files may claim, or decompress to, more than the memory of a machine."""

from __future__ import annotations

import math
import os
import re
from functools import lru_cache

from dali_proxy.pipeline.errors import ArgumentValueError, DecodeError

_SAMPLE_LIMIT = "DALI_PROXY_MAX_SAMPLE_BYTES"
_IMAGE_LIMIT = "DALI_MAX_IMAGE_SIZE"  # that of NVIDIA DALI, for decoded images only
_DEFAULT = 4 << 30
_UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT])i?)?B?\s*", re.ASCII | re.IGNORECASE)


def check_size(subject: str, *factors: int) -> None:
    """Check the size of a sample before memory is allocated for it.

    Args:
        subject: the data, for the message.
        factors: numbers whose product is the size in bytes, such as extents and the size of an element.

    Raises:
        DecodeError: the sample is larger than the limit.

    Example:
        >>> check_size("the decoded image", 30000, 30000, 3)
        >>> check_size("the decoded image", 300000, 300000, 3)
        Traceback (most recent call last):
        dali_proxy.pipeline.errors.DecodeError: the decoded image has 270000000000 bytes, more than ...
    """
    _check(_SAMPLE_LIMIT, size_from_environment(_SAMPLE_LIMIT, _DEFAULT), subject, factors)


def check_image(height: int, width: int, pixel: int) -> None:
    """Check the size of an image before it is decoded, also against the limit of NVIDIA DALI.

    Raises:
        DecodeError: the image is larger than the limit.
    """
    subject, limit = f"the decoded image of {height} x {width} pixels", size_from_environment(_IMAGE_LIMIT, 0)
    if limit:
        _check(_IMAGE_LIMIT, limit, subject, (height, width, pixel))
    else:
        check_size(subject, height, width, pixel)


def image_limit() -> float:
    """Return the largest size of a decoded image in bytes."""
    return size_from_environment(_IMAGE_LIMIT, 0) or size_from_environment(_SAMPLE_LIMIT, _DEFAULT) or math.inf


def size_from_environment(variable: str, default: int) -> int:
    """Return the number of bytes in an environment variable.

    Raises:
        ArgumentValueError: the variable isn't a number of bytes.
    """
    return _parsed(variable, os.environ.get(variable, ""), default)


def as_bytes(value: int | str, subject: str) -> int:
    """Return a number of bytes that a user wrote, such as 1000, "500MB" or "4G". K is 1024, and so on.

    Raises:
        ArgumentValueError: it isn't a number of bytes.

    Example:
        >>> as_bytes("8GB", "the size"), as_bytes("1.5 M", "the size"), as_bytes(10, "the size")
        (8589934592, 1572864, 10)
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ArgumentValueError(f'{subject} must be a number of bytes, such as "4G", not {value!r}')
    return int(float(match[1]) * (1 << _UNITS[match[2].upper()])) if match[2] else int(float(match[1]))


@lru_cache(maxsize=32)
def _parsed(variable: str, text: str, default: int) -> int:
    return as_bytes(text, f"the environment variable {variable}") if text else default


def _check(variable: str, limit: int, subject: str, factors: tuple[int, ...]) -> None:
    size = math.prod(map(int, factors))  # NumPy's integers would overflow
    if limit and size > limit:
        raise DecodeError(
            f"{subject} has {size} bytes, more than {variable} ({limit}) allows. If you trust the data, set this "
            "environment variable to a larger number"
        )
