"""Normalisation arguments of `crop_mirror_normalize`, and their resolution for CPU and GPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Kind
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array

NORMALIZATION_ARGUMENTS = (
    Argument("mean", Kind.FLOATS, "Subtracted from pixels: one value, or one per channel.", (0.0,), per_sample=True),
    Argument("std", Kind.FLOATS, "Divides the difference: one value, or one per channel.", (1.0,), per_sample=True),
    Argument("scale", Kind.FLOAT, "Multiplies the result: (pixel - mean) / std * scale + shift.", 1.0),
    Argument("shift", Kind.FLOAT, "Added to the result.", 0.0),
    Argument("pad_output", Kind.BOOL, "Add channels of fill values, up to the next power of two.", False),
)


def gains_and_offsets(arguments: Arguments) -> tuple[Array, Array]:
    """Return gain and offset of the normalisation ``pixel * gain + offset``, (batch, 1) or (batch, channels) each.

    Raises:
        ArgumentValueError: A standard deviation is 0, or mean and std have different numbers of channels.
    """
    mean, std = arguments.vectors("mean"), arguments.vectors("std")
    if mean.shape[1] != std.shape[1] and 1 not in (mean.shape[1], std.shape[1]):
        raise ArgumentValueError(
            "``mean`` and ``std`` must either be of the same size, be scalars, or one of them can be a vector and the "
            "other "
            f"a scalar; they have {mean.shape[1]} and {std.shape[1]} values"
        )
    if (std == 0).any():
        raise ArgumentValueError(f"argument 'std' is 0 for sample {int(np.argmax((std == 0).any(axis=1)))}")
    gain = arguments.constant("scale") / std
    offset = arguments.constant("shift") - mean * gain
    return np.broadcast_to(gain, offset.shape), offset


def for_channels(values: Sequence[float], channels: int) -> Sequence[float]:
    """Return the values for the channels of an image: one for all, or one per channel.

    As in DALI, there may be values for the channels that padding adds, too.

    Raises:
        ArgumentValueError: There is a different number of values.
    """
    if len(values) in (1, channels):
        return values
    if len(values) != padded_channels(channels, pad=True):
        raise ArgumentValueError(
            "The number of per-channel arguments should match the number of channels in the output slice: 'mean' or "
            f"'std' has {len(values)} values for {channels} channels"
        )
    return values[:channels]


def padded_channels(channels: int, pad: bool) -> int:
    """Return the number of channels of the output.

    Example:
        >>> padded_channels(3, pad=True)
        4
    """
    return 1 << (channels - 1).bit_length() if pad and channels else channels
