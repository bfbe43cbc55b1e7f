"""`DistributedBatchSampler`: the parts of the ranks, and loops that resume with another number of ranks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from dali_proxy import DALIServer, DataLoader, LastBatchPolicy
from dali_proxy.distributed import DistributedBatchSampler, set_ranks
from pipeline import fn, pipeline_def
from pipeline.errors import ArgumentMismatchError, ArgumentValueError
from tests.dali_proxy.indexed import IndexDataset, noisy

SAMPLES = 53


@pytest.fixture(autouse=True)
def _own_ranks() -> Iterator[None]:
    yield
    set_ranks(None)


@pytest.mark.parametrize("policy", LastBatchPolicy)
def test_ranks_have_equal_numbers_of_batches(policy: LastBatchPolicy) -> None:
    for samples, size, ranks in itertools.product((0, 1, 3, 10, 23, 24), (1, 2, 5), (1, 2, 3, 4)):
        samplers = [
            DistributedBatchSampler(samples, size, rank=rank, world_size=ranks, last_batch_policy=policy)
            for rank in range(ranks)
        ]
        parts = [list(sampler) for sampler in samplers]
        assert {len(part) for part in parts} == {len(samplers[0])}
        drawn = [index for part in parts for batch in part for index in batch]
        assert all(0 < len(batch) <= size for part in parts for batch in part)
        if policy is LastBatchPolicy.DROP:
            assert len({*drawn}) == len(drawn) == samples // (size * ranks) * size * ranks
        elif policy is LastBatchPolicy.FILL:
            assert {*drawn} == {*range(samples)}
            assert all(len(batch) == size for part in parts for batch in part)
        elif samples >= ranks and size > 1:
            assert sorted(drawn) == [*range(samples)]
        else:
            assert {*drawn} == {*range(samples)}


def test_padding_repeats_the_last_sample() -> None:
    sampler = DistributedBatchSampler(
        5, 4, shuffle=False, rank=1, world_size=2, last_batch_policy=LastBatchPolicy.FILL, last_batch_padded=True
    )
    assert list(sampler) == [[4, 4, 4, 4]]


def test_order_of_the_user_replaces_the_shuffle() -> None:
    sampler = DistributedBatchSampler(4, 2, order=lambda epoch: [epoch] * 4, rank=1, world_size=2)
    sampler.set_epoch(7)
    assert list(sampler) == [[7, 7]]
    with pytest.raises(ArgumentValueError, match=r"order\(0\) returned 3 indices instead of 4"):
        list(DistributedBatchSampler(4, 2, order=lambda epoch: [0] * 3, rank=0, world_size=2))


def epoch(ranks: int, state: dict[str, Any] | None, steps: int | None) -> tuple[dict[int, float], dict[str, Any]]:
    """Run steps of an epoch on all ranks. Return the result of each sample, and the state of the last rank."""
    results: dict[int, float] = {}
    for rank in range(ranks):
        set_ranks(rank, ranks)
        with DALIServer(noisy(), mode="thread") as server:
            dataset = IndexDataset(SAMPLES, server.proxy)
            loader = DataLoader(server, dataset, batch_sampler=DistributedBatchSampler(dataset, 4, seed=1))
            if state is not None:
                loader.load_state_dict(state)
            for samples, indices in itertools.islice(loader, steps):
                for index, sample in zip(indices.tolist(), samples[:, 0].tolist(), strict=True):
                    assert index not in results
                    results[index] = sample
            after = loader.state_dict()
    return results, after


def test_loop_resumes_with_other_numbers_of_ranks() -> None:
    whole, _ = epoch(1, None, None)
    first, state = epoch(4, None, 2)
    second, state = epoch(2, state, 1)
    third, state = epoch(3, state, None)
    assert sorted([*first, *second, *third]) == [*range(SAMPLES)]
    assert [len(part) for part in (first, second, third)] == [32, 8, 13]
    # The full batches are those of a single rank, with the same random numbers. The last steps are divided differently.
    assert {**first, **second} == {index: whole[index] for index in (*first, *second)}
    following, _ = epoch(2, state, None)  # the state at the end of an epoch begins the next one
    assert sorted(following) == [*range(SAMPLES)]
    assert [*following] != [*whole]


def test_loader_sets_the_epoch() -> None:
    with DALIServer(noisy(), mode="thread") as server:
        dataset = IndexDataset(SAMPLES, server.proxy)
        loader = DataLoader(server, dataset, batch_sampler=DistributedBatchSampler(dataset, 16))
        orders = [[index for _, indices in loader for index in indices.tolist()] for _ in range(2)]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == [*range(SAMPLES)]


def test_state_of_another_order_is_an_error() -> None:
    state = DistributedBatchSampler(10, 2, seed=1, rank=0, world_size=1).state_dict()
    with pytest.raises(ArgumentMismatchError, match="seed=1, but this sampler has seed=2"):
        DistributedBatchSampler(10, 2, seed=2, rank=0, world_size=1).load_state_dict(state)


@pipeline_def(batch_size=8, num_threads=1, device_id=None, seed=3)
def drawn() -> Any:
    return fn.random.uniform(range=(0, 1))


def test_ranks_draw_different_numbers_with_the_same_seed() -> None:
    """With a server and any sampler, and without a server."""
    served, direct = [], []
    for rank in range(3):
        set_ranks(rank, 3)
        with DALIServer(noisy(), mode="thread") as server:
            dataset = IndexDataset(4, server.proxy)
            ((samples, _),) = DataLoader(server, dataset, batch_size=4)
            served.append(tuple(samples[:, 0].tolist()))
        pipe = drawn()
        (numbers,) = pipe.run()
        direct.append(tuple(numbers.as_array().tolist()))
        pipe.close()
    assert len({*served}) == len({*direct}) == 3
