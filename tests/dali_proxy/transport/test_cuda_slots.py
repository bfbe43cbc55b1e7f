"""Outputs on a GPU that an executor writes to slots. Host memory stands for the GPU's: see `tests.host_cupy`."""

from __future__ import annotations

import ctypes
import queue
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from dali_proxy._transport.publisher import ResultPublisher, StagedResult
from dali_proxy.pipeline._operator_api.request import BatchRequest, BatchResult
from dali_proxy.pipeline._rng import BatchKey
from pipeline import Pipeline, fn, types
from pipeline.tensors.cpu import TensorListCPU
from pipeline.tensors.gpu import TensorListGPU
from tests import host_cupy
from tests.pipeline.kernels.emulator import COMPILER

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")

SIZE = 3


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Install the stand-in; return the sizes of the copies from GPU memory to GPU memory."""
    with host_cupy.installed():
        import cupy

        runtime, noted = cupy.cuda.runtime, []
        copy = runtime.memcpyAsync

        def memcpy(target: int, source: int, nbytes: int, kind: int, stream: int = 0) -> None:
            if kind == runtime.memcpyDeviceToDevice:
                noted.append(nbytes)
            copy(target, source, nbytes, kind, stream)

        monkeypatch.setattr(runtime, "memcpyAsync", memcpy)
        yield noted


@pytest.fixture
def publisher(copies: list[int]) -> Iterator[ResultPublisher]:
    publisher = ResultPublisher(0)
    yield publisher
    publisher.close()


def request(number: int) -> BatchRequest:
    rng = np.random.default_rng(number)
    images = rng.integers(0, 255, (SIZE, 6, 7, 3), np.uint8)
    return BatchRequest(SIZE, {"images": TensorListCPU(images, "HWC")}, BatchKey(0, number))


def contents(staged: StagedResult) -> list[bytes]:
    """Return the bytes of each output in its slot."""
    found = []
    for message, slot, _ in staged._outputs:
        assert slot is not None
        offset, *shape = np.frombuffer(message.table, np.int64).tolist()
        nbytes = int(np.prod(shape)) * np.dtype(message.dtype).itemsize
        found.append(ctypes.string_at(slot.memory.pointer + offset, nbytes))
    return found


def run(describe: Callable[[], Any], publisher: ResultPublisher, into_slots: bool, fuse: bool = True) -> list[Any]:
    """Run eight batches; return the bytes of their outputs in slots."""
    pipe = Pipeline(8, 1, 0, seed=5, exec_dynamic=False)
    with pipe:
        outputs = describe()
        pipe.set_outputs(*(outputs if isinstance(outputs, tuple) else (outputs,)))
    pipe.build()
    executor = pipe._internals.runner.executor
    executor.batch_memory.on_gpu = publisher.device_memory if into_slots else None
    done: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def finish(result: BatchResult) -> None:
        done.put(result.error or publisher.stage(result.outputs))

    found = []
    for number in range(8):
        executor.submit(request(number), finish)
        staged = done.get(timeout=60)
        if not isinstance(staged, StagedResult):
            raise staged
        staged.wait()
        found.append(contents(staged))
        staged.discard()
    pipe.close()
    return found


def constant() -> Any:
    return fn.resize(fn.external_source(name="images", layout="HWC").gpu(), size=(4, 5))


def random() -> Any:
    images = fn.external_source(name="images", layout="HWC").gpu()
    return fn.brightness(fn.flip(images, horizontal=fn.random.coin_flip()), brightness=0.5, dtype=types.FLOAT)


def apart() -> Any:
    """Return an output whose launches aren't prepared, because an operator before it isn't a pixel operator."""
    images = fn.external_source(name="images", layout="HWC").gpu()
    return fn.flip(fn.cat(images, images, axis=0), horizontal=fn.random.coin_flip())


@pytest.mark.parametrize("describe", [constant, random, apart])
def test_output_that_nothing_else_reads_is_written_to_its_slot(
    describe: Callable[[], Any], publisher: ResultPublisher, copies: list[int]
) -> None:
    expected = run(describe, publisher, into_slots=False)
    copied = len(copies)
    assert copied == len(expected)
    assert run(describe, publisher, into_slots=True) == expected
    recorded = 2 if describe is constant else 0  # batches whose launches are recorded
    assert len(copies) - copied <= recorded
    assert publisher._cuda is not None
    assert publisher._cuda.pool.stats().slots == 1


def test_output_that_an_operator_reads_is_copied(publisher: ResultPublisher, copies: list[int]) -> None:
    def describe() -> Any:
        flipped = random()
        return flipped, fn.reductions.mean(flipped)

    expected = run(describe, publisher, into_slots=False)
    copied = len(copies)
    assert run(describe, publisher, into_slots=True) == expected
    assert len(copies) > copied


def test_views_of_one_output_are_separate_results(publisher: ResultPublisher) -> None:
    import cupy

    memory = publisher.device_memory
    assert memory is not None
    pointer = memory.output_memory(24)
    array = cupy.ndarray((4, 6), np.uint8, pointer)
    array._host[:] = np.arange(24).reshape(4, 6)
    ready = cupy.cuda.Event()
    staged = publisher.stage([TensorListGPU(array[1:], ready=ready), TensorListGPU(array, ready=ready)])
    assert contents(staged) == [bytes(range(6, 24)), bytes(range(24))]
    staged.discard()


def test_slot_of_a_failed_batch_is_not_used_while_its_stream_writes(
    publisher: ResultPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cupy

    assert publisher.device_memory is not None
    stream = cupy.cuda.Stream.null
    monkeypatch.setattr(stream, "done", False)
    failed = publisher.device_memory.output_memory(100)
    address = failed.ptr
    del failed
    other = publisher.device_memory.output_memory(100)
    assert other.ptr != address
    stream.done = True
    assert publisher.device_memory.output_memory(100).ptr == address
