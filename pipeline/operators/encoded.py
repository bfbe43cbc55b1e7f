"""What operators on encoded pictures share: reading samples as bytes, and channels of what will be decoded."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.tensors.cpu import Array
from pipeline.types import DALIImageType

__all__ = ["channels_of", "flat_bytes"]

_CHANNELS = {DALIImageType.RGB: 3, DALIImageType.BGR: 3, DALIImageType.YCbCr: 3, DALIImageType.GRAY: 1}


def flat_bytes(sample: Array) -> npt.NDArray[np.uint8]:
    """Return a sample of any dtype and shape as its bytes, with no copy where it is contiguous.

    Example:
        >>> flat_bytes(np.zeros((1, 5), np.uint8)).shape
        (5,)
    """
    if sample.ndim == 1 and sample.dtype == np.uint8:
        return sample
    return np.ascontiguousarray(sample).reshape(-1).view(np.uint8)


def channels_of(output_type: DALIImageType) -> int | None:
    """Return the channels of decoded pictures; None when that depends on the file."""
    return _CHANNELS.get(output_type)
