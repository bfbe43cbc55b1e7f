"""Measure how long the GPU works for one batch, with CUDA's own tracing."""

from __future__ import annotations

from collections.abc import Callable

import torch


def gpu_milliseconds(work: Callable[[], object], batches: int) -> float:
    """Return the milliseconds of all kernels and copies of one batch, whichever library issues them.

    Args:
        work: issues one batch.
        batches: how many to trace.
    """
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(batches):
            work()
        torch.cuda.synchronize()
    return sum(float(event.device_time_total) for event in profile.events()) / batches / 1e3
