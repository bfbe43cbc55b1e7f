"""The memory that a process may use: that of the machine, and of its control group."""

from __future__ import annotations

from pathlib import Path

from dali_proxy.pipeline._control_group import ROOT, cgroup_memory
from dali_proxy.pipeline._ranks import current_ranks

_PART = 4  # the part of the available memory for results in flight: one of so many


def in_flight_bytes() -> int:
    """Return the limit for the results that one loader has in flight: the rank's share of a quarter of the memory."""
    return max(available_memory() // _PART // current_ranks().local_world_size, 1)


def available_memory(root: Path = ROOT) -> int:
    """Return the number of bytes that are free, or that the system can free, within the control groups' limits."""
    import psutil  # slow, and rarely needed

    available, left = int(psutil.virtual_memory().available), cgroup_memory(root)
    return available if left is None else min(available, left)
