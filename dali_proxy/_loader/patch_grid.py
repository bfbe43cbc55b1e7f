"""`PatchGrid`: how a vision-language model divides images into patches, for the pipeline and for the dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._imaging.patches import PatchLayout, smart_sizes
from dali_proxy.pipeline.errors import ArgumentValueError

_PIXELS_PER_TOKEN = 28 * 28


@dataclass(frozen=True)
class PatchGrid:
    """How a vision-language model divides images into patches. The defaults are those of Qwen2-VL.

    The pipeline makes the patches; the dataset needs their number before, for the tokens of a sample's text and for
    `PackedBatchSampler`. This object has both: the arguments of the operators, and the grid of an image of any size.

    Attributes:
        patch_size: rows and columns of a patch.
        merge_size: side of the squares of patches that the model merges to one token.
        temporal_patch_size: frames of a patch.
        min_pixels: smallest number of pixels of a resized image.
        max_pixels: largest number.
        mode: argument of `fn.smart_resize`: "nearest", or "largest" as for SigLIP 2.
        channels: channels of an image.

    Example:
        >>> grid = PatchGrid()
        >>> grid.thw(480, 640), grid.tokens(480, 640), grid.features
        ((1, 34, 46), 391, 1176)
    """

    patch_size: int = 14
    merge_size: int = 2
    temporal_patch_size: int = 2
    min_pixels: int = 4 * _PIXELS_PER_TOKEN
    max_pixels: int = 1280 * _PIXELS_PER_TOKEN
    mode: str = "nearest"
    channels: int = 3

    @property
    def _layout(self) -> PatchLayout:
        return PatchLayout(self.patch_size, self.merge_size, self.temporal_patch_size)

    @property
    def features(self) -> int:
        """Number of elements of a patch."""
        return self._layout.features(self.channels)

    @property
    def resizing(self) -> dict[str, Any]:
        """Arguments of `fn.smart_resize`."""
        limits = {"min_pixels": self.min_pixels, "max_pixels": self.max_pixels}
        return {"factor": self._layout.factor, **limits, "mode": self.mode}

    @property
    def patching(self) -> dict[str, Any]:
        """Arguments of `fn.patchify`."""
        names = ("patch_size", "merge_size", "temporal_patch_size")
        return {name: getattr(self, name) for name in names}

    def grids(self, heights: npt.ArrayLike, widths: npt.ArrayLike, frames: npt.ArrayLike = 1) -> npt.NDArray[np.int64]:
        """Return the numbers of patches along time, height and width of many images or videos, (N, 3).

        Args:
            heights: heights before the resize, (N,), as `fn.decoders.image` returns them: after the rotation of EXIF.
            widths: widths, (N,).
            frames: frames of videos, (N,); 1 for images.

        Raises:
            ArgumentValueError: an image is empty, or its longer side is over 200 times the shorter one.
        """
        extents = np.stack(np.broadcast_arrays(*map(np.atleast_1d, (heights, widths))), axis=1).astype(np.int64)
        try:
            sizes = smart_sizes(
                extents, self._layout.factor, self.min_pixels, self.max_pixels, largest=self.mode == "largest"
            )
        except ValueError as error:
            raise ArgumentValueError(str(error)) from error
        times = -(-np.broadcast_to(np.asarray(frames, np.int64), len(sizes)) // self.temporal_patch_size)
        return np.concatenate([times[:, None], sizes // self.patch_size], axis=1)

    def thw(self, height: int, width: int, frames: int = 1) -> tuple[int, int, int]:
        """Return the numbers of patches along time, height and width of an image or a video; see `grids`."""
        time, rows, columns = self.grids(height, width, frames)[0].tolist()
        return time, rows, columns

    def tokens(self, height: int, width: int, frames: int = 1) -> int:
        """Return the number of tokens of an image or a video in the language model."""
        time, rows, columns = self.thw(height, width, frames)
        return time * rows * columns // self.merge_size**2
