"""The ranks of a distributed run: which of its processes this one is."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from dali_proxy.pipeline.errors import ArgumentValueError

_VARIABLE = "DALI_PROXY_RANKS"
_TASKS = re.compile(r"(\d+)(?:\(x(\d+)\))?")  # SLURM's "4(x2),3": two nodes with 4 tasks, one with 3


@dataclass(frozen=True)
class Ranks:
    """The position of a process among all processes of a run, and among those on its machine.

    Attributes:
        rank: number of this process, from 0.
        world_size: number of processes.
        local_rank: number of this process on its machine, from 0.
        local_world_size: number of processes on its machine.
        source: where these numbers come from: "torch.distributed", "torchrun", "SLURM", "set_ranks", or "" for a
            single process.

    Raises:
        ArgumentValueError: a rank isn't below the number of processes.
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    source: str = ""

    def __post_init__(self) -> None:
        for rank, size in ((self.rank, self.world_size), (self.local_rank, self.local_world_size)):
            if not 0 <= rank < size:
                raise ArgumentValueError(
                    f"{self.source or 'Ranks'}: a rank must be 0 or more and less than the number of processes, but "
                    f"they are {rank} and {size}"
                )

    @property
    def variable(self) -> dict[str, str]:
        """The environment variable that passes these ranks to a child."""
        return {_VARIABLE: f"{self.rank},{self.world_size},{self.local_rank},{self.local_world_size},{self.source}"}


def set_ranks(ranks: Ranks | None) -> None:
    """Use these ranks in this process and its children instead of the launcher's; None for the launcher's again."""
    os.environ.pop(_VARIABLE, None)
    if ranks is not None:
        os.environ.update(ranks.variable)


def current_ranks(environ: Mapping[str, str] = os.environ) -> Ranks:
    """Return the ranks of this process.

    They come from `set_ranks`; from torch.distributed, if the process group is initialized; from the variables of
    torchrun; or from those of a SLURM step (`srun`). Otherwise, the process is alone.

    Example:
        >>> current_ranks({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"})
        Ranks(rank=5, world_size=8, local_rank=1, local_world_size=4, source='torchrun')
    """
    if _VARIABLE in environ:
        *numbers, source = environ[_VARIABLE].split(",")
        rank, size, local_rank, local_size = map(int, numbers)
        return Ranks(rank, size, local_rank, local_size, source)
    distributed = sys.modules.get("torch.distributed")  # never imported here: servers run without torch
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return _ranks(distributed.get_rank(), distributed.get_world_size(), environ, "torch.distributed")
    if {"RANK", "WORLD_SIZE"} <= environ.keys():
        return _ranks(_number(environ, "RANK"), _number(environ, "WORLD_SIZE"), environ, "torchrun")
    # Only the tasks of a step have this variable. In a batch script, the others count tasks that don't run.
    if "SLURM_STEP_NUM_TASKS" in environ and "SLURM_PROCID" in environ:
        rank, size = _number(environ, "SLURM_PROCID"), _number(environ, "SLURM_STEP_NUM_TASKS")
        return Ranks(rank, size, _number(environ, "SLURM_LOCALID"), _slurm_tasks_here(environ), "SLURM")
    return Ranks()


def _ranks(rank: int, size: int, environ: Mapping[str, str], source: str) -> Ranks:
    """Return the ranks for a global rank. Without local ranks in the environment, assume a single machine."""
    if {"LOCAL_RANK", "LOCAL_WORLD_SIZE"} <= environ.keys():
        return Ranks(rank, size, _number(environ, "LOCAL_RANK"), _number(environ, "LOCAL_WORLD_SIZE"), source)
    if "SLURM_LOCALID" in environ and "SLURM_STEP_NUM_TASKS" in environ:
        return Ranks(rank, size, _number(environ, "SLURM_LOCALID"), _slurm_tasks_here(environ), source)
    return Ranks(rank, size, rank, size, source)


def _slurm_tasks_here(environ: Mapping[str, str]) -> int:
    """Return the number of this step's tasks on this node."""
    counts = [
        int(count)
        for count, times in _TASKS.findall(environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
        for _ in range(int(times or 1))
    ]
    node = _number(environ, "SLURM_NODEID")
    return counts[node] if node < len(counts) else _number(environ, "SLURM_LOCALID") + 1


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name, "0")
    if not text.isdecimal():
        raise ArgumentValueError(f"the environment variable {name} must be a number, not {text!r}")
    return int(text)
