"""Training on several GPUs and machines: the place of this process in the run, and batches for its rank."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from dali_proxy._common.core_budget import allowed_cores, cgroup_cores, core_budget, processes_sharing
from dali_proxy._loader.distributed_sampler import DistributedBatchSampler
from pipeline._concurrency.numa import SYSFS, cores_near, gpu_node
from pipeline._ranks import Ranks, current_ranks
from pipeline._ranks import set_ranks as _set_ranks

__all__ = ["DistributedBatchSampler", "Environment", "environment", "set_ranks"]


@dataclass(frozen=True)
class Environment(Ranks):
    """The place of this process in a distributed run, and its share of the machine.

    Attributes:
        rank: number of this process, from 0.
        world_size: number of processes.
        local_rank: number of this process on its machine, from 0.
        local_world_size: number of processes on its machine.
        source: where these numbers come from; see `environment`.
        device_id: number of this rank's GPU, or None if the machine has no usable GPU.
        cores: cores on the same NUMA node as this rank's GPU; without a GPU, the nodes are divided among the ranks.
        core_budget: number of cores that the processes of this rank should use together.
    """

    device_id: int | None = None
    cores: tuple[int, ...] = ()
    core_budget: int = 1

    @property
    def num_workers(self) -> int:
        """Number of workers for the rank's `DataLoader`: a quarter of the budget, at least 1."""
        return max(1, self.core_budget // 4)

    @property
    def num_threads(self) -> int:
        """Number of threads for the rank's pipeline: the rest of the budget, without a core for the training loop."""
        return max(1, self.core_budget - self.num_workers - (self.core_budget >= 4))

    @property
    def shard(self) -> dict[str, int | bool]:
        """Arguments of a reader, so that the ranks read different entries and have the same number of batches."""
        return {"shard_id": self.rank, "num_shards": self.world_size, "pad_last_batch": True}

    def bind(self) -> None:
        """Run this process on `cores` from now on.

        Call it before the server starts. The server, the workers and all threads that start later inherit the cores.
        Linux allocates memory on the NUMA node of the thread that first writes to it, so their memory is near, too.
        """
        if self.cores and hasattr(os, "sched_setaffinity"):
            tasks = os.listdir("/proc/self/task") if os.path.isdir("/proc/self/task") else ["0"]
            for task in tasks:  # libraries have started threads already
                try:
                    os.sched_setaffinity(int(task), self.cores)
                except ProcessLookupError:  # the thread has ended
                    continue


def environment(
    *, allowed: Collection[int] | None = None, cgroup_limit: float | None = None, sysfs: Path = SYSFS
) -> Environment:
    """Return the place of this process in the run.

    The ranks come from `set_ranks`; from torch.distributed, if the process group is initialized; from the variables of
    torchrun; or from those of a SLURM step (`srun`). Otherwise, the process is alone.

    Args:
        allowed: cores that the process may use; by default, those of its affinity mask.
        cgroup_limit: number of cores that its control group may use; by default, the limit of the system.
        sysfs: root of sysfs, which describes the NUMA nodes.

    Raises:
        ArgumentValueError: the variables contradict each other.

    Example:
        >>> here = environment()
        >>> here.rank, here.world_size
        (0, 1)
    """
    ranks = current_ranks()
    usable = allowed_cores() if allowed is None else tuple(sorted(allowed))
    limit = cgroup_cores() if cgroup_limit is None else cgroup_limit
    sharing = processes_sharing(ranks, len(usable))
    device_id, address = _gpu(ranks.local_rank)
    near = cores_near(
        usable,
        ranks.local_rank if sharing > 1 else 0,
        sharing,
        None if address is None else gpu_node(address, sysfs),
        sysfs,
    )
    budget = min(core_budget(len(usable), limit, sharing), len(near))
    return Environment(**vars(ranks), device_id=device_id, cores=near, core_budget=budget)


def set_ranks(rank: int | None, world_size: int = 1, local_rank: int = 0, local_world_size: int = 1) -> None:
    """Choose the ranks instead of taking them from the environment.

    With tensor or pipeline parallelism, several processes need the same data: pass their number among the groups with
    different data. Call this before you create pipelines, servers and samplers.

    Args:
        rank: number of this process among those that read different data; None for the environment's ranks again.
        world_size: number of processes that read different data.
        local_rank: number of this process on its machine.
        local_world_size: number of processes on its machine.
    """
    chosen = None if rank is None else Ranks(rank, world_size, local_rank, local_world_size, "set_ranks")
    _set_ranks(chosen)


def _gpu(local_rank: int) -> tuple[int | None, str | None]:
    """Return the number and the PCI address of a rank's GPU. A launcher may have hidden the GPUs of other ranks."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        return None, None
    number = local_rank % count
    if sys.platform != "linux":
        return number, None
    try:
        import cupy

        return number, str(cupy.cuda.Device(number).pci_bus_id)
    except Exception:  # noqa: BLE001  # without CuPy or its driver, only the placement is less precise
        return number, None
