"""The arithmetic of last batches, and the policies of the loader."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, SequentialSampler, SubsetRandomSampler
from torch.utils.data.datapipes.iter import IterableWrapper

from dali_proxy import DALIServer, DataLoader, LastBatchPolicy
from dali_proxy._common.policies import FilledBatches, batch_count, fill
from pipeline import errors
from tests.dali_proxy.indexed import IndexDataset, IndexStream, check_affine

FILL, DROP, PARTIAL = LastBatchPolicy


def chunks(samples: int, batch_size: int) -> list[list[int]]:
    return [list(range(samples))[start : start + batch_size] for start in range(0, samples, batch_size)]


@given(st.integers(1, 40), st.integers(1, 12), st.booleans())
def test_filled_batches(samples: int, batch_size: int, padded: bool) -> None:
    filled = FilledBatches(chunks(samples, batch_size), batch_size, padded)
    flat = [index for batch in filled for index in batch]
    assert len(list(filled)) == len(filled) == batch_count(samples, batch_size, FILL)
    assert all(len(batch) == batch_size for batch in filled)
    assert flat[:samples] == list(range(samples))
    extra = flat[samples:]
    assert extra == [samples - 1 if padded else place % samples for place in range(len(extra))]


def test_empty_batch_cannot_be_filled() -> None:
    with pytest.raises(errors.ArgumentValueError, match="no samples to fill with"):
        fill([], 2, [], padded=True)


def test_values_are_those_of_dali() -> None:
    assert [(policy.name, policy.value) for policy in LastBatchPolicy] == [("FILL", 0), ("DROP", 1), ("PARTIAL", 2)]


# The loader


def batches(loader: Any) -> list[list[int]]:
    return [check_affine(images, indices) for images, indices in loader]


WHOLE = [[0, 1, 2], [3, 4, 5]]


@pytest.mark.combinations
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize(
    ("policy", "padded", "last"),
    [
        (FILL, True, [[6, 6, 6]]),
        (FILL, False, [[6, 0, 1]]),
        (PARTIAL, False, [[6]]),
        (PARTIAL, True, [[6]]),
        (DROP, False, []),
        (DROP, True, []),
    ],
)
def test_loader(server: DALIServer, num_workers: int, policy: Any, padded: bool, last: list[list[int]]) -> None:
    loader = DataLoader(
        server,
        IndexDataset(7, server.proxy),
        3,
        num_workers=num_workers,
        last_batch_policy=policy,
        last_batch_padded=padded,
    )
    for _ in range(2):
        assert batches(loader) == [*WHOLE, *last]
    assert len(loader) == len(WHOLE) + len(last)


@pytest.mark.combinations
@pytest.mark.parametrize(("policy", "last"), [(FILL, [[6, 0, 1]]), (PARTIAL, [[6]]), (DROP, [])])
def test_persistent_workers(server: DALIServer, policy: LastBatchPolicy, last: list[list[int]]) -> None:
    dataset = IndexDataset(7, server.proxy)
    loader = DataLoader(server, dataset, 3, num_workers=2, persistent_workers=True, last_batch_policy=policy)
    for _ in range(3):
        assert batches(loader) == [*WHOLE, *last]


def test_fewer_samples_than_a_batch_has(server: DALIServer) -> None:
    loader = DataLoader(server, IndexDataset(2, server.proxy), batch_size=5, last_batch_policy=FILL)
    assert batches(loader) == [[0, 1, 0, 1, 0]]


def test_sampler_in_its_own_order(server: DALIServer) -> None:
    sampler = SubsetRandomSampler([6, 2, 9, 4, 0])
    dataset = IndexDataset(10, server.proxy)
    (first, second) = batches(DataLoader(server, dataset, 3, sampler=sampler, last_batch_policy=FILL))
    assert sorted([*first, *second[:2]]) == [0, 2, 4, 6, 9]
    assert second[2] == first[0]


@pytest.mark.parametrize(("policy", "counts"), [(DROP, [3, 3]), (PARTIAL, [3, 3, 1])])
def test_iterable_datasets(server: DALIServer, policy: LastBatchPolicy, counts: list[int]) -> None:
    loader = DataLoader(server, IndexStream(7, server.proxy), batch_size=3, last_batch_policy=policy)
    assert [len(batch) for batch in batches(loader)] == counts


@pytest.mark.parametrize(("policy", "counts"), [(DROP, [3] * 4), (PARTIAL, [3, 3, 3, 3, 1, 1])])
def test_workers_of_an_iterable_dataset_have_a_last_batch_each(
    server: DALIServer, policy: LastBatchPolicy, counts: list[int]
) -> None:
    """Like torch's `drop_last`: each worker has 7 samples."""
    stream = IndexStream(14, server.proxy)
    loader = DataLoader(server, stream, batch_size=3, num_workers=2, persistent_workers=True, last_batch_policy=policy)
    for _ in range(2):
        assert sorted((len(batch) for batch in batches(loader)), reverse=True) == counts


