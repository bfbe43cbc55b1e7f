"""Python functions in a server: random numbers that repeat, and errors that name the user's lines."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from torch.utils.data import Dataset

from dali_proxy import BatchError, DALIServer, DataLoader
from pipeline import Pipeline, fn


class Numbers(Dataset[Any]):
    """Sample i is the number i, passed to a server."""

    def __init__(self, server: DALIServer) -> None:
        self.server = server

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> Any:
        return self.server.proxy(np.full(1, index))


def pipe_of(function: Any, threads: int) -> Pipeline:
    with Pipeline(batch_size=4, num_threads=threads, device_id=None, seed=1) as pipe:
        pipe.set_outputs(fn.python_function(fn.external_source(name="x"), function=function))
    return pipe


def slow_numbers() -> Callable[[Any], Any]:
    def draw(x: Any) -> Any:
        import random

        import numpy as np

        sum(range(100_000))  # worth a process
        return np.array([random.random(), np.random.rand(), x[0]])

    return draw


def test_random_numbers_repeat_and_resume_with_other_workers(serve: Callable[..., DALIServer]) -> None:
    one, two = serve(pipe_of(slow_numbers(), 1)), serve(pipe_of(slow_numbers(), 2))
    expected = list(DataLoader(one, Numbers(one), batch_size=4))
    assert torch.cat(expected)[:, 2].tolist() == list(range(24))
    loader = DataLoader(two, Numbers(two), batch_size=4, num_workers=2)
    batches = iter(loader)
    begun = [next(batches) for _ in range(4)]
    state = loader.state_dict()
    del batches
    resumed = DataLoader(one, Numbers(one), batch_size=4, num_workers=1)
    resumed.load_state_dict(state)
    assert torch.equal(torch.cat([*begun, *resumed]), torch.cat(expected))


def test_error_names_the_line_of_the_function_and_the_dataset_index(serve: Callable[..., DALIServer]) -> None:
    def make() -> Callable[[Any], Any]:
        def fails(x: Any) -> Any:
            sum(range(100_000))
            return {}["img"] if x[0] == 22 else x

        return fails

    server = serve(pipe_of(make(), 2))
    with pytest.raises(BatchError, match=r"KeyError: 'img'(?s:.*)in fails: return(?s:.*)dataset index: 22") as caught:
        list(DataLoader(server, Numbers(server), batch_size=4))
    assert caught.value.dataset_indices == (22,)
    if server.pid != os.getpid():  # only a server's own process moves functions
        assert len(psutil.Process(server.pid).children()) == 2
