"""The cores that a process may use: its affinity, its control group, and the processes that share them."""

from __future__ import annotations

import os
from dataclasses import dataclass

from dali_proxy.pipeline._control_group import cgroup_cores
from dali_proxy.pipeline._ranks import Ranks, current_ranks


@dataclass(frozen=True)
class Shares:
    """Division of a number of cores between the workers of a loader, the threads of a pipeline, and training loops.

    Example:
        >>> rank, machine = Shares(16), Shares(128, loops=8)
        >>> (rank.num_workers, rank.num_threads), (machine.num_workers, machine.num_threads)
        ((4, 11), (32, 88))
    """

    core_budget: int
    loops: int = 1

    @property
    def num_workers(self) -> int:
        """A quarter of the cores, at least 1."""
        return max(1, self.core_budget // 4)

    @property
    def num_threads(self) -> int:
        """The rest of the cores, without one for each training loop if there are enough."""
        loops = self.loops if self.core_budget >= 4 * self.loops else 0
        return max(1, self.core_budget - self.num_workers - loops)

    @classmethod
    def of_rank(cls) -> Shares:
        """Return the shares of this process's rank."""
        ranks, cores = current_ranks(), len(allowed_cores())
        return cls(core_budget(cores, cgroup_cores(), processes_sharing(ranks, cores)))

    @classmethod
    def of_machine(cls) -> Shares:
        """Return the shares of all ranks of this machine together, as far as this process may use their cores."""
        return cls(core_budget(len(allowed_cores()), cgroup_cores(), 1), current_ranks().local_world_size)


def allowed_cores() -> tuple[int, ...]:
    """Return the numbers of the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def processes_sharing(ranks: Ranks, allowed: int) -> int:
    """Return the number of ranks that share the allowed cores. SLURM may have bound each task to its own cores."""
    own = os.environ.get("SLURM_CPUS_PER_TASK", "") if "SLURM_STEP_NUM_TASKS" in os.environ else ""
    return 1 if own.isdecimal() and allowed <= int(own) else ranks.local_world_size


def core_budget(allowed: int, limit: float | None, sharing: int) -> int:
    """Return the number of cores that a process should use, at least 1.

    Args:
        allowed: number of cores that it may run on.
        limit: number of cores that its control group may use, or None for no limit.
        sharing: number of processes that share these cores.

    Example:
        >>> core_budget(64, None, 8), core_budget(64, 16.0, 8), core_budget(2, None, 8)
        (8, 2, 1)
    """
    return max(1, int((allowed if limit is None else min(allowed, limit)) / sharing))
