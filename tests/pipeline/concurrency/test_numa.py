"""The cores near a rank, on machines that a folder describes as sysfs does."""

from __future__ import annotations

from pathlib import Path

import pytest

from dali_proxy.pipeline._concurrency.numa import cores_near, gpu_node, node_cores


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """Two nodes of four cores, one of memory only, and two GPUs: one on node 1, one whose node is unknown."""
    for node, cores in ((0, "0-1,4-5"), (1, "2-3,6-7"), (2, "")):
        folder = tmp_path / f"devices/system/node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{cores}\n")
    for address, node in (("0000:3b:00.0", 1), ("0000:af:00.0", -1)):
        folder = tmp_path / "bus/pci/devices" / address
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{node}\n")
    return tmp_path


def test_nodes_are_read_from_sysfs(sysfs: Path) -> None:
    assert node_cores(sysfs) == {0: {0, 1, 4, 5}, 1: {2, 3, 6, 7}}
    assert node_cores(sysfs / "missing") == {}
    assert [gpu_node(address, sysfs) for address in ("0000:3B:00.0", "0000:af:00.0", "0000:00:00.0")] == [1, None, None]


@pytest.mark.parametrize(
    ("rank", "size", "gpu", "expected"),
    [
        (0, 8, 1, (2, 3, 6, 7)),  # the GPU's node
        (0, 2, None, (0, 1, 4, 5)),  # the nodes are divided among the ranks
        (1, 2, None, (2, 3, 6, 7)),
        (2, 4, None, (2, 3, 6, 7)),
        (0, 1, None, (0, 1, 2, 3, 4, 5, 6, 7)),  # a single process uses all
        (0, 2, 7, (0, 1, 2, 3, 4, 5, 6, 7)),  # a node without allowed cores
    ],
)
def test_rank_gets_the_cores_of_its_node(
    sysfs: Path, rank: int, size: int, gpu: int | None, expected: tuple[int, ...]
) -> None:
    assert cores_near(range(8), rank, size, gpu, sysfs) == expected


def test_only_allowed_cores_are_used(sysfs: Path) -> None:
    assert cores_near({3, 4}, 0, 4, 1, sysfs) == (3,)
    assert cores_near({4, 5}, 0, 4, 1, sysfs) == (4, 5)
