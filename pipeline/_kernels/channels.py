"""Table of channels: normalisation and fill values, shared by all samples or per sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.errors import PipelineError

__all__ = ["CHANNEL", "channel_table"]

#: struct Channel of common.cuh.
CHANNEL = np.dtype([("scale", "f8"), ("bias", "f8"), ("fill", "f8")], align=True)


def channel_table(
    samples: int,
    channels: int,
    scale: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    fill: npt.ArrayLike | None = None,
) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint32]]:
    """Return the table of channels, and the index of each sample's first row.

    Args:
        samples: number of samples N.
        channels: number of channels C: the rows of each sample.
        scale: scalar, (C,), or (N, C) or (N, 1); 1 by default.
        bias: same shapes as `scale`; 0 by default.
        fill: same shapes as `scale`; 0 by default.

    Raises:
        PipelineError: a shape doesn't match.
    """
    arrays = {
        "scale": np.asarray(1.0 if scale is None else scale, np.float64),
        "bias": np.asarray(0.0 if bias is None else bias, np.float64),
        "fill": np.asarray(0.0 if fill is None else fill, np.float64),
    }
    rows = samples if any(array.ndim == 2 for array in arrays.values()) else 1
    table = np.empty((rows, channels), CHANNEL)
    for name, array in arrays.items():
        try:
            table[name] = array
        except ValueError:
            raise PipelineError(
                f"{name} of shape {array.shape} doesn't fit {samples} samples of {channels} channels"
            ) from None
    first = np.arange(samples, dtype=np.uint32) * np.uint32(channels if rows > 1 else 0)
    return table.reshape(-1), first
