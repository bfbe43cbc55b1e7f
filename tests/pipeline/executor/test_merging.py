"""Batches that run as one have the results, the errors and the callbacks that they have alone."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._executor.device import Device
from dali_proxy.pipeline._executor.merging import MOST_SAMPLES, Merger, RunningBatch
from dali_proxy.pipeline._graph.selecting import select
from dali_proxy.pipeline._operator_api.joined_batches import MergedBatch
from dali_proxy.pipeline._operator_api.request import BatchRequest, BatchResult
from dali_proxy.pipeline._rng import BatchKey
from dali_proxy.pipeline._strict import STRICT
from pipeline import Pipeline, fn, types
from pipeline.errors import OperatorError
from pipeline.tensors.cpu import TensorListCPU
from tests import host_cupy
from tests.pipeline.kernels.emulator import COMPILER

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")

SIZES = [3, 1, 4, 2]


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with host_cupy.installed():
        yield


def describe() -> tuple[Any, ...]:
    images = fn.external_source(name="images", layout="HWC")
    shift = fn.external_source(name="shift")
    cut = fn.random_resized_crop(images.gpu(), size=(4, 5))
    turned = fn.flip(cut, horizontal=fn.random.coin_flip())
    return fn.brightness(turned, brightness_shift=shift, dtype=types.FLOAT), images.gpu(), shift


def describe_branches() -> tuple[Any, ...]:
    images = fn.external_source(name="images").gpu()
    fn_of = [lambda: fn.flip(images), lambda: fn.brightness(images, brightness=0.5)]
    return select(fn.random.coin_flip(), fn_of), fn.external_source(name="shift")


def request(
    number: int, size: int, done: list[int], sample: tuple[int, ...] = (6, 7, 3), step: int = 1, layout: str = "HWC"
) -> BatchRequest:
    rng = np.random.default_rng(number)
    shapes = [(sample[0] + index * step, *sample[1:]) for index in range(size)]
    images = TensorListCPU([rng.integers(0, 255, shape, np.uint8) for shape in shapes], layout)
    shift = TensorListCPU(rng.random(size, np.float32))
    return BatchRequest(size, {"images": images, "shift": shift}, BatchKey(0, number), lambda: done.append(number))


def run(
    requests: list[BatchRequest],
    together: bool,
    define: Callable[[], tuple[Any, ...]] = describe,
    check: Callable[[BatchResult], None] = lambda result: None,
) -> tuple[list[BatchResult], list[int]]:
    """Return the results in order, after a check of each, and the sizes of the batches that ran as one."""
    merged: list[int] = []
    results: dict[int, BatchResult] = {}
    pipe = Pipeline(8, 1, 0, seed=5, exec_dynamic=False)
    with pipe:
        pipe.set_outputs(*define())
    pipe.build()
    executor = pipe._internals.runner.executor
    started = MergedBatch.__init__

    def record(self: MergedBatch, members: Any, edges: Any) -> None:
        started(self, members, edges)
        merged.append(self.size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MergedBatch, "__init__", record)
        assert executor._merger is not None
        executor._merger.most = 8 if together else 1
        begin, ended = threading.Event(), threading.Semaphore(0)
        waiting = executor._queues["mixed"]
        assert waiting is not None
        for _ in waiting._threads:  # all batches wait for the same phase
            waiting.put(begin.wait)  # type: ignore[arg-type]
        for number, each in enumerate(requests):

            def finish(result: BatchResult, number: int = number) -> None:
                results[number] = result
                ended.release()

            executor.submit(each, finish)
        if together:
            assert executor._merger is not None
            while len(executor._merger._waiting) < len(requests):
                threading.Event().wait(0.001)
        begin.set()
        for _ in requests:
            assert ended.acquire(timeout=60)
    for number in range(len(requests)):
        check(results[number])
    copies = [
        BatchResult(tuple(output.as_cpu() for output in results[number].outputs), results[number].error)
        for number in range(len(requests))
    ]
    pipe.close()
    return copies, merged


def arrays(result: BatchResult) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(sample) for output in result.outputs for sample in output]


def test_one_event_shows_that_the_inputs_of_all_batches_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[int] = []
    when_done = Device.when_done

    def count(device: Device, event: Any, keep_alive: list[Any], callbacks: Any) -> None:
        waits.append(len(callbacks))
        when_done(device, event, keep_alive, callbacks)

    monkeypatch.setattr(Device, "when_done", count)
    done: list[int] = []
    run([request(number, size, done) for number, size in enumerate(SIZES)], together=True)
    assert [each for each in waits if each] == [len(SIZES)]
    assert sorted(done) == list(range(len(SIZES)))


def test_batches_that_run_as_one_have_the_same_bits() -> None:
    done: list[int] = []
    requests = [request(number, size, done) for number, size in enumerate(SIZES)]
    alone, none = run(requests, together=False)
    together, merged = run(requests, together=True)
    assert (none, merged) == ([], [sum(SIZES)])
    for one, other, size in zip(alone, together, SIZES, strict=True):
        assert [len(output) for output in other.outputs] == [size] * 3
        for expected, found in zip(arrays(one), arrays(other), strict=True):
            np.testing.assert_array_equal(expected, found, strict=True)
    assert sorted(done) == sorted(2 * list(range(len(SIZES))))


def test_failing_sample_fails_only_its_batch() -> None:
    done: list[int] = []
    requests = [request(number, size, done) for number, size in enumerate(SIZES)]
    requests[2] = request(2, SIZES[2], done, sample=(6, 0, 3))  # nothing to crop
    results, merged = run(requests, together=True)
    assert merged == [sum(SIZES)]
    assert [result.error is None for result in results] == [True, True, False, True]
    assert isinstance(results[2].error, OperatorError)
    expected, _ = run([requests[1]], together=False)
    for one, other in zip(arrays(expected[0]), arrays(results[1]), strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    assert set(done) == set(range(len(SIZES)))


def test_size_of_merged_batches_is_limited() -> None:
    sizes = [8] * (MOST_SAMPLES // 8 // 4)
    done: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dali_proxy.pipeline._executor.merging.MOST_SAMPLES", 20)
        results, merged = run([request(number, size, done) for number, size in enumerate(sizes)], together=True)
    assert merged == [16] * (len(sizes) // 2)
    assert all(result.error is None for result in results)


def test_few_batches_in_flight_start_in_pairs_beside_others(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[int]] = []

    class Recorder:
        def put(self, work: Callable[[], None]) -> None:
            work()

        def run_phase(self, run: Any, phase: Any) -> None:
            started.append([each.batch.number for each in run.members or (run,)])

    def add(number: int) -> None:
        batch: Any = SimpleNamespace(size=2, number=number, trace=None)
        assert merger is not None
        merger.put(RunningBatch(batch, lambda result: None), recorder, recorder)

    monkeypatch.setattr(Merger, "_merge", lambda self, members: SimpleNamespace(members=tuple(members)))
    recorder: Any = Recorder()
    pipe = Pipeline(8, 1, 0)
    with pipe:
        pipe.set_outputs(*describe())
    with closing(pipe):
        pipe.build()
        merger = pipe._internals.runner.executor._merger
    assert merger is not None
    merger.most = 4
    add(0)
    add(1)
    assert started == [[0]]
    add(2)
    add(3)
    assert started == [[0], [1, 2]]
    merger.end(recorder, recorder)
    assert started == [[0], [1, 2]]
    merger.end(recorder, recorder)
    assert started == [[0], [1, 2], [3]]  # nothing else would let it run


def test_batches_with_different_layouts_do_not_run_as_one() -> None:
    def flipped() -> tuple[Any, ...]:
        return fn.flip(fn.external_source(name="images").gpu()), fn.external_source(name="shift")

    requests = [request(number, 2, [], layout=layout) for number, layout in enumerate(["HWC", "CHW"])]
    alone, _ = run(requests, together=False, define=flipped)
    together, merged = run(requests, together=True, define=flipped)
    assert not merged
    for one, other in zip(alone, together, strict=True):
        assert one.outputs[0].layout() == other.outputs[0].layout()
        np.testing.assert_array_equal(arrays(one)[0], arrays(other)[0], strict=True)


def test_samples_of_one_shape_are_one_tensor_although_those_of_other_batches_differ() -> None:
    def flipped() -> tuple[Any, ...]:
        return fn.flip(fn.external_source(name="images").gpu()), fn.external_source(name="shift")

    found: list[Any] = []

    def check(result: BatchResult) -> None:
        output: Any = result.outputs[0]
        pixels = output.as_cpu().as_array()
        found.append((pixels, output.as_reshaped_tensor([pixels.size]).as_cpu().as_array()))

    requests = [request(number, 2, [], (5 + number, 7, 3), step=0) for number in range(2)]
    _, merged = run(requests, True, flipped, check)
    assert merged == [4]
    for pixels, tensor in found:
        np.testing.assert_array_equal(pixels.reshape(-1), tensor)


def test_merged_batches_end_without_the_garbage_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[weakref.ref[MergedBatch]] = []
    begin = MergedBatch.__init__

    def note(self: MergedBatch, *arguments: Any) -> None:
        begin(self, *arguments)
        batches.append(weakref.ref(self))

    monkeypatch.setattr(MergedBatch, "__init__", note)
    gc.collect()
    gc.disable()
    try:
        run([request(number, 4, []) for number in range(4)], together=True, define=describe_branches)
        assert [batch() for batch in batches] == [None]
    finally:
        gc.enable()


def test_failure_of_merging_is_an_error_in_tests_and_logged_for_users(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*arguments: Any) -> Any:
        raise ValueError("the parts are wrong")

    monkeypatch.setattr(Merger, "share_out", fail)
    requests = [request(number, size, []) for number, size in enumerate(SIZES)]
    results, _ = run(requests, together=True)
    (error,) = [result.error for result in results if result.error is not None]
    assert "batches that run as one failed, although its operators succeed one by one" in str(error)
    monkeypatch.delenv(STRICT)
    results, _ = run(requests, together=True)
    assert all(result.error is None for result in results)
    (record,) = [each for each in caplog.records if "run as one failed" in each.message]
    assert "the parts are wrong" in str(record.exc_info)


@pytest.mark.parametrize("with_images", [False, True])
def test_batches_do_not_run_as_one_where_every_step_would_process_them_apart(with_images: bool) -> None:
    pipe = Pipeline(8, 1, 0, seed=5)
    with pipe:
        outputs = [fn.random.uniform(device="gpu", shape=16) * 2 + 1]
        if with_images:
            outputs.append(fn.flip(fn.external_source(name="images", layout="HWC").gpu()))
        pipe.set_outputs(*outputs)
    pipe.build()
    assert pipe._internals.runner.executor.merges is with_images
    pipe.close()
