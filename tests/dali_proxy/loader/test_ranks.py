"""Ranks that are known only when an epoch begins: the server, the loader and the sampler existed before."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
from torch.utils.data import BatchSampler
from torch.utils.data.datapipes.iter import IterableWrapper

from dali_proxy import DALIServer, DataLoader
from dali_proxy._common.core_budget import Shares
from dali_proxy.distributed import DistributedBatchSampler
from pipeline import Pipeline, fn
from tests.dali_proxy.indexed import IndexDataset, IndexStream, noisy, sample

Initialize = Callable[[int], None]


@pytest.fixture
def initialize(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Initialize:
    """Return a function that lets torch.distributed look initialized, for a rank of two."""

    def initialized(rank: int) -> None:
        if "datapipe" in request.node.name:  # torch creates a group for these
            monkeypatch.setenv("RANK", str(rank))
            monkeypatch.setenv("WORLD_SIZE", "2")
            return
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)

    return initialized


def images(batches: Any) -> list[Any]:
    return [batch[0].tolist() for batch in batches]


def pair(image: Any) -> Any:
    return image, 0


DATASETS: dict[str, Callable[[DALIServer], Any]] = {
    "map": lambda server: IndexDataset(8, server.proxy),
    "iterable": lambda server: IndexStream(8, server.proxy),
    "datapipe": lambda server: IterableWrapper(range(8)).map(sample).map(server.proxy).map(pair),
}


@pytest.mark.combinations
@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("kind", DATASETS)
def test_ranks_of_one_server_draw_different_random_numbers(kind: str, num_workers: int, initialize: Initialize) -> None:
    def run() -> tuple[list[Any], int]:
        loader = DataLoader(server, DATASETS[kind](server), 4, num_workers=num_workers)
        return images(loader), loader.state_dict()["rank"]

    with DALIServer(noisy()) as server:
        alone, rank = run()
        assert rank == 0
        initialize(0)
        assert run() == (alone, 0)
        initialize(1)
        others, rank = run()
        assert rank == 1
        assert not any(batch in alone for batch in others)


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_loader_of_torch_has_the_rank_of_its_process(method: str, initialize: Initialize) -> None:
    def run(rank: int) -> list[Any]:
        initialize(rank)
        torch.manual_seed(1)  # of the workers
        workers: dict[str, Any] = {"num_workers": 1, "multiprocessing_context": method}
        loader = torch.utils.data.DataLoader(IndexDataset(8, server.proxy), 4, **workers)
        return images([server.produce_data(batch) for batch in loader])

    with DALIServer(noisy()) as server:
        first, second = run(0), run(1)
        assert not any(batch in first for batch in second)


def test_dataset_workers_of_a_server_draw_the_numbers_of_the_rank(initialize: Initialize) -> None:
    def run(server: DALIServer) -> list[Any]:
        return images(DataLoader(server, IndexDataset(8, server.proxy), 4, num_workers=0))

    with DALIServer(noisy()) as plain, DALIServer(noisy(), num_workers=2) as shared:
        assert run(shared) == run(plain)
        assert shared.pool.ready == 2
        initialize(1)
        assert run(shared) == run(plain)
        assert shared.pool.ready == 1


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("dealt", [False, True])
def test_sources_in_a_server_draw_the_numbers_of_the_rank(dealt: bool, parallel: bool, initialize: Initialize) -> None:
    def drawing(info: Any) -> Any:  # pickled by value, so that the server doesn't import torch with this module
        return np.float32([np.random.rand()])

    def run(rank: int) -> list[Any]:
        initialize(rank)
        sampler = DistributedBatchSampler(16, 2, shuffle=False) if dealt else BatchSampler(range(8), 2, False)
        return images(DataLoader(server, IndexDataset(16, server.proxy), batch_sampler=sampler, num_workers=0))

    with Pipeline(batch_size=2, num_threads=1, device_id=None, seed=3, py_start_method="spawn") as pipe:
        added = fn.external_source(drawing, batch=False, parallel=parallel)
        pipe.set_outputs(fn.external_source(name="x") * 0.0 + added)
    with DALIServer(pipe) as server:
        first, second = run(0), run(1)
        assert run(0) == first
        assert not any(batch in first for batch in second)


def test_state_of_another_rank_resumes_with_the_own_rank(initialize: Initialize) -> None:
    with DALIServer(noisy()) as server:
        loader = DataLoader(server, IndexDataset(8, server.proxy), 4, num_workers=0)
        next(iter(loader))
        state = loader.state_dict()
        initialize(1)
        expected = images(DataLoader(server, IndexDataset(8, server.proxy), 4, num_workers=0))
        loader = DataLoader(server, IndexDataset(8, server.proxy), 4, num_workers=0)
        loader.load_state_dict(state)
        iterator = iter(loader)
        assert images([next(iterator)]) == expected[1:]
        assert loader.state_dict()["rank"] == 1


def test_sampler_and_number_of_workers_follow_the_ranks(initialize: Initialize) -> None:
    with DALIServer(noisy()) as server:
        dataset = IndexDataset(8, server.proxy)
        sampler = DistributedBatchSampler(dataset, 2, shuffle=False)
        loader = DataLoader(server, dataset, batch_sampler=sampler)
        fixed = DataLoader(server, dataset, 4, num_workers=0)
        assert (len(loader), loader.num_workers) == (4, 0)
        initialize(1)
        assert (len(loader), sampler.rank, sampler.world_size) == (2, 1, 2)
        assert [indices.tolist() for _, indices in loader] == [[2, 3], [6, 7]]
        assert loader.num_workers == Shares.of_rank().num_workers
        list(fixed)
        assert fixed.num_workers == 0


def test_pipelines_follow_the_rank(initialize: Initialize) -> None:
    def source() -> Any:
        for _ in range(2):
            yield np.zeros((2, 1), np.float32)

    def run() -> list[Any]:
        return [pipe.run()[0].as_array().tolist() for _ in range(2)]

    pipes = []
    for _ in range(2):
        with Pipeline(batch_size=2, num_threads=1, device_id=None, seed=3) as pipe:
            pipe.set_outputs(fn.external_source(source, cycle="raise") + fn.random.uniform())
        pipe.build()
        pipes.append(pipe)
    pipe = pipes[0]
    first = run()
    initialize(1)
    pipe = pipes[1]
    second = run()
    assert not any(batch in first for batch in second)
    for pipe in pipes:
        pipe.close()


def test_transforms_of_batches_draw_the_numbers_of_the_rank(initialize: Initialize) -> None:
    def drawn(batch: Any) -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    def run(seed: int, server: DALIServer) -> list[Any]:
        torch.manual_seed(seed)
        return list(DataLoader(server, IndexDataset(8, server.proxy), 4, num_workers=0, batch_transform=drawn))

    with DALIServer(noisy()) as server:
        first = run(1, server)
        assert run(2, server) == first, "the pipeline's seed decides"
        initialize(1)
        assert not set(run(1, server)) & set(first)
        with DALIServer(noisy(seed=-1)) as unseeded:
            assert run(1, unseeded) == run(1, unseeded)
            assert run(2, unseeded) != run(1, unseeded)
