"""The control groups of this process (cgroup v1 and v2), and their limits of cores and memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
_UNLIMITED = 1 << 62  # bytes: version 1 has a number in place of "max"

# The limits of memory, what is used of them, and the part of that which the system can free: the cache of files. Shared
# memory isn't part of it.
_MEMORY = (
    (("memory.max", "memory.high"), "memory.current", ("inactive_file", "active_file")),
    (("memory.limit_in_bytes",), "memory.usage_in_bytes", ("total_inactive_file", "total_active_file")),
)


def cgroup_cores(root: Path = ROOT, membership: Path = MEMBERSHIP) -> float | None:
    """Return the number of cores that the control groups allow, or None for no limit.

    Args:
        root: where the file systems of control groups are.
        membership: file with the groups of the process.
    """
    limits = []
    for group in _groups("cpu", root, membership):
        words = _read(group / "cpu.max").split() or [
            _read(group / name) for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        ]
        try:
            allowed, of = map(float, words)
        except ValueError:  # no such file, or "max"
            continue
        if allowed > 0 < of:
            limits.append(allowed / of)
    return min(limits, default=None)


def cgroup_memory(root: Path = ROOT, membership: Path = MEMBERSHIP) -> int | None:
    """Return the number of bytes that the control groups leave, or None for no limit.

    Args:
        root: where the file systems of control groups are.
        membership: file with the groups of the process.
    """
    left = []
    for group in _groups("memory", root, membership):
        for limits, used, freed in _MEMORY:
            allowed = [int(limit) for name in limits if (limit := _read(group / name)).isdecimal()]
            if min(allowed, default=_UNLIMITED) < _UNLIMITED and (current := _read(group / used)).isdecimal():
                fields = dict(line.partition(" ")[::2] for line in _read(group / "memory.stat").splitlines())
                left.append(max(min(allowed) - int(current) + sum(int(fields.get(name, 0)) for name in freed), 0))
    return min(left, default=None)


def _groups(controller: str, root: Path, membership: Path) -> Iterator[Path]:
    """Return the folders of the groups that control a resource: the process's own group, and all around it.

    A container may see only its own group, at the root, while the membership still has the path on the host.
    """
    paths = {root: PurePosixPath("/"), root / controller: PurePosixPath("/")}
    for line in _read(membership).splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            paths[root] = PurePosixPath(group)
        elif controller in controllers.split(","):
            paths[root / controller] = PurePosixPath(group)
    for base, path in paths.items():
        parts = [part for part in path.parts[1:] if part != ".."]
        for count in range(len(parts), -1, -1):
            yield base.joinpath(*parts[:count])


def _read(path: Path) -> str:
    """Return the contents of a file; empty without the file."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
