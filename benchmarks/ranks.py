"""Run a program once for each rank, with the variables that torchrun sets, and collect what each of them prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

READY = "ready"
"""A rank prints this line, and then waits for a line: all ranks measure at the same time."""


class RankError(RuntimeError):
    """A rank failed; its message is in the output.

    Attributes:
        results: what each rank printed before.
    """

    def __init__(self, results: Sequence[Sequence[Any]]) -> None:
        super().__init__("a rank failed; see its message above")
        self.results = results


def run_ranks(command: Sequence[str], count: int, cores: int | None = None) -> list[list[Any]]:
    """Run ``python -m`` with a command as a number of ranks of this machine.

    Args:
        command: Module and arguments. Each rank calls `wait_for_others` once, and then prints its results, a line of
            JSON each.
        count: Number of ranks.
        cores: Number of cores for each rank, so that fewer ranks don't get more; by default, they share all cores.

    Returns:
        For each rank, its results.

    Raises:
        RankError: A rank failed.
    """
    usable = sorted(os.sched_getaffinity(0))
    prefix = [] if cores is None else ["taskset", "--cpu-list", ",".join(map(str, usable[: count * cores]))]
    processes = []
    for rank in range(count):
        numbers = {"RANK": rank, "WORLD_SIZE": count, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": count}
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **{name: str(value) for name, value in numbers.items()}}
        processes.append(
            subprocess.Popen(
                [*prefix, sys.executable, "-m", *command],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
        )
    try:
        for process in processes:
            assert process.stdout is not None
            if process.stdout.readline() != f"{READY}\n":
                raise RankError([[] for _ in processes])
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
        printed = [process.communicate()[0] for process in processes]
        results = [[json.loads(line) for line in lines.splitlines() if line.startswith("{")] for lines in printed]
        if any(process.returncode for process in processes):
            raise RankError(results)
        return results
    finally:
        for process in processes:
            process.kill()
            process.wait()


def wait_for_others() -> None:
    """Say that this rank is ready, and wait until all ranks are."""
    print(READY, flush=True)
    sys.stdin.readline()
