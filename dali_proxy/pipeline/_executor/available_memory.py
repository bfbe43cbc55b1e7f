"""The memory that a process may use: that of the machine, and of its control group."""

from __future__ import annotations

from pathlib import Path

from dali_proxy.pipeline._ranks import current_ranks

_PART = 4  # the part of the available memory for results in flight: one of so many


def in_flight_bytes() -> int:
    """Return the limit for the results that one loader has in flight: the rank's share of a quarter of the memory."""
    return max(available_memory() // _PART // current_ranks().local_world_size, 1)


def available_memory(root: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the number of bytes that are free, or that the system can free, within the control group's limit."""
    import psutil  # slow, and rarely needed

    available = int(psutil.virtual_memory().available)
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            return max(min(available, int((root / limit).read_text()) - int((root / used).read_text())), 0)
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return available
