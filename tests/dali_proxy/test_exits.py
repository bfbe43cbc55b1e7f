"""User code that exits in the server fails its batch, and the next batch arrives."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dali_proxy import BatchError, DALIServer, DataLoader, ProxyCallError
from pipeline import Pipeline, fn
from tests.waiting import soon

BAD = 1  # number of the batch


def raising(error: BaseException) -> Callable[[], None]:
    """Return a function that is pickled by value, so that the server doesn't import torch with this module."""

    def leave() -> None:
        raise error

    return leave


class Indices:
    """Sample i is the number i, passed to a server."""

    def __init__(self, proxy: Any) -> None:
        self.proxy = proxy

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Any:
        return self.proxy(np.int64(index))


def pipe_of(where: str, leave: Callable[[], None]) -> Pipeline:
    def function(sample: Any) -> Any:
        if sample == 4 * BAD + 2:
            leave()
        return sample

    def source(iteration: int) -> Any:
        if iteration == BAD:
            leave()
        return np.full(4, 100)

    with Pipeline(batch_size=4, num_threads=2, device_id=None) as pipe:
        x = fn.external_source(name="x")
        pipe.set_outputs(
            fn.python_function(x, function=function) if where == "function" else x + fn.external_source(source)
        )
    return pipe


@pytest.mark.parametrize(
    ("leave", "cause", "where", "restart"),
    [
        (sys.exit, SystemExit, "function", "never"),
        (sys.exit, SystemExit, "source", "on-failure"),
        (raising(KeyboardInterrupt("of a library")), KeyboardInterrupt, "function", "on-failure"),
        (raising(asyncio.CancelledError()), asyncio.CancelledError, "source", "never"),
    ],
)
def test_exit_in_the_server_costs_its_batch(
    serve: Callable[..., DALIServer], leave: Callable[[], None], cause: type[BaseException], where: str, restart: str
) -> None:
    server = serve(pipe_of(where, leave), restart=restart)
    pid = server.pid
    batches: list[Any] = []
    iterator = iter(DataLoader(server, Indices(server.proxy), batch_size=4, num_workers=1))
    for _ in range(4):
        try:
            with soon():
                batches.append(next(iterator).tolist())
        except BatchError as error:
            batches.append(error.with_traceback(None))  # its frames hold the iterator
    assert list(iterator) == []
    offset = 0 if where == "function" else 100
    whole = [[4 * number + place + offset for place in range(4)] for number in range(4)]
    error = batches[BAD]
    assert batches[:BAD] + batches[BAD + 1 :] == whole[:BAD] + whole[BAD + 1 :]
    assert type(error.__cause__) is cause
    assert f"{cause.__name__}: " in str(error)
    assert "raised at" in str(error)
    assert "test_exits.py" in error.source_line
    assert error.samples == ((2,) if where == "function" else ())
    assert server.pid == pid


def test_input_that_no_output_needs_is_named(serve: Callable[..., DALIServer]) -> None:
    with Pipeline(batch_size=4, num_threads=1, device_id=None) as pipe:
        fn.external_source(name="crowd")
        pipe.set_outputs(fn.external_source(name="x"))
    server = serve(pipe)
    with pytest.raises(ProxyCallError, match=r"declared, but no output depends on it: crowd; unknown: z$"):
        server.proxy(x=1, crowd=2, z=3)
    with pytest.raises(KeyError, match=r"'crowd' that an output depends on. The input is declared at .*test_exits.py"):
        pipe.feed_input("crowd", np.zeros(4))
