"""Policies of NVIDIA DALI's executor that pipelines accept as arguments. This project's executor has one policy."""

from __future__ import annotations

from enum import IntEnum


class OperatorConcurrency(IntEnum):
    """Which operators of a batch DALI may run at the same time. The values are those of NVIDIA DALI.

    Here, the stages of several batches always overlap, and the CPU stage runs samples in parallel.
    """

    UNSPECIFIED = 0
    NONE = 2
    BACKEND = 4
    FULL = 6


class StreamPolicy(IntEnum):
    """How DALI assigns CUDA streams to operators. The values are those of NVIDIA DALI.

    Here, all operators of a batch share one stream, and batches have different streams.
    """

    UNSPECIFIED = 0
    SINGLE = 16
    PER_BACKEND = 32
    PER_OPERATOR = 48
