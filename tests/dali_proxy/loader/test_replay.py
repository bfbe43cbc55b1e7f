"""`DataLoader.replay`: any batch again, from a state of its epoch, while the loop goes on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import RandomSampler

from dali_proxy import DALIServer, DataLoader, fn, pipeline_def, types
from dali_proxy.distributed import DistributedBatchSampler
from dali_proxy.pipeline.errors import ArgumentMismatchError, ArgumentValueError
from tests.dali_proxy.indexed import IndexDataset, IndexStream, noisy

SAMPLES, BATCH = 22, 4


@pytest.fixture
def server() -> Iterator[DALIServer]:
    """Start a server with random results, which reveal a batch that has a wrong number."""
    with DALIServer(noisy()) as server:
        yield server


def loader(server: DALIServer, **options: Any) -> DataLoader:
    given: dict[str, Any] = {"batch_size": BATCH, "shuffle": True, "num_workers": 0, **options}
    return DataLoader(server, IndexDataset(SAMPLES, server.proxy), **given)


def equal(first: Any, second: Any) -> bool:
    return all(torch.equal(*pair) for pair in zip(first, second, strict=True))


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


KINDS: dict[str, Any] = {
    "sequential": {"shuffle": False},
    "shuffled": {},
    "generator": {"generator": generator(3)},
    "sampler": {"shuffle": None, "sampler": RandomSampler(range(SAMPLES), generator=generator(4))},
    "workers": {"num_workers": 2, "persistent_workers": True},
}


@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_those_of_the_epoch(server: DALIServer, kind: str) -> None:
    made = loader(server, **KINDS[kind])
    list(made)  # the second epoch has other random numbers
    seen, states = [], []
    for batch in made:
        seen.append(batch)
        states.append(made.state_dict())
        if len(seen) == 3:  # in the middle of the loop
            numbers = torch.get_rng_state(), random.getstate()
            for number in (0, 2):
                assert equal(made.replay(states[-1], number).data, seen[number])
            assert torch.equal(torch.get_rng_state(), numbers[0])
            assert random.getstate() == numbers[1]
    last = made.replay(states[1], 5)
    assert equal(last.data, seen[5])
    assert (last.epoch, last.batch, len(last.indices)) == (1, 5, SAMPLES - 5 * BATCH)
    assert equal(made.replay(states[1]).data, seen[2])  # the next one
    other = loader(server, **KINDS[kind])  # in another process, for example
    assert equal(other.replay(states[4], 1).data, seen[1])


def test_batch_of_a_sampler_with_a_state(server: DALIServer) -> None:
    dataset = IndexDataset(SAMPLES, server.proxy)
    batches = DistributedBatchSampler(dataset, BATCH, shuffle=True, seed=2, rank=1, world_size=2)
    made = DataLoader(server, dataset, batch_sampler=batches)
    seen = []
    for number, batch in enumerate(made):
        seen.append(batch)
        if number == 0:
            state = made.state_dict()
        if number == 1:
            assert equal(made.replay(state, 1).data, seen[1])  # the sampler of this loop doesn't move
    assert len(seen) == 3
    assert equal(made.replay(state, 2).data, seen[2])
    with pytest.raises(ArgumentMismatchError, match="batch 0 needs an earlier state of the same epoch"):
        made.replay(state, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_state_of_the_beginning_of_an_epoch(server: DALIServer, kind: str) -> None:
    made = loader(server, **KINDS[kind])
    list(made)
    state = made.state_dict()
    seen = list(made)
    numbers = torch.get_rng_state()
    if kind in ("shuffled", "workers"):  # the order follows from a generator whose state isn't in this one
        with pytest.raises(ArgumentMismatchError, match=r"before epoch 1 began.*use a state that was saved in that"):
            made.replay(state, 2)
    else:
        assert equal(made.replay(state, 2).data, seen[2])
    assert torch.equal(torch.get_rng_state(), numbers)


def test_batches_that_do_not_exist(server: DALIServer) -> None:
    made = loader(server, shuffle=False)
    for batch in (6, 30):
        with pytest.raises(ArgumentValueError, match=f"epoch 0 has no batch {batch}"):
            made.replay(made.state_dict(), batch)
    with pytest.raises(ArgumentValueError, match="batch must be 0 or more, not -1"):
        made.replay(made.state_dict(), -1)
    stream = DataLoader(server, IndexStream(SAMPLES, server.proxy), batch_size=BATCH)
    with pytest.raises(ArgumentMismatchError, match="map-style"):
        stream.replay(stream.state_dict(), 0)


class Coordinates(IndexDataset):
    """Images of different sizes, whose pixels are their positions."""

    def __getitem__(self, index: int) -> Any:
        y, x = np.mgrid[: 40 + index, : 90 - index].astype(np.uint8)
        return self.transform(np.stack([y, x, np.full_like(x, index)], 2)), index


@pipeline_def(batch_size=BATCH, num_threads=1, device_id=None, seed=6)
def cropped() -> Any:
    return fn.random_resized_crop(
        fn.external_source(name="image", layout="HWC"), size=(1, 1), interp_type=types.INTERP_LINEAR, antialias=False
    )


@pytest.mark.parametrize("workers", [0, 2, "server"])
def test_windows_are_those_of_the_batch(workers: Any) -> None:
    in_server = {"num_workers": 1} if workers == "server" else {}
    with DALIServer(cropped(), **in_server) as server:
        options = {} if in_server else {"num_workers": workers}
        made = DataLoader(server, Coordinates(SAMPLES, server.proxy), batch_size=BATCH, **options)
        seen = []
        for batch in made:
            seen.append(batch)
            state = made.state_dict()
        for number in (1, 5):
            replayed = made.replay(state, number)
            assert equal(replayed.data, seen[number])
            anchor, shape = (np.stack([*draw.numbers]) for draw in replayed.draws if draw.numbers is not None)
            middle = anchor + (shape - 1) / 2
            pixels = seen[number][0][:, 0, 0].numpy()
            assert np.abs(pixels[:, :2] - middle).max() <= 1
            assert pixels[:, 2].tolist() == replayed.indices
            assert len({each.tobytes() for each in anchor}) > 1


class TwoViews(IndexDataset):
    def __getitem__(self, index: int) -> Any:
        return (*super().__getitem__(index), super().__getitem__(index)[0])


def added(data: Any, output: int) -> Any:
    """Return the random number of each sample: what the pipeline added to its index."""
    return (data[output] - data[1][:, None])[:, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_draws_are_those_of_the_batch(server: DALIServer, kind: str) -> None:
    made = loader(server, **KINDS[kind])
    list(made)
    for _ in made:
        state = made.state_dict()
        break
    for number in (0, 5):  # the last one is smaller
        replayed = made.replay(state, number)
        (draw,) = replayed.draws
        assert (draw.operator, draw.view) == ("fn.random.uniform", 0)
        assert draw.numbers is not None
        numbers = torch.tensor(np.array(draw.numbers))
        torch.testing.assert_close(numbers, added(replayed.data, 0), atol=1e-5, rtol=0)


def test_views_have_separate_draws(server: DALIServer) -> None:
    made = DataLoader(server, TwoViews(SAMPLES, server.proxy), BATCH, num_workers=1)
    for _ in made:
        state = made.state_dict()
        break
    replayed = made.replay(state, 2)
    assert [draw.view for draw in replayed.draws] == [0, 1]
    for draw, output in zip(replayed.draws, (0, 2), strict=True):
        assert draw.numbers is not None
        numbers = torch.tensor(np.array(draw.numbers))
        torch.testing.assert_close(numbers, added(replayed.data, output), atol=1e-5, rtol=0)
