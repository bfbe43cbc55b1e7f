"""Tests of `DALIServer.replace`: another pipeline for the same dataset, workers and loader."""

from __future__ import annotations

import copy
import pickle
from typing import Any, Literal

import numpy as np
import pytest
import torch

import dali_proxy
from dali_proxy import dynamic, fn, pipeline_def
from dali_proxy.errors import ProxyError, ServerClosedError
from dali_proxy.pipeline.errors import ArgumentMismatchError, PipelineError


class Ramps(torch.utils.data.Dataset[Any]):
    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        return self.transform(np.full((2, 3), index, np.float32)), index


class Pairs(Ramps):
    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Any:
        return self.transform(x=np.ones(3, np.float32), y=np.full(3, 5, np.float32))


def noise(x: dynamic.Tensor) -> Any:
    return x + dynamic.random.uniform(range=(0, 1), shape=(2, 3))


def larger_noise(x: dynamic.Tensor) -> Any:
    return x * 100 + dynamic.random.uniform(range=(0, 5), shape=(2, 3))


def pair(x: dynamic.Tensor) -> tuple[dynamic.Tensor, dynamic.Tensor]:
    return x, x


def in_dict(x: dynamic.Tensor) -> dict[str, dynamic.Tensor]:
    return {"x": x}


def other_input(y: dynamic.Tensor) -> Any:
    return y


def unused_y(x: dynamic.Tensor, y: dynamic.Tensor) -> Any:
    return x + 1


def used_y(x: dynamic.Tensor, y: dynamic.Tensor) -> Any:
    return x + y


def growing(x: dynamic.Tensor) -> Any:
    return dynamic.random.uniform(shape=dynamic.cast(x[0, :2] + 1, dtype=dynamic.int32))


@pipeline_def
def doubled() -> Any:
    return fn.external_source(name="x") * 2


def epoch(loader: Any) -> Any:
    return torch.cat([x for x, _ in loader])


def serve(function: Any = noise, **options: Any) -> dali_proxy.DALIServer:
    return dali_proxy.serve(function, **{"batch_size": 4, "num_threads": 1, "seed": 3, "mode": "thread"} | options)


def loader_of(server: dali_proxy.DALIServer, **options: Any) -> dali_proxy.DataLoader:
    return dali_proxy.DataLoader(server, Ramps(server.proxy), batch_size=4, **options)


@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("thread", {}),
        ("process", {}),
        ("thread", {"num_workers": 2, "persistent_workers": True}),
        ("process", {"num_workers": 2, "persistent_workers": True}),
    ],
)
def test_next_epoch_is_that_of_a_new_server(mode: Literal["thread", "process"], options: dict[str, Any]) -> None:
    with serve(larger_noise, mode="thread") as server:
        loader = loader_of(server)
        expected = [epoch(loader), epoch(loader)]
    with serve(mode=mode) as server:
        loader = loader_of(server, **options)
        first = epoch(loader)
        pids = {worker.pid for worker in loader._lasting._loop.workers} if loader._lasting is not None else None
        server.replace(larger_noise)
        second = epoch(loader)
        if pids is not None:
            assert loader._lasting is not None
            assert {worker.pid for worker in loader._lasting._loop.workers} == pids
        assert server.seed == 3
    assert not torch.equal(first, expected[0])
    assert torch.equal(second, expected[1])


@pytest.mark.slow  # they import torch twice
def test_dataset_workers_of_the_server_continue_with_the_new_pipeline() -> None:
    with serve(mode="process", num_workers=1) as server:
        loader = loader_of(server)
        epoch(loader)
        server.replace(doubled(batch_size=4, num_threads=1, device_id=None))
        assert epoch(loader)[:, 0, 0].tolist() == [2.0 * n for n in range(12)]


def test_arguments_take_the_place_of_old_ones() -> None:
    with serve(larger_noise, seed=8) as server:
        loader = loader_of(server)
        expected = [epoch(loader), epoch(loader)]
    with serve(num_threads=2) as server:
        loader = loader_of(server)
        epoch(loader)
        server.replace(larger_noise, seed=8)
        assert torch.equal(epoch(loader), expected[1])
        assert server.pipeline.num_threads == 2


@pytest.mark.parametrize("num_workers", [0, 1])
def test_loop_in_an_epoch_ends_with_an_error(num_workers: int) -> None:
    with serve() as server:
        loader = loader_of(server, num_workers=num_workers)
        batches = iter(loader)
        next(batches)
        server.replace(doubled(batch_size=4, num_threads=1, device_id=None))
        with pytest.raises(ServerClosedError, match=r"its pipeline was replaced.*iter\(loader\)"):
            next(batches)
        assert epoch(loader)[:, 0, 0].tolist() == [2.0 * n for n in range(12)]


