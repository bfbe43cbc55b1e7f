"""`distributed.shared_server`: ranks with one server and one pool of dataset workers."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from dali_proxy import DALIServer, LastBatchPolicy
from dali_proxy.distributed import set_ranks
from tests.dali_proxy.indexed import noisy
from tests.dali_proxy.pool.ranks import BATCH, SAMPLES, Batches, epochs, run_member, run_rank, run_rank_on_gpu
from tests.thorough import thorough_except

Outcome = Callable[[int], list[dict[str, Any]]]

two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Return a function that returns what each of a number of ranks has found."""
    found: dict[int, list[dict[str, Any]]] = {}

    def run(world: int) -> list[dict[str, Any]]:
        if world not in found:
            found[world] = run_ranks(world, tmp_path_factory.mktemp("ranks"))
        return found[world]

    return run


def run_ranks(
    world: int, folder: Path, target: Callable[..., None] = run_rank, *arguments: Any
) -> list[dict[str, Any]]:
    context = multiprocessing.get_context("forkserver")
    pipes = [context.Pipe(duplex=False) for _ in range(world)]
    processes = [
        context.Process(target=target, args=(rank, world, folder, theirs, *arguments))
        for rank, (_, theirs) in enumerate(pipes)
    ]
    for process, (_, theirs) in zip(processes, pipes, strict=True):
        process.start()
        theirs.close()
    found: list[dict[str, Any]] = []
    for ours, _ in pipes:
        found.append({})
        with ours:
            while True:
                try:
                    name, value = ours.recv()
                except EOFError:
                    break
                found[-1][name] = value
    for process in processes:
        process.join()
    return found


@pytest.fixture(scope="module", params=thorough_except([2, 4], 2))
def world(request: pytest.FixtureRequest) -> int:
    """Number of ranks."""
    return int(request.param)


@pytest.fixture
def _own_ranks() -> Iterator[None]:
    yield
    set_ranks(None)


@pytest.mark.usefixtures("_own_ranks")
def test_batches_are_those_of_a_server_for_each_rank(outcome: Outcome, world: int) -> None:
    for rank, found in enumerate(outcome(world)):
        set_ranks(rank, world, rank, world)
        with DALIServer(noisy(), mode="thread") as server:
            assert epochs(server) == found["epochs"]


def test_ranks_have_equal_numbers_of_batches(outcome: Outcome, world: int) -> None:
    found = [rank["epochs"] for rank in outcome(world)]
    for policy in LastBatchPolicy:
        assert len({len(each[policy.name]) for each in found}) == 1
    indices = [index for each in found for _, batch in each["PARTIAL"] for index in batch]
    assert sorted(indices) == sorted([*range(45)] * 2)


def test_ranks_draw_different_numbers(outcome: Outcome, world: int) -> None:
    first, second, *_ = (rank["epochs"]["other sampler"] for rank in outcome(world))
    assert [indices for _, indices in first] == [indices for _, indices in second]
    assert first != second


def test_processes_that_need_the_same_data_compute_it_once(tmp_path: Path) -> None:
    first, second = run_ranks(2, tmp_path, run_member)
    assert first["batches"] == second["batches"]
    assert first["computed"] == second["computed"] == {-(-SAMPLES // BATCH)}


def test_slow_rank_neither_stops_the_others_nor_fills_memory(outcome: Outcome, world: int) -> None:
    in_flight = 3 * -(-2 // world)
    assert outcome(world)[1]["slow rank"] <= (1 + in_flight) * BATCH


def test_dataset_worker_that_dies_costs_no_batch(outcome: Outcome) -> None:
    found = outcome(2)[1]["deaths"]
    assert [index for indices in found["once"] for index in indices] == [*range(45)]


def test_sample_that_always_kills_costs_only_its_batch(outcome: Outcome) -> None:
    found = outcome(2)[1]["deaths"]
    assert sorted({*range(45)} - {index for indices in found["always"] for index in indices}) == [4, 5, 6, 7]
    assert found["message"].startswith("WorkerDiedError: batch 1 of epoch 0 can't be read: 2 dataset workers died")
    assert "indices: 4, 5, 6, 7" in found["message"]


def test_rank_that_dies_does_not_stop_the_others(outcome: Outcome) -> None:
    *others, _ = outcome(4)
    for found in others[1:]:
        expected: Batches = found["epochs"]["PARTIAL"]
        assert found["ends"]["batches"] == expected[: len(expected) // 2]


def test_end_of_the_owner_is_an_error_for_all_ranks_in_time(outcome: Outcome) -> None:
    for found in outcome(4)[1:3]:
        assert found["ends"]["message"] == (
            "ServerClosedError: the server is closed: the process that started it has ended"
        )
        assert found["ends"]["seconds"] < 5


def test_different_pipelines_are_an_error_on_all_ranks(outcome: Outcome) -> None:
    first, second = (rank["refused"] for rank in outcome(2))
    assert first.startswith("ProxyError: shared_server: rank 1 failed: ArgumentMismatchError: all ranks must pass")
    assert second.startswith(
        "ArgumentMismatchError: all ranks must pass the same pipeline, but for rank 1 max_batch_size"
    )


def test_owner_waits_for_the_others(outcome: Outcome) -> None:
    assert [rank["left"] for rank in outcome(2)] == [True, False]


def test_loader_resumes_and_handles_errors_as_usual(outcome: Outcome) -> None:
    found = outcome(2)[1]["batches"]
    assert found["resumed"]
    assert found["skipped"] == [[0, 1, 2, 3], [4, 6, 7], [8, 9, 10, 11]]
    assert "for dataset index 5" in found["error"]
    assert "sample 5 is bad" in found["error"]


def test_iterable_dataset_is_read_by_the_rank_itself(outcome: Outcome) -> None:
    assert outcome(2)[1]["batches"]["stream"] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_large_arrays_come_through_shared_memory(outcome: Outcome) -> None:
    assert outcome(2)[1]["batches"]["large"] == ((4, 64, 1024), 1, 4, 4)


def test_batch_that_cannot_be_pickled_is_an_error(outcome: Outcome) -> None:
    message = outcome(2)[1]["batches"]["unpicklable"]
    assert "cannot pickle '_thread.lock' object" in message


@pytest.mark.gpu
@pytest.mark.parametrize(
    "devices", [[0, 0], pytest.param([0, 1], marks=two_gpus), pytest.param([1, 0, 1], marks=two_gpus)]
)
def test_results_of_one_gpu_arrive_on_the_gpu_of_each_rank(tmp_path: Path, devices: list[int]) -> None:
    found = run_ranks(len(devices), tmp_path, run_rank_on_gpu, devices)
    assert found == [{"on": [device], "wrong": [], "refused": ""} for device in devices]
