"""CPU affinity: the cores to which a pipeline binds its threads."""

from __future__ import annotations

import os
from pathlib import Path


def nearest_cores(device_id: int | None) -> tuple[int, ...]:
    """Return the cores that this process may use.

    With a GPU, return only those of its NUMA node, unless the process may use none of them. Those that the environment
    variable `DALI_AFFINITY_MASK` lists come first, as in DALI. The result is empty on systems without CPU affinity.
    """
    import psutil  # slow, and rarely needed

    ask = getattr(psutil.Process(), "cpu_affinity", None)
    if ask is None:  # macOS
        return ()
    allowed: list[int] = ask()
    near = set(allowed) if device_id is None else _cores_near(device_id)
    listed = [int(core) for core in os.environ.get("DALI_AFFINITY_MASK", "").split(",") if core.strip().isdecimal()]
    first = [core for core in listed if core in allowed]
    return (*first, *([core for core in allowed if core in near and core not in first] or ([] if first else allowed)))


def _cores_near(device_id: int) -> set[int]:
    import cupy

    address = cupy.cuda.Device(device_id).pci_bus_id.lower()
    try:
        return parse_cores(Path(f"/sys/bus/pci/devices/{address}/local_cpulist").read_text())
    except OSError:  # not Linux, or a container that doesn't mount /sys
        return set()


def parse_cores(text: str) -> set[int]:
    """Parse a list of cores in the format of Linux.

    Example:
        >>> sorted(parse_cores("0-2,8"))
        [0, 1, 2, 8]
    """
    cores: set[int] = set()
    for item in text.strip().split(","):
        first, _, last = item.partition("-")
        if first:
            cores.update(range(int(first), int(last or first) + 1))
    return cores
