"""If CUDA fails permanently, batches end with an error and inputs are released: no thread hangs, nothing leaks."""

from __future__ import annotations

import queue
import threading
import weakref
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from dali_proxy.pipeline._executor import BatchRequest, BatchResult, Executor, ExecutorConfig
from dali_proxy.pipeline._executor.device import BatchStream, Device
from dali_proxy.pipeline._executor.merging import RunningBatch
from dali_proxy.pipeline._operator_api.batch import Batch
from pipeline import fn
from pipeline.errors import ArgumentValueError, InputError, PipelineError
from pipeline.tensors import TensorListCPU
from pipeline.types import BOOL
from tests import host_cupy
from tests.pipeline.graphs import graph_of


class LostStream:
    """A stream whose operations all fail, as those of a GPU that was lost."""

    def synchronize(self) -> None:
        raise RuntimeError("the GPU is lost")


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    made = object.__new__(Device)
    made.device_id = 0
    made._pending = queue.SimpleQueue()
    monkeypatch.setattr(made, "current", nullcontext)
    return made


@pytest.mark.parametrize("error", [None, InputError("what failed before")])
def test_batch_on_a_lost_gpu_ends(device: Device, error: PipelineError | None) -> None:
    results: list[BatchResult] = []
    released: list[str] = []
    request = BatchRequest(2, {"x": TensorListCPU(np.arange(2))}, on_inputs_read=lambda: released.append("inputs"))
    config = ExecutorConfig(max_batch_size=2, num_threads=1, device_id=None, seed=1)
    with Executor(graph_of([fn.external_source(name="x") + 1]), config) as executor:
        reads = executor.readers.begin(2)
        run = RunningBatch(Batch(request, 1, executor._pool, executor.batch_memory.allocate, reads, {}), results.append)
        run.stream = BatchStream(LostStream(), device, 0)
        memory = np.zeros(1)
        kept = weakref.ref(memory)
        run.batch.keep_alive.append(memory)
        del memory
        executor._finish(run, error)
    (result,) = results
    assert result.outputs == ()
    assert result.error is error if error else "the GPU failed while a batch ran" in str(result.error)
    assert kept() is not None
    assert not released
    device._pending.put(None)
    device._reap()
    assert kept() is None
    assert released == ["inputs"]


def test_device_whose_driver_does_not_answer_is_busy(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()  # never set in time: another thread waits inside the driver for a kernel
    monkeypatch.setattr("dali_proxy.pipeline._executor.device.is_idle", lambda stream: answer.wait() and stream is None)
    monkeypatch.setattr("dali_proxy.pipeline._executor.device._PATIENCE", 0.01)
    device._streams = [BatchStream(object(), device, 0)]
    assert device.is_busy()
    answer.set()


@pytest.mark.parametrize("idle", [False, True])
def test_device_is_busy_while_a_stream_has_work(device: Device, monkeypatch: pytest.MonkeyPatch, idle: bool) -> None:
    states = {"first": True, "second": idle}
    monkeypatch.setattr("dali_proxy.pipeline._executor.device.is_idle", states.__getitem__)
    device._streams = [BatchStream(name, device, 0) for name in states]
    assert device.is_busy() is not idle


def test_device_that_is_lost_is_not_busy(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(stream: object) -> bool:
        raise RuntimeError("the GPU is lost")

    monkeypatch.setattr("dali_proxy.pipeline._executor.device.is_idle", fail)
    device._streams = [BatchStream(object(), device, 0)]
    assert not device.is_busy()


def test_device_is_closed_when_an_operator_cannot_be_created(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []
    device = SimpleNamespace(device_id=0, kernels=object(), building=nullcontext, close=lambda: closed.append(True))
    monkeypatch.setattr("dali_proxy.pipeline._executor.executor.open_device", lambda graph, config: device)
    images = fn.decoders.image(fn.external_source(name="x"), device="mixed", dtype=BOOL)
    message = r"^fn.decoders.image: .*'dtype' must be one of"
    with host_cupy.installed(), pytest.raises(ArgumentValueError, match=message):
        Executor(graph_of([images]), ExecutorConfig(max_batch_size=2, num_threads=1, device_id=0, seed=1))
    assert closed == [True]


def test_events_of_a_lost_gpu_do_not_end_the_thread_that_waits(device: Device) -> None:
    called: list[int] = []
    for number in range(2):
        device.when_done(LostStream(), [], [lambda number=number: called.append(number)])
    device._pending.put(None)
    device._reap()
    assert called == [0, 1]


def test_inputs_without_a_callback_are_released_by_a_later_batch() -> None:
    class Event:
        done = False

        def synchronize(self) -> None:
            self.done = True

    with host_cupy.installed():
        device = Device(0, 1, 0)
        event, first, second = Event(), [object()], [object()]
        device.when_done(event, first, [])
        assert first
        event.done = True
        device.when_done(Event(), second, [])
        assert not first
        assert second
        device.close()
        assert not second
