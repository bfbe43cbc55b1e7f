from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._executor import BatchRequest, BatchResult, Executor, ExecutorConfig
from dali_proxy.pipeline._rng import BatchKey
from pipeline import errors, fn
from pipeline.tensors import TensorListCPU
from tests.pipeline.graphs import graph_of

CONFIG = ExecutorConfig(max_batch_size=8, num_threads=2, device_id=None, seed=1)


@pytest.fixture
def executor() -> Iterator[Executor]:
    x = fn.external_source(name="x")
    with Executor(graph_of([x + 1, fn.random.uniform(range=(0, 1))]), CONFIG) as made:
        yield made


def request(start: int, size: int = 4, **arguments: Any) -> BatchRequest:
    return BatchRequest(size, {"x": TensorListCPU(np.arange(start, start + size))}, **arguments)


def test_concurrent_batches_all_come_back(executor: Executor) -> None:
    results: dict[int, BatchResult] = {}
    left = threading.Semaphore(0)

    def keep(number: int, result: BatchResult) -> None:
        results[number] = result
        left.release()

    for number in range(50):
        executor.submit(request(10 * number), lambda result, number=number: keep(number, result))
    for _ in range(50):
        assert left.acquire(timeout=60)
    for number, result in results.items():
        assert result.outputs[0].as_array().tolist() == list(range(10 * number + 1, 10 * number + 5))
    assert executor.statistics.batches == 50


def test_random_numbers_belong_to_the_batch_and_not_to_the_order(executor: Executor) -> None:
    def draw(order: list[int]) -> dict[int, list[float]]:
        done: queue.SimpleQueue[tuple[int, BatchResult]] = queue.SimpleQueue()
        for number in order:
            asked = request(0, size=3 + number % 2, key=BatchKey(epoch=1, iteration=number))
            executor.submit(asked, lambda result, number=number: done.put((number, result)))
        drawn = dict(done.get(timeout=60) for _ in order)
        return {number: result.outputs[1].as_array().tolist() for number, result in drawn.items()}

    forward, backward = draw(list(range(10))), draw(list(range(9, -1, -1)))
    assert forward == backward
    assert len({tuple(numbers[:3]) for numbers in forward.values()}) == 10


def test_inputs_are_released_once_after_success_and_after_failure(executor: Executor) -> None:
    read: queue.SimpleQueue[str] = queue.SimpleQueue()
    done: queue.SimpleQueue[BatchResult] = queue.SimpleQueue()
    executor.submit(request(0, on_inputs_read=lambda: read.put("good")), done.put)
    bad = BatchRequest(1, {"x": TensorListCPU([np.array([True])])}, on_inputs_read=lambda: read.put("bad"))
    executor.submit(bad, done.put)
    assert {read.get(timeout=60), read.get(timeout=60)} == {"good", "bad"}
    assert done.get(timeout=60).error is None


@pytest.mark.parametrize("size", [0, 9])
def test_sizes_out_of_range_are_refused(executor: Executor, size: int) -> None:
    data = TensorListCPU(np.zeros(max(size, 1)))
    with pytest.raises(errors.InputError, match="1 to 8"):
        executor.submit(BatchRequest(size, {"x": data}), lambda result: None)


def test_missing_inputs_are_refused(executor: Executor) -> None:
    with pytest.raises(errors.InputError, match="no data for the input 'x'"):
        executor.submit(BatchRequest(1), lambda result: None)


def test_outputs_are_written_to_memory_of_the_caller() -> None:
    allocated: list[np.ndarray[Any, Any]] = []

    def allocate(output: int, nbytes: int) -> tuple[np.ndarray[Any, Any], object]:
        assert output == 0
        allocated.append(np.full(nbytes, 255, np.uint8))
        return allocated[-1], owner

    owner = object()
    x = fn.external_source(name="x", layout="HWC")
    cropped = fn.crop_mirror_normalize(x, crop=(2, 2), mean=[0.0], std=[1.0])
    with Executor(graph_of([cropped]), CONFIG) as executor:
        executor.batch_memory.allocator = allocate
        done: queue.SimpleQueue[BatchResult] = queue.SimpleQueue()
        executor.submit(BatchRequest(2, {"x": TensorListCPU(np.ones((2, 4, 4, 3), np.uint8))}), done.put)
        result = done.get(timeout=60)
    assert result.error is None
    assert result.outputs[0].owner is owner
    np.testing.assert_array_equal(allocated[0].view(np.float32).reshape(2, 3, 2, 2), np.ones((2, 3, 2, 2)))


def test_closed_executor_refuses_batches(executor: Executor) -> None:
    executor.close()
    with pytest.raises(errors.PipelineError, match="closed"):
        executor.submit(request(0), lambda result: None)
