"""An executor that is closed returns the results of all batches in flight, whatever stage they are in."""

from __future__ import annotations

import os
import tarfile
import threading
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._compiler.plan import Phase
from dali_proxy.pipeline._concurrency.work_queue import WorkQueue
from dali_proxy.pipeline._executor import BatchRequest, BatchResult, Executor, ExecutorConfig
from pipeline import fn, types
from pipeline.errors import ArgumentValueError
from pipeline.tensors import TensorListCPU
from tests.pipeline.graphs import graph_of
from tests.waiting import wait_until


class Stream(nullcontext[None]):
    """A stream whose work completes immediately."""

    def synchronize(self) -> None:
        pass


class Slot:
    """Result memory of a batch on a GPU."""

    def __init__(self) -> None:
        self.stream = Stream()

    def record(self) -> None:
        return None

    def retire(self, keep_alive: list[Any], callbacks: Any, event: Any) -> None:
        keep_alive.clear()


class SlowDevice:
    """A fake GPU that holds a batch until the executor's CPU threads are asked to end."""

    device_id = 0
    kernels = SimpleNamespace(queued=lambda stream: nullcontext(), open_queue=lambda: None)

    def __init__(self) -> None:
        self.reached = threading.Semaphore(0)
        self.work_queue: WorkQueue | None = None

    def current(self) -> AbstractContextManager[None]:
        return nullcontext()

    def acquire(self) -> Slot:
        self.reached.release()
        wait_until(lambda: self.work_queue is not None and self.work_queue._closed)
        return Slot()

    def close(self) -> None:
        pass


@pytest.mark.parametrize("visits", [1, 2])
def test_batches_that_are_on_the_gpu_end_on_the_cpu(visits: int) -> None:
    config = ExecutorConfig(max_batch_size=2, num_threads=1, device_id=None, seed=1, cpu_depth=2)
    executor = Executor(graph_of([fn.external_source(name="x") + 1]), config)
    device: Any = SlowDevice()
    device.work_queue = executor._queues["cpu"]
    feed, add = Phase("cpu", executor._plan.phases[0].steps[:1]), Phase("cpu", executor._plan.phases[0].steps[1:])
    assert feed.steps
    assert add.steps
    on_the_way = (Phase("gpu", ()), Phase("cpu", ())) * (visits - 1)
    executor._plan = replace(executor._plan, phases=(feed, *on_the_way, Phase("gpu", ()), add), dead_after={})
    executor._prepare_steps(fuse=False)
    executor._device, executor._queues["gpu"] = device, WorkQueue("gpu-stage", 1)
    results: list[BatchResult] = []
    for value in range(3):
        executor.submit(BatchRequest(2, {"x": TensorListCPU(np.full(2, value))}), results.append)
    assert device.reached.acquire(timeout=60)
    executor.close()
    assert [result.error for result in results] == [None] * 3
    assert sorted(result.outputs[0].as_array().tolist() for result in results) == [[1, 1], [2, 2], [3, 3]]


def test_closed_work_queue_executes_work_on_the_calling_thread() -> None:
    work_queue, done = WorkQueue("queue", 2), []
    work_queue.put(lambda: done.append(threading.current_thread().name))
    work_queue.close()
    work_queue.put(lambda: done.append(threading.current_thread().name))
    assert done[0].startswith("queue-")
    assert done[1:] == [threading.current_thread().name]


@pytest.mark.gpu
def test_batches_with_a_round_trip_to_a_gpu_end() -> None:
    graph = graph_of([(fn.external_source(name="x").gpu() + 1).cpu() + 1])
    executor = Executor(graph, ExecutorConfig(max_batch_size=2, num_threads=1, device_id=0, seed=1))
    results: list[BatchResult] = []
    for value in range(20):
        executor.submit(BatchRequest(2, {"x": TensorListCPU(np.full(2, value))}), results.append)
    executor.close()
    assert [result.error for result in results] == [None] * 20
    assert sorted(result.outputs[0].as_array().tolist() for result in results) == [[n + 2] * 2 for n in range(20)]


def test_operators_are_closed_when_a_later_one_cannot_be_created(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "shard.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("0.jpg"))
    encoded = fn.readers.webdataset(paths=str(tmp_path / "shard.tar"), ext="jpg")
    graph = graph_of([fn.decoders.image(encoded, dtype=types.FLOAT64)])
    before = os.listdir("/proc/self/fd")
    with pytest.raises(ArgumentValueError, match="dtype") as caught:
        Executor(graph, ExecutorConfig(max_batch_size=1, num_threads=1, device_id=None, seed=1))
    assert os.listdir("/proc/self/fd") == before
    del caught  # its frames hold references to the operators
