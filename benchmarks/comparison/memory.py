"""The memory of a loader's processes, as if they were alone on the machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import psutil

_MAPPING = re.compile(r"[0-9a-f]+-[0-9a-f]+ \S+ ([0-9a-f]+) (\S+) (\d+)")
_KIB = 1 / 1024


def memory_of(processes: Sequence[psutil.Process]) -> float:
    """Return the memory in MiB that a group of processes uses.

    A page of a file or of shared memory counts once, however many of these processes map it, and also if processes of
    other groups do (libraries). Other pages are those of the proportional set size (PSS): only forked processes share
    them, and these belong to the group.
    """
    private = 0.0
    shared: dict[tuple[str, str, str], float] = {}
    for process in processes:
        try:
            text = Path(f"/proc/{process.pid}/smaps").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        key: tuple[str, str, str] | None = None
        common = 0.0
        for line in text.splitlines():
            if mapping := _MAPPING.match(line):
                offset, device, inode = mapping.groups()
                key, common = (None if inode == "0" else (device, inode, offset)), 0.0
                continue
            name, _, rest = line.partition(":")
            if key is None:
                private += float(rest.split()[0]) if name == "Pss" else 0.0
            elif name in ("Private_Clean", "Private_Dirty"):
                private += float(rest.split()[0])
            elif name in ("Shared_Clean", "Shared_Dirty"):
                common += float(rest.split()[0])
                shared[key] = max(common, shared.get(key, 0.0))
    return round((private + sum(shared.values())) * _KIB, 1)
