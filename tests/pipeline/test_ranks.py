"""The ranks of a process: which environment they come from."""

from __future__ import annotations

import pytest

from dali_proxy.pipeline._ranks import Ranks, current_ranks, set_ranks
from pipeline.errors import ArgumentValueError

STEP = {"SLURM_STEP_NUM_TASKS": "7", "SLURM_STEP_TASKS_PER_NODE": "2(x2),3", "SLURM_NODEID": "2"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, Ranks()),
        ({"RANK": "3", "WORLD_SIZE": "4"}, Ranks(3, 4, 3, 4, "torchrun")),
        (
            {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"},
            Ranks(5, 8, 1, 4, "torchrun"),
        ),
        ({**STEP, "SLURM_PROCID": "6", "SLURM_LOCALID": "2"}, Ranks(6, 7, 2, 3, "SLURM")),
        # A batch script has SLURM's variables, too, but it runs once.
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_LOCALID": "0"}, Ranks()),
    ],
)
def test_ranks_come_from_the_launcher(environ: dict[str, str], expected: Ranks) -> None:
    assert current_ranks(environ) == expected


@pytest.mark.parametrize("environ", [{"RANK": "4", "WORLD_SIZE": "4"}, {"RANK": "x", "WORLD_SIZE": "4"}])
def test_impossible_ranks_are_errors(environ: dict[str, str]) -> None:
    with pytest.raises(ArgumentValueError, match=r"torchrun: a rank|RANK must be a number"):
        current_ranks(environ)


def test_chosen_ranks_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    chosen = Ranks(1, 2, source="set_ranks")
    set_ranks(chosen)
    try:
        assert current_ranks() == chosen
        assert current_ranks({**chosen.variable, "RANK": "3"}) == chosen  # as in a child process
    finally:
        set_ranks(None)
    assert current_ranks().rank == 3
