"""Which cores the threads of a pipeline are bound to."""

from __future__ import annotations

from pathlib import Path

import psutil

__all__ = ["nearest_cores", "parse_cores"]


def nearest_cores(device_id: int | None) -> tuple[int, ...]:
    """Return the cores that this process may use; with a GPU only those on its side of the machine, where it has any.

    Empty where the system has no notion of this.

    Args:
        device_id: the GPU, or None.
    """
    ask = getattr(psutil.Process(), "cpu_affinity", None)
    if ask is None:  # macOS
        return ()
    allowed: list[int] = ask()
    if device_id is None:
        return tuple(allowed)
    near = _cores_near(device_id)
    return tuple(core for core in allowed if core in near) or tuple(allowed)


def _cores_near(device_id: int) -> set[int]:
    import cupy

    address = cupy.cuda.Device(device_id).pci_bus_id.lower()
    try:
        return parse_cores(Path(f"/sys/bus/pci/devices/{address}/local_cpulist").read_text())
    except OSError:  # not Linux, or a container without it
        return set()


def parse_cores(text: str) -> set[int]:
    """Read a list of cores as Linux writes it.

    Example:
        >>> sorted(parse_cores("0-2,8"))
        [0, 1, 2, 8]
    """
    cores: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            cores.update(range(int(first), int(last or first) + 1))
    return cores