@pytest.mark.parametrize(
    ("other", "options", "message"),
    [
        (other_input, {}, "inputs must stay x, and can't become y: make"),
        (pair, {}, "outputs must stay 1, and can't become 2"),
        (in_dict, {}, "structure of the outputs must stay"),
        (noise, {"batch_size": 5}, "max_batch_size must stay 4"),
        (noise, {"sed": 5}, "unexpected argument 'sed'.*did you mean 'seed'"),
    ],
)
def test_unsuitable_pipeline_is_an_error_and_changes_nothing(other: Any, options: Any, message: str) -> None:
    with serve() as server:
        loader = loader_of(server)
        batches = iter(loader)
        next(batches)
        with pytest.raises((ArgumentMismatchError, PipelineError), match=f"(?is){message}"):
            server.replace(other, **options)
        assert len(list(batches)) == 2


def test_old_pipeline_stays_if_the_new_one_cannot_start() -> None:
    with serve() as server:
        loader = loader_of(server)
        epoch(loader)
        gpu = pipeline_def(lambda: fn.external_source(name="x").gpu())(batch_size=4, num_threads=1, device_id=99)
        with pytest.raises(PipelineError):
            server.replace(gpu)
        assert server.running
        assert int(epoch(loader)[-1].min()) == 11


def test_stopped_server_starts_with_the_new_pipeline(recwarn: pytest.WarningsRecorder) -> None:
    server = serve()
    loader = loader_of(server)
    server.stop()
    server.replace(doubled(batch_size=4, num_threads=1, device_id=None))
    assert not server.running
    assert epoch(loader)[:, 0, 0].tolist() == [2.0 * n for n in range(12)]
    assert not [each for each in recwarn if "old pipeline" in str(each.message)]
    server.stop()


def test_shapes_of_the_old_pipeline_are_forgotten() -> None:
    """A loader refuses lists where there was a tensor before, but not from another pipeline."""
    with serve() as server:
        loader = loader_of(server)
        epoch(loader)
        plain = torch.utils.data.DataLoader(Ramps(server.proxy), batch_size=4)
        for batch in plain:
            server.produce_data(batch)
        server.replace(growing)
        with pytest.warns(UserWarning, match="becomes a list"):
            assert [len(x) for x, _ in loader] == [4, 4, 4]
        with pytest.warns(UserWarning, match="becomes a list"):
            assert isinstance(server.produce_data(next(iter(plain)))[0], list)


def test_copies_in_other_processes_cannot_replace() -> None:
    with serve() as server:
        handle: dali_proxy.DALIServer = pickle.loads(pickle.dumps(server))
        with pytest.raises(ProxyError, match="other processes use the server"):
            handle.replace(noise)
        server.replace(larger_noise)
        assert copy.copy(loader_of(server)).dali_server is server


def test_parameters_that_the_function_does_not_use_stay_inputs() -> None:
    with serve(used_y) as server:
        for function, expected in ((used_y, 6), (unused_y, 2), (used_y, 6)):
            server.replace(function)
            (result,) = dali_proxy.DataLoader(server, Pairs(server.proxy), batch_size=1)
            assert result.unique().tolist() == [expected]


@pytest.mark.parametrize("function", [False, True])
def test_replaced_pipeline_has_as_many_threads_as_a_new_server(function: bool) -> None:
    @pipeline_def(device_id=None, batch_size=4)
    def doubled() -> Any:
        return fn.external_source(name="x") * 2.0

    def made(**arguments: Any) -> tuple[Any, dict[str, Any]]:
        return (noise, arguments) if function else (doubled(**arguments), {})

    cores = dali_proxy.DALIServer(made()[0], num_workers="auto").pipeline.num_threads
    with dali_proxy.DALIServer(made()[0], num_workers="auto") as server:
        for given, expected in ((None, cores), (cores + 1, cores + 1), (None, cores + 1 if function else cores)):
            pipeline, arguments = made(**{} if given is None else {"num_threads": given})
            server.replace(pipeline, **arguments)
            assert server.stats().threads == expected
            assert server._chooses_threads == (expected == cores)


@pytest.mark.parametrize("function", [False, True])
def test_processes_divide_the_threads_of_a_replaced_pipeline(function: bool) -> None:
    @pipeline_def(device_id=None, batch_size=4, num_threads=4)
    def doubled() -> Any:
        return fn.external_source(name="x") * 2.0

    options: Any = {"num_threads": 4} if function else {}
    with dali_proxy.DALIServer(noise if function else doubled(), num_processes=2, **options) as server:
        for _ in range(2):
            server.replace(larger_noise if function else doubled())
            assert server.pipeline.num_threads == 2