@pytest.mark.parametrize("policy", list(LastBatchPolicy))
@pytest.mark.parametrize("drop_last", [False, True])
def test_drop_last_must_not_contradict(server: DALIServer, policy: LastBatchPolicy, drop_last: bool) -> None:
    arguments = (IndexDataset(7, server.proxy), 3, False, None, None, 0, None, False, drop_last)
    if drop_last and policy is not DROP:
        with pytest.raises(errors.ArgumentMismatchError, match="drop_last=True contradicts"):
            DataLoader(server, *arguments, last_batch_policy=policy)
    else:
        loader = DataLoader(server, *arguments, last_batch_policy=policy)
        assert loader.drop_last == (policy is DROP)
        assert loader.batch_size == 3


def test_contradictions(server: DALIServer) -> None:
    dataset = IndexDataset(7, server.proxy)
    sampler = BatchSampler(SequentialSampler(dataset), 2, False)
    with pytest.raises(errors.ArgumentMismatchError, match="needs a batch_size"):
        DataLoader(server, dataset, batch_sampler=sampler, last_batch_policy=FILL)
    with pytest.raises(errors.ArgumentMismatchError, match="needs a batch_size"):
        DataLoader(server, dataset, batch_size=None, last_batch_policy=DROP)
    with pytest.raises(errors.ArgumentMismatchError, match="last_batch_padded says how"):
        DataLoader(server, dataset, last_batch_padded=True)
    with pytest.raises(errors.ArgumentMismatchError, match=r"must be one of LastBatchPolicy.FILL, .*, not 'FILL'"):
        DataLoader(server, dataset, last_batch_policy="FILL")  # type: ignore[arg-type]
    for stream in (IndexStream(7, server.proxy), IterableWrapper(range(7))):
        with pytest.raises(errors.ArgumentMismatchError, match="needs a dataset with indices"):
            DataLoader(server, stream, last_batch_policy=FILL)


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize(
    ("size", "expected"),
    [(6, [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 0, 1]]), (3, [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 0, 1]])],
)
def test_batch_sampler_determines_the_size(
    size: int, expected: list[list[int]], num_workers: int, server: DALIServer
) -> None:
    loader = DataLoader(server, IndexDataset(10, server.proxy), 4, last_batch_policy=FILL, num_workers=num_workers)
    loader.batch_sampler.batch_size = size  # type: ignore[union-attr]  # torch allows it
    assert len(loader) == len(expected)
    assert batches(loader) == expected
    state = loader.state_dict()
    loader.batch_sampler.batch_size = 4  # type: ignore[union-attr]
    with pytest.raises(errors.ArgumentMismatchError, match=f"saved with batch_size {size}"):
        loader.load_state_dict(state)


def test_batch_sampler_determines_the_size_of_iterable_datasets(server: DALIServer) -> None:
    loader = DataLoader(server, IndexStream(10, server.proxy), 4)
    loader.batch_sampler.batch_size = 6  # type: ignore[union-attr]
    assert batches(loader) == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9]]
    loader.batch_sampler.drop_last = True  # type: ignore[union-attr]
    assert batches(loader) == [[0, 1, 2, 3, 4, 5]]


def test_longer_batches_are_not_cut() -> None:
    assert list(FilledBatches([[1, 2, 3], [4]], 2, padded=False)) == [[1, 2, 3], [4, 1]]
