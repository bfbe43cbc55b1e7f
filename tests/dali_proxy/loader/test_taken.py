"""A loop takes the batches that are ready together; the user sees no difference."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

from dali_proxy import DALIServer, DataLoader
from dali_proxy.errors import ServerClosedError, WorkerDiedError
from pipeline import fn, pipeline_def
from tests.dali_proxy.indexed import SCALE, SHIFT, affine, affine_of

BATCHES = 20


class Numbers(torch.utils.data.Dataset[Any]):
    """Returns the index, as data and as a label; a few indices fail in the dataset or in the pipeline."""

    def __init__(self, transform: Any, bad: tuple[int, ...] = (), unfit: tuple[int, ...] = ()) -> None:
        self.transform = transform
        self.bad = bad
        self.unfit = unfit

    def __len__(self) -> int:
        return 2 * BATCHES

    def __getitem__(self, index: int) -> Any:
        if index in self.bad:
            raise OSError(f"no file for {index}")
        return self.transform(np.full(3 + (index in self.unfit), index, np.float32)), index


@pytest.fixture
def server() -> Iterator[DALIServer]:
    with DALIServer(affine(), mode="thread") as running:
        yield running


def loader(server: DALIServer, dataset: Any = None, **options: Any) -> Any:
    options = {"batch_size": 2, "num_workers": 1, "prefetch_factor": BATCHES, **options}
    return DataLoader(server, dataset or Numbers(server.proxy), **options)


def with_taken(server: DALIServer, iterator: Any, computed: int = BATCHES) -> list[Any]:
    """Return the first batches of an iterator, with which it has taken others."""
    batches = [next(iterator)]
    while server.stats().batches + server.stats().errors < computed:
        time.sleep(0.005)
    while not iterator._taken:
        batches.append(next(iterator))
    return batches


def wait_until_ready(server: DALIServer, iterator: Any, number: int) -> None:
    """Wait until the results of a batch have arrived."""
    while not (iterator._taken or server.consumer.is_ready(iterator._session, number)):
        server.consumer.receive(0.01)  # type: ignore[union-attr]


def check(batches: list[Any], numbers: list[int]) -> None:
    assert [indices.tolist() for _, indices in batches] == [[2 * number, 2 * number + 1] for number in numbers]
    for data, indices in batches:
        assert data[:, 0].tolist() == [affine_of(index) for index in indices.tolist()]


def test_ready_batches_are_taken_together_and_returned_in_order(server: DALIServer) -> None:
    iterator = iter(loader(server))
    batches = with_taken(server, iterator)
    check([*batches, *iterator], list(range(BATCHES)))


def test_state_counts_only_batches_that_were_returned(server: DALIServer) -> None:
    first = loader(server, shuffle=True, generator=torch.Generator().manual_seed(5))
    iterator = iter(first)
    with_taken(server, iterator)
    state = first.state_dict()
    rest = [indices.tolist() for _, indices in iterator]
    second = loader(server, shuffle=True, generator=torch.Generator())
    second.load_state_dict(state)
    assert [indices.tolist() for _, indices in second] == rest


@pytest.mark.parametrize(("fault", "error"), [("bad", OSError), ("unfit", RuntimeError)])
def test_failed_batch_raises_in_its_place(server: DALIServer, fault: str, error: type[Exception]) -> None:
    iterator = iter(loader(server, Numbers(server.proxy, **{fault: (21,)})))
    batches = with_taken(server, iterator, BATCHES - 1)
    while len(batches) < 10:
        batches.append(next(iterator))
    check(batches, list(range(10)))
    with pytest.raises(error):
        next(iterator)
    check(list(iterator), list(range(11, BATCHES)))


def test_skipped_batch_is_counted_in_its_place(server: DALIServer) -> None:
    made = loader(server, Numbers(server.proxy, bad=(20, 21)), on_error="skip")
    iterator = iter(made)
    batches = with_taken(server, iterator, BATCHES - 1)
    while len(batches) < 10:
        assert made.state_dict()["batches"] == len(batches)
        assert server.losses.skipped == 0
        batches.append(next(iterator))
    with pytest.warns(RuntimeWarning, match="2 samples skipped") as caught:
        batches += iterator
    assert caught[0].filename == __file__
    check(batches, [number for number in range(BATCHES) if number != 10])


def test_error_of_the_sampler_is_raised_after_the_batches_that_were_taken(
    server: DALIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    iterator = iter(loader(server))
    arrives, raised = iterator._next_arrived, []

    def next_arrived() -> Any:
        if iterator._taken and not raised:
            raised.append(LookupError("the sampler's fault"))
            raise raised[0]
        return arrives()

    monkeypatch.setattr(iterator, "_next_arrived", next_arrived)
    batches = [next(iterator)]
    wait_until_ready(server, iterator, 1)
    with pytest.raises(LookupError, match="the sampler's fault"):
        batches.extend(iterator)
    check([*batches, *iterator], list(range(BATCHES)))


def test_server_that_stops_takes_the_batches_with_it(server: DALIServer) -> None:
    iterator = iter(loader(server))
    with_taken(server, iterator)
    server.stop()
    with pytest.raises(ServerClosedError):
        next(iterator)


def test_dead_worker_is_reported_after_the_batches_that_were_taken(server: DALIServer) -> None:
    iterator = iter(loader(server))
    batches = with_taken(server, iterator, 8)
    iterator._loop.workers[0].kill()
    iterator._loop.workers[0].join()
    with pytest.raises(WorkerDiedError):
        batches.extend(iterator)
    check(batches, list(range(len(batches))))


def test_batches_for_inference_mode_are_not_taken_earlier(server: DALIServer) -> None:
    iterator = iter(loader(server))
    with_taken(server, iterator)
    while iterator._taken:
        number = int(next(iterator)[1][0]) // 2
    wait_until_ready(server, iterator, number + 2)
    with torch.inference_mode():
        assert next(iterator)[0].is_inference()
        assert not iterator._taken
    assert not next(iterator)[0].is_inference()


@pipeline_def(num_threads=2, device_id=0, batch_size=16)
def affine_on_gpu() -> Any:
    return fn.external_source(name="x").gpu() * SCALE + SHIFT


@pytest.mark.gpu
@pytest.mark.parametrize("placement", ["server", "consumer"])
def test_batch_for_another_stream_is_copied(placement: Any) -> None:
    with DALIServer(affine_on_gpu(), placement=placement) as server:
        iterator = iter(loader(server))
        sleep: Any = torch.cuda._sleep
        sleep(1 << 28)  # what the current stream does later, other streams have to wait for
        batches = with_taken(server, iterator)
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        while iterator._taken:
            with torch.cuda.stream(stream):
                batches.append(next(iterator))
                sleep(1 << 22)
                batches[-1][0].mul_(1)
        stream.synchronize()
        check([(data.cpu(), indices) for data, indices in [*batches, *iterator]], list(range(BATCHES)))
