"""The limits of control groups: of both versions, of the groups around a group, and in containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from dali_proxy.pipeline._control_group import cgroup_cores, cgroup_memory
from dali_proxy.pipeline._executor.available_memory import available_memory

NO_LIMIT = 9223372036854771712  # of version 1


def write(folder: Path, **files: object) -> None:
    """Write files, with "." for "__" in their names."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n")


@pytest.fixture
def membership(tmp_path: Path) -> Path:
    """The groups of a process on a machine with both versions."""
    path = tmp_path / "membership"
    path.write_text("5:memory:/job/step\n4:cpu,cpuacct:/job\n0::/user.slice/app.scope\n")
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cgroup"


def test_no_limits(root: Path, membership: Path) -> None:
    for known in (membership, membership.parent / "missing"):
        assert (cgroup_cores(root, known), cgroup_memory(root, known)) == (None, None)
    write(root, cpu__max="max 100000", memory__max="max", memory__high="max", memory__current=3000)
    write(root / "memory", memory__limit_in_bytes=NO_LIMIT, memory__usage_in_bytes=5)
    write(root / "cpu", cpu__cfs_quota_us=-1, cpu__cfs_period_us=100000)
    assert (cgroup_cores(root, membership), cgroup_memory(root, membership)) == (None, None)
    assert available_memory(root) > 3000


def test_cores(root: Path, membership: Path) -> None:
    write(root, cpu__max="250000 100000")
    assert cgroup_cores(root, membership) == 2.5
    write(root / "cpu", cpu__cfs_quota_us=150000, cpu__cfs_period_us=100000)
    assert cgroup_cores(root, membership) == 1.5
    write(root / "cpu" / "job", cpu__cfs_quota_us=50000, cpu__cfs_period_us=100000)
    assert cgroup_cores(root, membership) == 0.5


def test_memory_of_a_container(root: Path, membership: Path) -> None:
    """A container may see only its own group, at the root."""
    write(root, memory__max=5000, memory__current=3000)
    for known in (membership, membership.parent / "missing"):
        assert cgroup_memory(root, known) == 2000
    assert available_memory(root) == 2000
    membership.write_text("0::/../outside\n")
    assert cgroup_memory(root, membership) == 2000
    write(root, memory__current=5500)
    assert cgroup_memory(root, membership) == 0


def test_cache_of_files_is_free(root: Path, membership: Path) -> None:
    write(root, memory__max=5000, memory__current=4900)
    write(root, memory__stat="anon 900\nfile 4000\nshmem 500\ninactive_file 3000\nactive_file 500")
    assert cgroup_memory(root, membership) == 3600
    write(root / "memory", memory__limit_in_bytes=4000, memory__usage_in_bytes=3900)
    write(root / "memory", memory__stat="inactive_file 1\ntotal_inactive_file 1000\ntotal_active_file 200")
    assert cgroup_memory(root, membership) == 1300


def test_memory_of_groups_around_a_group(root: Path, membership: Path) -> None:
    write(root / "user.slice" / "app.scope", memory__max="max", memory__current=100)
    write(root / "user.slice", memory__max=9000, memory__current=2000)
    assert cgroup_memory(root, membership) == 7000
    write(root / "user.slice" / "app.scope", memory__high=500, memory__current=100)
    assert cgroup_memory(root, membership) == 400
    write(root / "memory" / "job", memory__limit_in_bytes=600, memory__usage_in_bytes=400)
    write(root / "memory" / "job" / "step", memory__limit_in_bytes=NO_LIMIT, memory__usage_in_bytes=1)
    assert cgroup_memory(root, membership) == 200
    write(root / "memory" / "other", memory__limit_in_bytes=1, memory__usage_in_bytes=1)
    assert cgroup_memory(root, membership) == 200
