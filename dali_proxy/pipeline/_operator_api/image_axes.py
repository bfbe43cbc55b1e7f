"""The dimensions of images and volumes inside of samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array

#: Layouts of images and sequences. Samples without a layout get the first one of their number of dimensions.
IMAGE_LAYOUTS = ("HWC", "HW", "FHWC", "CHW", "FCHW")

_MAX_AXES = 3


@dataclass(frozen=True)
class ImageAxes:
    """Dimensions of the images or volumes of a sample.

    Attributes:
        outer: number of dimensions before them: frames, and channels if they come first.
        count: number of dimensions of an image: 1 to 3. Only channels may follow.
    """

    outer: int
    count: int

    @classmethod
    def from_layout(cls, layout: str, ndim: int) -> ImageAxes:
        """Return the dimensions of images: all except frames and channels; without a layout, all.

        Raises:
            ArgumentValueError: The layout has the wrong number of such dimensions, or channels between them.
        """
        if not layout:
            if not 0 < ndim <= _MAX_AXES:
                raise ArgumentValueError(
                    f"samples of {ndim} dimensions need a layout; without it, only 1 to 3 dimensions can be filtered"
                )
            return cls(0, ndim)
        axes = [index for index, letter in enumerate(layout) if letter not in "FC"]
        if len(axes) > _MAX_AXES:
            raise ArgumentValueError(
                f"Too many dimensions, found: {len(axes)} data axes, maximum supported is: {_MAX_AXES}. The layout is "
                f"{layout!r}"
            )
        if not axes:
            raise ArgumentValueError(f"No spatial axes found in the layout {layout!r}")
        first, last = axes[0], axes[-1]
        if "F" in layout[first:]:
            raise ArgumentValueError(f"For sequences, layout should begin with 'F' or 'C', got: {layout}.")
        if last - first + 1 != len(axes):
            raise ArgumentValueError(f"Only channel-first or channel-last layouts are supported, got: {layout}.")
        if layout.count("F") > 1 or layout.count("C") > 1:
            raise ArgumentValueError(f"Found more the one occurrence of 'F' or 'C' axes in layout: {layout}.")
        return cls(first, len(axes))

    def images(self, data: Array, out: Array) -> Iterator[tuple[Array, Array]]:
        """Yield the images or volumes of a sample and of its output, each with an axis of channels at the end."""
        end = self.outer + self.count
        shape = (*data.shape[self.outer : end], *(data.shape[end:] or (1,)))
        for index in np.ndindex(*data.shape[: self.outer]):
            yield data[index].reshape(shape), out[index].reshape(shape)
