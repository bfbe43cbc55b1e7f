"""Read the GPU memory in use from the driver's tool, without creating a CUDA context."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Mapping

PATIENCE = 20.0


def memory_in_use(device_id: int) -> float | None:
    """Return the MiB that all processes use on one GPU; None if the driver doesn't report it."""
    lines = _query("--query-gpu=memory.used", f"--id={device_id}")
    return _number(lines[0]) if lines else None


def memory_by_group(groups: Mapping[str, Iterable[int]]) -> dict[str, float]:
    """Return the MiB that groups of processes use on all GPUs.

    Args:
        groups: Process IDs, by the name of their group.

    Returns:
        An entry for each group with processes that the driver knows: in some containers it knows none.
    """
    used: dict[int, float] = {}
    for line in _query("--query-compute-apps=pid,used_memory"):
        pid, _, amount = line.partition(",")
        number = _number(amount)
        if pid.strip().isdigit() and number is not None:
            used[int(pid)] = used.get(int(pid), 0.0) + number
    found = {name: [used[pid] for pid in pids if pid in used] for name, pids in groups.items()}
    return {name: sum(amounts) for name, amounts in found.items() if amounts}


def _query(*words: str) -> list[str]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, *words, "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:  # "[N/A]"
        return None
