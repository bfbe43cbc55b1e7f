"""A server whose GPU is late, full or lost. Host memory stands for its memory: see `tests.host_cupy`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_proxy import BatchError, DALIServer, DataLoader
from dali_proxy._host import starting
from dali_proxy.errors import ProxyError, ServerDiedError
from pipeline import Pipeline, fn
from tests.dali_proxy.indexed import IndexDataset
from tests.waiting import soon

BATCH = 2

CUPY = """
import os, sys, time
from tests import host_cupy

module = host_cupy._module()
runtime = module.cuda.runtime
folder = os.path.dirname(os.path.dirname(__file__))


class Event(host_cupy.Event):
    @property
    def done(self):
        return not os.path.exists(folder + "/busy")

    def synchronize(self):
        while not self.done:
            time.sleep(0.005)


def lose():
    def fail(*arguments):
        raise runtime.CUDARuntimeError(700, "cudaErrorIllegalAddress: an illegal memory access was encountered")

    runtime.memGetInfo = fail
    fail()


module.cuda.Event = Event
module.lose = lose
sys.modules["cupy"] = module
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder; the servers that the test starts import the stand-in for CuPy from it."""
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy" / "__init__.py").write_text(CUPY)
    path = starting.import_path
    monkeypatch.setattr(starting, "import_path", lambda: [str(tmp_path), *path()])
    return tmp_path


def pipe_of(function: Any, *, to_cpu: bool = True) -> Pipeline:
    """Return a pipeline that calls a function on the GPU for each sample; the function may return its argument."""
    with Pipeline(batch_size=BATCH, num_threads=1, device_id=0, py_num_workers=0) as pipe:
        computed = fn.python_function(fn.external_source(name="x").gpu(), function=function, device="gpu")
        pipe.set_outputs(computed.cpu() if to_cpu else computed)
    return pipe


def test_result_is_sent_after_the_gpu_has_computed_it(folder: Path) -> None:
    (folder / "busy").touch()
    with DALIServer(pipe_of(lambda x: x, to_cpu=False)) as server, ThreadPoolExecutor(1) as threads:
        fetching = threads.submit(server.produce_data, server.proxy(np.arange(3)))
        with pytest.raises(NotDone):
            fetching.result(0.5)
        (folder / "busy").unlink()
        with pytest.raises(ProxyError, match="a batch arrived, but its memory can't be opened here"):
            fetching.result(20)  # there is no GPU


@pytest.mark.parametrize("restart", ["never", "on-failure"])
def test_full_gpu_costs_its_batch_and_a_lost_context_the_server(folder: Path, restart: Any) -> None:
    once = str(folder / "once")

    def fail(x: Any) -> Any:
        import os

        import cupy

        if x.get()[0] == 2:
            raise cupy.cuda.memory.OutOfMemoryError("out of memory allocating 8 bytes")
        if x.get()[0] == 4 and not os.path.exists(once):
            os.close(os.open(once, os.O_CREAT))
            cupy.lose()
        return x

    with DALIServer(pipe_of(fail), restart=restart) as server:
        iterator = iter(DataLoader(server, IndexDataset(8, server.proxy), BATCH))
        assert next(iterator)[0][:, 0].tolist() == [0, 1]
        with pytest.raises(BatchError, match="out of memory allocating 8 bytes"):
            next(iterator)
        if restart == "never":
            lost = r"pid \d+\) lost its CUDA context \(cudaErrorIllegalAddress.*python_function"
            with soon(), pytest.raises(ServerDiedError, match=lost):
                next(iterator)
        else:
            assert [batch[0][:, 0].tolist() for batch in iterator] == [[4, 5], [6, 7]]
            assert server.losses.restarts == 1
