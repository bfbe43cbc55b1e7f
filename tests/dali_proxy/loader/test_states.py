"""States that a loader refuses, and samplers whose states it can't save."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import Sampler, SequentialSampler

from dali_proxy import DALIServer, DataLoader
from pipeline.errors import ArgumentMismatchError
from tests.dali_proxy.indexed import IndexStream, noisy, sample
from tests.dali_proxy.loader.test_resume import SAMPLES, check_the_rest, generator, make, run_and_save


@pytest.fixture(scope="module")
def noise() -> Iterator[DALIServer]:
    with DALIServer(noisy()) as server:
        server.produce_data(server.proxy(sample(0)))
        yield server


class LazySampler(Sampler[list[int]]):
    """Yields batches of random sizes, each of which it draws when it is needed."""

    def __init__(self, generator: torch.Generator | None = None) -> None:
        self.generator = generator

    def __iter__(self) -> Iterator[list[int]]:
        begin = 0
        while begin < SAMPLES:
            size = int(torch.randint(1, 5, (), generator=self.generator))
            yield list(range(begin, min(begin + size, SAMPLES)))
            begin += size

    def __len__(self) -> int:
        return SAMPLES


def test_sampler_that_draws_as_it_goes_is_warned_of(noise: DALIServer) -> None:
    loader = make(noise, batch_sampler=LazySampler())
    iterator = iter(loader)
    loader.state_dict()
    next(iterator), next(iterator)
    with pytest.warns(UserWarning, match="draws from a global random generator whenever it yields an item"):
        loader.state_dict()


def test_sampler_that_draws_from_its_own_generator_as_it_goes_resumes(noise: DALIServer) -> None:
    made, states = run_and_save(make(noise, batch_sampler=LazySampler(generator())))
    for place in (2, len(made[0]) + 3):
        batches = place if place < len(made[0]) else place - len(made[0]) - 1
        check_the_rest(make(noise, batch_sampler=LazySampler(generator())), states[place], made, batches)


@pytest.mark.parametrize("state", [None, [], 0, False, "", [1], "state", {"epoch": 1}])
def test_other_objects_are_refused(state: Any, noise: DALIServer) -> None:
    with pytest.raises(ArgumentMismatchError, match=r"isn't a state that dali_proxy\.DataLoader\.state_dict"):
        make(noise).load_state_dict(state)


def test_empty_state_changes_nothing(noise: DALIServer) -> None:
    loader = make(noise)
    loader.load_state_dict({})
    assert loader.state_dict()["batches"] == 0


TENSOR = torch.zeros(3, dtype=torch.uint8)
DAMAGED: list[tuple[str, Any]] = [
    *[("epoch", value) for value in ("x", -1, True, None, 1.5)],
    *[("batches", value) for value in ("2", -1, 10**9, None)],
    *[("done", value) for value in (1, ["a"], [-1], None)],
    *[("batch_size", value) for value in ("4", 0)],
    *[("samples", value) for value in ("4", -1)],
    *[("sampler_class", value) for value in (None, 3)],
    *[("seed", value) for value in ("x", 1.5)],
    *[("rank", value) for value in ("x", -1)],
    *[("own", value) for value in (None, {"loader": TENSOR}, {"loader": 1}, {"other": TENSOR})],
    *[("shared", value) for value in (None, 3, {"torch": TENSOR}, {"torch": 1}, {"python": [3, [1], None]})],
    *[("shared", {"numpy": value}) for value in (None, ["MT19937", [1, 2], 0, 0, 0.0])],
    *[("seeded", value) for value in (None, 1)],
    *[("sampler", value) for value in (1, {"state": 1})],
    *[("sampler_epoch", value) for value in ("x", 1.5)],
    *[("workers", value) for value in (None, -1)],
    *[("last_worker", value) for value in (None, -2, 5)],
    *[("positions", value) for value in (None, {0: 3}, {"0": {}})],
    ("kind", 3),
    ("version", None),
]


@pytest.mark.parametrize(("name", "value"), DAMAGED)
def test_damaged_states_are_refused(name: str, value: Any, noise: DALIServer) -> None:
    options = {"shuffle": True, "generator": generator()} if name == "own" else {}
    loader = make(noise, **options)
    next(iter(loader))
    with pytest.raises(ArgumentMismatchError):
        loader.load_state_dict({**loader.state_dict(), name: value})


@pytest.mark.parametrize(
    ("number", "field", "value"),
    [(0, "batches", -5), (0, "batches", None), (0, "ended", 1), (5, "batches", 1), (0, "more", 1)],
)
def test_damaged_positions_of_streams_are_refused(number: int, field: str, value: Any, noise: DALIServer) -> None:
    loader = DataLoader(noise, IndexStream(8, noise.proxy), 4)
    next(iter(loader))
    state = loader.state_dict()
    loader.load_state_dict(state)
    state["positions"][number] = {**state["positions"][0], field: value}
    with pytest.raises(ArgumentMismatchError, match="positions"):
        loader.load_state_dict(state)


class EndingState(SequentialSampler):
    """A sampler whose state_dict raises StopIteration for the third sample."""

    calls = 0

    def state_dict(self) -> dict[str, Any]:
        self.calls += 1
        if self.calls == 3:
            raise StopIteration
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


def test_stop_iteration_in_the_state_of_a_sampler_does_not_end_the_epoch(noise: DALIServer) -> None:
    loader = make(noise, batch_size=None, sampler=EndingState(range(SAMPLES)))
    with pytest.raises(RuntimeError, match="sampler's state_dict, which would end the epoch"):
        list(loader)
