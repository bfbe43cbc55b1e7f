"""Pipelines with sources in a server: the sources supply data in addition to the proxy's inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from torch.utils.data import Dataset

from dali_proxy import BatchError, DALIServer, DataLoader
from dali_proxy.pipeline._definition.server_process import in_server_process
from pipeline import Pipeline, fn
from pipeline.errors import SerializationError
from pipeline.types import SampleInfo
from tests.environment import with_project
from tests.preloaded import run_python

BATCH_SIZE = 4


class Numbers(Dataset[Any]):
    """Sample i is the number i, passed to a server."""

    def __init__(self, server: DALIServer) -> None:
        self.server = server

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        return self.server.proxy(np.int64(index))


def pipe_with(source: Any, **arguments: Any) -> Pipeline:
    with Pipeline(batch_size=BATCH_SIZE, num_threads=1, device_id=None, py_num_workers=2) as pipe:
        pipe.set_outputs(fn.external_source(name="x"), fn.external_source(source, **arguments))
    return pipe


def thousandfold() -> Callable[[SampleInfo], Any]:
    """Return a source that processes receive with its code: importing this module would import torch."""
    return lambda info: np.int64(1000 * info.idx_in_epoch + info.epoch_idx)


@pytest.mark.parametrize("parallel", [False, True])
def test_samples_of_a_callable_belong_to_the_batch(serve: Callable[..., DALIServer], parallel: bool) -> None:
    server = serve(pipe_with(thousandfold(), batch=False, parallel=parallel))
    assert [spec.name for spec in server.endpoint.inputs] == ["x"]
    loader = DataLoader(server, Numbers(server), batch_size=BATCH_SIZE, num_workers=2)
    for epoch in range(2):
        batches = list(loader)
        assert torch.cat([batch[0] for batch in batches]).tolist() == list(range(12))
        assert torch.cat([batch[1] for batch in batches]).tolist() == [1000 * index + epoch for index in range(12)]


def test_batches_of_an_iterable_are_used_in_the_order_of_arrival(serve: Callable[..., DALIServer]) -> None:
    server = serve(pipe_with([np.full(BATCH_SIZE, 7), np.full(BATCH_SIZE, 8)]))
    samples = [server.proxy(np.int64(index)) for index in range(BATCH_SIZE)]
    collate = torch.utils.data.default_collate
    for expected in (7, 8):
        assert server.produce_data(collate(samples))[1].tolist() == [expected] * BATCH_SIZE
    with pytest.raises(BatchError, match=r'no more data, .*cycle="quiet"'):
        server.produce_data(collate(samples))


def test_error_of_a_source_arrives_with_its_batch(serve: Callable[..., DALIServer]) -> None:
    def source(info: SampleInfo) -> Any:
        if info.idx_in_epoch == 6:
            raise LookupError("no sixth")
        return np.int64(info.idx_in_epoch)

    server = serve(pipe_with(source, batch=False))
    loader = iter(DataLoader(server, Numbers(server), batch_size=BATCH_SIZE, num_workers=1))
    assert next(loader)[1].tolist() == [0, 1, 2, 3]
    with pytest.raises(BatchError, match="LookupError: no sixth"):
        next(loader)
    assert next(loader)[1].tolist() == [8, 9, 10, 11]


@pytest.mark.parametrize(("mode", "expected"), [("process", 1), ("thread", 0)])
def test_server_process_knows_that_it_runs_no_script(mode: Any, expected: int) -> None:
    """So its functions may run in worker processes, and its sources have their own seeds."""
    pipe = pipe_with(lambda info: np.int64(in_server_process()), batch=False)
    with DALIServer(pipe, mode=mode) as server:
        (batch, *_) = DataLoader(server, Numbers(server), batch_size=BATCH_SIZE, num_workers=1)
    assert batch[1].tolist() == [expected] * BATCH_SIZE


def test_workers_end_with_the_server() -> None:
    server = DALIServer(pipe_with(thousandfold(), batch=False, parallel=True))
    server.start()
    workers = psutil.Process(server.pid).children()
    assert len(workers) == 2
    server.stop()
    assert not any(worker.is_running() for worker in workers)


def test_epochs_are_complete_after_processes_of_a_source_were_killed(serve: Callable[..., DALIServer]) -> None:
    server = serve(pipe_with(thousandfold(), batch=False, parallel=True))
    loader = DataLoader(server, Numbers(server), batch_size=BATCH_SIZE, num_workers=1)
    for epoch in range(3):
        assert server.pid is not None
        for process in psutil.Process(server.pid).children():
            process.kill()
        values = torch.cat([batch[1] for batch in loader]).tolist()
        assert values == [1000 * index + epoch for index in range(12)]


SPAWNING = """
import numpy as np
import torch.multiprocessing
from torch.utils.data import default_collate

from dali_proxy import DALIServer
from pipeline import Pipeline, fn

def plus_one(array):
    return array + 1

def source(info):
    return np.int64(info.idx_in_epoch)

def train(rank):
    with Pipeline(batch_size=2, num_threads=1, device_id=None, py_num_workers=1) as pipe:
        numbers = fn.python_function(fn.external_source(name="x"), function=plus_one)
        pipe.set_outputs(numbers, fn.external_source(source, batch=False, parallel=True))
    with DALIServer(pipe) as server:
        print(server.produce_data(default_collate([server.proxy(np.int64(5)), server.proxy(np.int64(6))])))

if __name__ == "__main__":
    torch.multiprocessing.spawn(train)
"""


@pytest.mark.thorough
def test_functions_of_a_script_work_in_processes_that_torch_spawned(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SPAWNING)
    done = run_python(str(script), cwd=tmp_path, env=with_project())
    assert done.stdout == "[tensor([6, 7]), tensor([0, 1])]\n", done.stderr


def test_source_that_cannot_be_sent_says_so() -> None:
    server = DALIServer(pipe_with(np.zeros(4) for _ in range(2)))
    with pytest.raises(SerializationError, match="can't be sent to another process"):
        server.start()
