"""A measurement of the cores while loops run: how the server's processes and other programs use them."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from dali_proxy._common.core_budget import allowed_cores, core_budget
from dali_proxy._common.run_delay import run_delay
from dali_proxy.pipeline._control_group import cgroup_cores

_TICKS = os.sysconf("SC_CLK_TCK")  # per second, in /proc
_SHORTEST = 0.2  # seconds of a measurement, unless a loop ends
_LONGEST = 5.0  # seconds without a report of a loop, after which it may have been left
_BUSY = (1, 2, 3, 6, 7, 8)  # columns of /proc/stat: user, nice, system, interrupts, other virtual machines


@dataclass(frozen=True)
class _Use:
    """Seconds of a process so far: on cores, and ready to run without a core."""

    processor: float
    runnable: float


@dataclass(frozen=True)
class _Sample:
    time: float
    busy: float  # core seconds of all programs on the cores that this process may use
    processes: dict[int, _Use] = field(default_factory=dict)


class MachineUse:
    """Sums of measurements while loops run. All numbers are in seconds, or in seconds times cores.

    Attributes:
        cores: number of cores that this process may use.
        observed: duration of the measurements.
        cores_idle: time of idle cores that this process may use.
        cores_other: time of these cores that other programs used.
        worker_elapsed: duration of the measurements, summed over the workers.
        worker_processor: processor time of the workers.
        worker_runnable: time that workers were ready to run, but got no core. 0 if the system doesn't count it.
        server_runnable: the same for all threads of this process, and for its own worker processes.
    """

    def __init__(self) -> None:
        self._allowed = {f"cpu{number}" for number in allowed_cores()}
        self._limit = cgroup_cores()
        self.cores = core_budget(len(self._allowed), self._limit, 1)
        self.observed = self.cores_idle = self.cores_other = 0.0
        self.worker_elapsed = self.worker_processor = self.worker_runnable = self.server_runnable = 0.0
        self._last: _Sample | None = None
        self._reported = 0.0  # time of the last report of a running loop

    def report(self) -> dict[str, Any]:
        """Return the attributes."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def sample(
        self, reports: bool, loops: bool, workers: Collection[int], own: Collection[int], others: Iterable[int]
    ) -> None:
        """Measure until now, if a loop was running since the last call.

        Args:
            reports: whether a loop has just reported; it may be running or have ended.
            loops: whether a loop is running now.
            workers: process IDs of the workers; those that also train aren't among them.
            own: process IDs of this process and its worker processes.
            others: process IDs of the other processes of the server, and of those that use it.
        """
        now, last = time.monotonic(), self._last
        was_left = now - self._reported > _LONGEST
        if reports:
            self._reported = now
        if (last is None and not loops) or (last is not None and loops and now - last.time < _SHORTEST):
            return
        processes = {pid: use for pid in {*workers, *own, *others} if (use := _use_of(pid)) is not None}
        current = _Sample(now, _busy_seconds(self._allowed), processes)
        if last is not None and not was_left:
            self._add(last, current, workers, own)
        self._last = current if loops else None

    def _add(self, last: _Sample, current: _Sample, workers: Collection[int], own: Collection[int]) -> None:
        seconds = max(current.time - last.time, 1e-9)
        none = _Use(0.0, 0.0)
        begins = {pid: last.processes.get(pid, none) for pid in current.processes}
        spent = {pid: max(0.0, use.processor - begins[pid].processor) for pid, use in current.processes.items()}
        used, busy = sum(spent.values()), max(0.0, current.busy - last.busy)
        idle = len(self._allowed) * seconds - busy
        if self._limit is not None:
            idle = min(idle, self._limit * seconds - used)
        self.observed += seconds
        self.cores_idle += max(0.0, idle)
        self.cores_other += max(0.0, busy - used)
        for pid in last.processes.keys() & current.processes.keys():
            runnable = max(0.0, current.processes[pid].runnable - last.processes[pid].runnable)
            if pid in own:
                self.server_runnable += runnable
            elif pid in workers:
                self.worker_elapsed += seconds
                self.worker_processor += min(spent[pid], seconds)
                self.worker_runnable += min(runnable, seconds)


def _busy_seconds(cores: Collection[str]) -> float:
    """Return for how long cores have been busy since the system's start, summed over cores."""
    total = 0
    with suppress(OSError), open("/proc/stat", encoding="ascii") as file:
        for line in file:
            if not line.startswith("cpu"):
                break
            words = line.split()
            if words[0] in cores:
                total += sum(int(words[column]) for column in _BUSY if column < len(words))
    return total / _TICKS


def _use_of(pid: int) -> _Use | None:
    """Return what a process has used, or None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            words = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    # A worker's main thread reads the samples; in this process, all threads work.
    threads = (f"self/task/{each}" for each in os.listdir("/proc/self/task")) if pid == os.getpid() else (str(pid),)
    return _Use((int(words[11]) + int(words[12])) / _TICKS, sum(map(run_delay, threads)))
