"""NUMA nodes: the cores of each node, and the node of a GPU, as Linux describes them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from dali_proxy.pipeline._concurrency.affinity import parse_cores

SYSFS = Path("/sys")


def node_cores(sysfs: Path = SYSFS) -> dict[int, frozenset[int]]:
    """Return the cores of each NUMA node that has cores; empty if the system doesn't describe its nodes."""
    found = {}
    for folder in sorted((sysfs / "devices/system/node").glob("node[0-9]*")):
        try:
            cores = parse_cores((folder / "cpulist").read_text())
        except (OSError, ValueError):
            continue
        if cores:
            found[int(folder.name.removeprefix("node"))] = frozenset(cores)
    return dict(sorted(found.items()))


def gpu_node(address: str, sysfs: Path = SYSFS) -> int | None:
    """Return the NUMA node of the GPU with a PCI address such as "0000:3b:00.0"; None if it is unknown."""
    try:
        node = int((sysfs / "bus/pci/devices" / address.lower() / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def cores_near(
    allowed: Collection[int], local_rank: int, local_world_size: int, gpu: int | None, sysfs: Path = SYSFS
) -> tuple[int, ...]:
    """Return the allowed cores that are on the same NUMA nodes as a rank.

    Args:
        allowed: cores that the process may use.
        local_rank: number of the rank on this machine.
        local_world_size: number of ranks on this machine; without a GPU, the nodes are divided among them.
        gpu: NUMA node of the rank's GPU, or None.
        sysfs: root of sysfs.
    """
    nodes = {number: cores & {*allowed} for number, cores in node_cores(sysfs).items() if cores & {*allowed}}
    if gpu in nodes:
        return tuple(sorted(nodes[gpu]))
    if gpu is not None or len(nodes) < 2 or local_world_size < 2:
        return tuple(sorted(allowed))
    numbers = [*nodes]
    first = len(numbers) * local_rank // local_world_size
    end = max(first + 1, len(numbers) * (local_rank + 1) // local_world_size)
    return tuple(sorted(core for number in numbers[first:end] for core in nodes[number]))
