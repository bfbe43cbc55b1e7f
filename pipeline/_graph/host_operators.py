"""Operators without a GPU version: called for a GPU, they run on the CPU, and their data is copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline._declaration.schema import OperatorSchema

__all__ = ["HOST_OPERATORS", "runs_on_host"]

#: Operators that run on a GPU in DALI. Those that have a GPU version here aren't affected.
HOST_OPERATORS = frozenset(
    (
        *("audio_resample", "box_encoder", "clahe", "debayer", "decoders.inflate", "dump_image", "grid_mask", "jitter"),
        *("experimental.audio_resample", "experimental.debayer", "experimental.dilate", "experimental.erode"),
        *("experimental.inflate", "experimental.median_blur", "experimental.readers.fits", "experimental.remap"),
        *("experimental.tensor_resize", "experimental.warp_perspective", "laplacian", "mel_filter_bank", "mfcc"),
        *("multi_paste", "nonsilent_region", "preemphasis_filter", "spectrogram", "sphere", "tensor_resize"),
        *("to_decibels", "water"),
    )
)


def runs_on_host(schema: OperatorSchema, inputs: Sequence[Any], device: str | None) -> bool:
    """Return whether a call for a GPU must run on the CPU.

    Args:
        schema: declaration of the operator.
        inputs: positional inputs.
        device: the argument `device`, or None.
    """
    if schema.name not in HOST_OPERATORS or "gpu" in schema.devices:
        return False
    return device == "gpu" or (device is None and any(getattr(each, "device", "") == "gpu" for each in inputs))
