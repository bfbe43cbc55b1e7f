"""The limit for decoded images that the environment variable `DALI_MAX_IMAGE_SIZE` sets, as in NVIDIA DALI."""

from __future__ import annotations

import os
from dataclasses import dataclass

from pipeline.errors import ArgumentValueError, DecodeError

__all__ = ["SizeLimit"]

_VARIABLE = "DALI_MAX_IMAGE_SIZE"


@dataclass(frozen=True)
class SizeLimit:
    """The largest decoded image.

    Attributes:
        most: height x width x channels x bytes per value; 0 for no limit.
        pixel: channels x bytes per value.
    """

    most: int
    pixel: int

    @classmethod
    def from_environment(cls, pixel: int) -> SizeLimit:
        """Return the limit for images with that many bytes per pixel.

        Raises:
            ArgumentValueError: the environment variable isn't a number.
        """
        text = os.environ.get(_VARIABLE) or "0"
        if not text.isdecimal():
            raise ArgumentValueError(f"the environment variable {_VARIABLE} must be a number of bytes, not {text!r}")
        return cls(int(text), pixel)

    def check(self, height: int, width: int) -> None:
        """Check the size of an image before it is decoded.

        Raises:
            DecodeError: the image is larger.
        """
        size = int(height) * int(width) * self.pixel
        if self.most and size > self.most:
            raise DecodeError(
                f"the decoded image of {height} x {width} pixels has {size} bytes, more than "
                f"{_VARIABLE} ({self.most}) allows"
            )
