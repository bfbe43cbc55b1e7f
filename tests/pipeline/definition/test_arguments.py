"""The effect of each argument of a pipeline, and the property that reports it."""

from __future__ import annotations

import os
import pickle
import threading
from typing import Any

import numpy as np
import psutil
import pytest

from dali_proxy.pipeline._concurrency.affinity import nearest_cores, parse_cores
from pipeline import Pipeline, errors, fn
from tests.pipeline.external_source.sources import batch, pipe_of, values

GIVEN: dict[str, Any] = {
    "batch_size": 3,
    "num_threads": 2,
    "device_id": None,
    "seed": 7,
    "exec_pipelined": True,
    "prefetch_queue_depth": {"cpu_size": 3, "gpu_size": 4},
    "exec_async": True,
    "set_affinity": True,
    "max_streams": 5,
    "default_cuda_stream_priority": -1,
    "enable_memory_stats": True,
    "py_num_workers": 2,
    "py_start_method": "spawn",
    "exec_dynamic": True,
}


def test_properties_report_given_arguments() -> None:
    pipe = Pipeline(**GIVEN, bytes_per_sample=100)
    assert {name: getattr(pipe, name) for name in GIVEN} == GIVEN
    assert (pipe.max_batch_size, pipe.cpu_queue_size, pipe.gpu_queue_size, pipe.exec_separated) == (3, 3, 4, True)


def test_properties_report_defaults() -> None:
    pipe = Pipeline(batch_size=3, num_threads=2)
    assert (pipe.prefetch_queue_depth, pipe.cpu_queue_size, pipe.gpu_queue_size) == (2, 2, 2)
    assert (pipe.exec_separated, pipe.exec_pipelined, pipe.exec_async) == (False, True, True)
    assert (pipe.set_affinity, pipe.enable_memory_stats, pipe.seed) == (False, False, None)
    assert (pipe.max_streams, pipe.default_cuda_stream_priority) == (-1, 0)
    assert (pipe.py_num_workers, pipe.py_start_method, pipe.executor_statistics.__doc__ is None) == (1, "fork", False)
    assert Pipeline(batch_size=None, num_threads=None, seed=None).seed is None  # type: ignore[arg-type]


def test_device_is_unknown_until_an_operator_uses_one() -> None:
    for device_id in (None, -1):
        pipe = pipe_of(lambda: batch(0), pipeline={"device_id": device_id})
        assert pipe.device_id is None
        pipe.build()
        assert pipe.device_id is None
        pipe.close()


@pytest.mark.gpu
def test_operator_on_the_gpu_uses_the_current_device() -> None:
    for device_id in (None, -1, 0):
        pipe = pipe_of(lambda: batch(0), device="gpu", pipeline={"device_id": device_id})
        pipe.build()
        assert pipe.device_id == 0
        pipe.close()


def test_deprecated_name_of_exec_dynamic_causes_a_warning() -> None:
    with pytest.warns(Warning, match="experimental_exec_dynamic is deprecated, please use exec_dynamic instead"):
        assert Pipeline(1, 1, None, experimental_exec_dynamic=False).exec_dynamic is False
    assert Pipeline(1, 1, None).exec_dynamic is True
    assert Pipeline(1, 1, None, exec_pipelined=False).exec_dynamic is None


@pytest.mark.parity
def test_properties_equal_dali() -> None:
    from nvidia.dali import Pipeline as DaliPipeline

    # DALI 2.4 ignores the two arguments of streams.
    apart = ("set_affinity", "exec_dynamic", "max_streams", "default_cuda_stream_priority")
    arguments_of_both = {name: value for name, value in GIVEN.items() if name not in apart}
    for arguments in (arguments_of_both, {"batch_size": 3, "num_threads": 2, "device_id": None}):
        ours, dali = Pipeline(**arguments), DaliPipeline(**arguments)
        others = ("exec_dynamic", "max_batch_size", "cpu_queue_size", "gpu_queue_size", "exec_separated")
        for name in (*arguments_of_both, *others):
            assert getattr(ours, name) == getattr(dali, name), name


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"batch_size": 2.5}, TypeError, "batch_size must be int"),
        ({"seed": "a"}, TypeError, "seed must be int"),
        ({"device_id": "cpu"}, TypeError, "device_id must be int or None, not str"),
        ({"bytes_per_sample": "a"}, TypeError, "bytes_per_sample must be int"),
        ({"bytes_per_sample": -1}, ValueError, "bytes_per_sample must be 0 or more"),
        ({"max_streams": 0}, ValueError, "max_streams must be 1 or more"),
        ({"py_callback_pickler": pickle}, ValueError, "should not be set when 'fork' start method is used"),
        ({"py_callback_pickler": 5, "py_start_method": "spawn"}, TypeError, "the functions `dumps` and `loads`"),
        ({"py_num_workers": -1}, ValueError, "py_num_workers must be 0 or more"),
        ({"py_start_method": "magic"}, ValueError, "py_start_method must be"),
        ({"prefetch_queue_depth": 0}, ValueError, "1 or more"),
        ({"prefetch_queue_depth": "2"}, TypeError, "prefetch_queue_depth must be int or"),
        ({"prefetch_queue_depth": {"cpu_size": 2}}, KeyError, "prefetch_queue_depth must be int or"),
        ({"prefetch_queue_depth": {"cpu_size": 2, "gpu_size": 0}}, ValueError, "1 or more"),
        (
            {"prefetch_queue_depth": {"cpu_size": 2, "gpu_size": 2}, "exec_async": False, "exec_pipelined": False},
            ValueError,
            "separate queues",
        ),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(arguments: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        Pipeline(**arguments)
    assert isinstance(caught.value, errors.GraphError)


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ({"prefetch_queue_depth": 1}, 1),
        ({"prefetch_queue_depth": 4}, 4),
        ({"prefetch_queue_depth": {"cpu_size": 5, "gpu_size": 2}}, 5),
        ({"prefetch_queue_depth": 4, "exec_pipelined": False}, 1),
    ],
)
def test_depth_is_the_number_of_batches_in_flight(arguments: dict[str, Any], asked: int) -> None:
    counts = []

    def source(iteration: int) -> Any:
        counts.append(iteration)
        return batch(iteration)

    pipe = pipe_of(source, pipeline=arguments)
    assert values(pipe.run()) == [[0, 0, 0]]
    assert counts == list(range(asked))
    pipe.close()


def test_stages_get_the_configured_depths_and_streams() -> None:
    pipe = Pipeline(**{**GIVEN, "max_streams": 3, "bytes_per_sample": 100})
    config = pipe._internals.arguments.executor_config()
    assert (config.cpu_depth, config.gpu_depth, config.gpu_streams, config.stream_priority) == (3, 4, 3, -1)
    assert (config.bytes_per_sample, config.memory_statistics, config.set_affinity) == (100, True, True)
    config = Pipeline(**{**GIVEN, "max_streams": -1})._internals.arguments.executor_config()
    assert config.gpu_streams == config.gpu_depth


class Slow:
    """Data that can be read only while a gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.entered = threading.Event()

    def __call__(self, data: Any) -> Any:
        self.entered.set()
        assert self.gate.wait(60)
        return data


@pytest.mark.parametrize("asynchronous", [True, False])
def test_caller_continues_while_a_batch_runs_if_asynchronous(asynchronous: bool) -> None:
    with Pipeline(batch_size=3, num_threads=1, device_id=None, exec_async=asynchronous) as pipe:
        pipe.set_outputs(fn.resize(fn.external_source(name="x"), size=(900, 900)))
    pipe.build()
    for _ in range(2):
        pipe.feed_input("x", np.zeros((3, 900, 800, 3), np.uint8))
    blocker = Slow()
    executor = pipe._internals.runner.executor
    thread = threading.Thread(target=lambda: executor._pool.run(blocker, 1))  # holds the only thread
    thread.start()
    assert blocker.entered.wait(60)
    if not asynchronous:
        blocker.gate.set()
    pipe.schedule_run()
    done = pipe._internals.runner.executor.statistics.batches
    blocker.gate.set()
    thread.join()
    assert done == (0 if asynchronous else 2)
    assert len(pipe.share_outputs()[0]) == 3
    pipe.close()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs Linux")
@pytest.mark.parametrize("bound", [False, True])
def test_threads_are_bound_to_cores(bound: bool) -> None:
    allowed = psutil.Process().cpu_affinity()
    pipe = pipe_of(lambda i: batch(i), pipeline={"num_threads": 3, "set_affinity": bound})
    pipe.build()
    seen: dict[str, set[int]] = {}
    together = threading.Barrier(3)

    def look(_: int) -> None:
        together.wait(60)
        seen[threading.current_thread().name] = os.sched_getaffinity(0)

    assert not pipe._internals.runner.executor._pool.run(look, 3)
    expected = [{allowed[number % len(allowed)]} if bound else set(allowed) for number in range(3)]
    assert [seen[name] for name in sorted(seen)] == expected
    assert psutil.Process().cpu_affinity() == allowed, "the caller's thread isn't bound"
    pipe.close()


def test_cores_are_read_as_linux_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_cores("0-2,8,10-11\n") == {0, 1, 2, 8, 10, 11}
    assert parse_cores("\n") == set()
    allowed = psutil.Process().cpu_affinity()
    assert set(nearest_cores(None)) == set(allowed)
    monkeypatch.setenv("DALI_AFFINITY_MASK", f"{allowed[-1]},9999")
    assert nearest_cores(None) == (allowed[-1], *allowed[:-1])


def test_memory_is_prepared_for_samples_of_known_size() -> None:
    def buffers(bytes_per_sample: int) -> tuple[int, int]:
        with Pipeline(
            batch_size=3, num_threads=1, device_id=None, bytes_per_sample=bytes_per_sample, prefetch_queue_depth=1
        ) as pipe:
            pipe.set_outputs(fn.flip(fn.external_source(name="x")))
        pipe.build()
        before = pipe._internals.runner.executor.batch_memory._buffers.allocated
        for _ in range(3):
            pipe.run(x=np.zeros((3, 300, 300, 3), np.uint8))
        after = pipe._internals.runner.executor.batch_memory._buffers.allocated
        pipe.close()
        return before, after

    assert buffers(300 * 300 * 3) == (2, 2), "one for the running batch, one for the outputs that the user holds"
    assert buffers(0)[0] == 0


def test_sizes_of_outputs_are_reported_on_request() -> None:
    def make(**arguments: Any) -> Pipeline:
        with Pipeline(batch_size=2, num_threads=2, device_id=None, **arguments) as pipe:
            x = fn.external_source(name="x")
            passing = fn.flip(x, name="passing")  # within a chain, so it has no batch
            pipe.set_outputs(
                fn.cast(passing, dtype=9, name="cast"), *fn.resize(x, size=(4, 4), save_attrs=True, name="r")
            )
        return pipe

    pipe = make(enable_memory_stats=True)
    big = [np.zeros((200, 200, 3), np.uint8), np.zeros((100, 100, 3), np.uint8)]
    small = [np.zeros((10, 10, 3), np.uint8)]
    for data in (small, big, small):
        pipe.run(x=data)
    statistics = pipe.executor_statistics()
    assert set(statistics) == {"x", "passing", "cast", "r"}
    assert all(
        set(sizes) == {"real_memory_size", "max_real_memory_size", "reserved_memory_size", "max_reserved_memory_size"}
        for sizes in statistics.values()
    )
    for name, width in (("x", 1), ("passing", 1), ("cast", 4)):
        assert statistics[name]["real_memory_size"] == [150_000 * width]
        assert statistics[name]["max_real_memory_size"] == [120_000 * width]
        assert statistics[name]["reserved_memory_size"][0] >= 150_000 * width
        assert statistics[name]["max_reserved_memory_size"][0] >= 120_000 * width
    assert statistics["r"]["real_memory_size"] == [2 * 48, 2 * 8], "a number for each output"
    pipe.close()
    pipe = make()
    pipe.run(x=small)
    assert pipe.executor_statistics() == {}
    pipe.close()


@pytest.mark.parity
def test_sizes_of_outputs_equal_dali() -> None:
    from nvidia.dali import Pipeline as DaliPipeline
    from nvidia.dali import fn as dali_fn

    statistics = []
    for kind, functions, more in ((Pipeline, fn, {}), (DaliPipeline, dali_fn, {"exec_dynamic": False})):
        pipe: Any = kind(batch_size=2, num_threads=1, device_id=None, enable_memory_stats=True, **more)
        with pipe:
            pipe.set_outputs(functions.cast(functions.external_source(name="x"), dtype=10, name="cast"))
        pipe.build()
        for length in (3, 100, 5, 7, 7):
            pipe.feed_input("x", np.zeros((2, length), np.float32))
        for _ in range(3):
            pipe.run()
        statistics.append(pipe.executor_statistics())
    statistics[0]["CPU_cast"] = statistics[0]["cast"]
    for key in ("real_memory_size", "max_real_memory_size"):
        assert statistics[0]["CPU_cast"][key] == statistics[1]["CPU_cast"][key] == [1600 if key[0] == "r" else 800]


def test_styles_of_running_may_be_mixed_without_checks() -> None:
    pipe = pipe_of(lambda iteration: batch(iteration))
    pipe.run()
    with pytest.raises(errors.PipelineError, match="can't be mixed"):
        pipe.schedule_run()
    pipe.enable_api_check(False)
    pipe.schedule_run()
    assert values(pipe.share_outputs()) == [[1, 1, 1]]
    pipe.enable_api_check(True)
    with pytest.raises(errors.PipelineError, match="can't be mixed"):
        pipe.run()
    pipe.close()


@pytest.mark.gpu
@pytest.mark.parametrize(("arguments", "count"), [({}, 3), ({"max_streams": 2}, 2), ({"max_streams": 9}, 3)])
def test_streams_of_a_gpu(arguments: dict[str, Any], count: int) -> None:
    import cupy

    with Pipeline(
        batch_size=2,
        num_threads=2,
        device_id=0,
        prefetch_queue_depth={"cpu_size": 2, "gpu_size": 3},
        default_cuda_stream_priority=-1,
        enable_memory_stats=True,
        set_affinity=True,
        bytes_per_sample=1 << 20,
        **arguments,
    ) as pipe:
        pipe.set_outputs(fn.external_source(name="x").gpu() + 1)
    pipe.build()
    device = pipe._internals.runner.executor._device
    assert device is not None
    streams = {each.stream.ptr: each.stream for each in device._streams}
    assert len(streams) == count
    assert all(cupy.cuda.runtime.streamGetPriority(handle) == -1 for handle in streams)
    assert nearest_cores(0), "cores near the GPU"
    assert cupy.get_default_memory_pool().total_bytes() >= (3 + 1) * 2 << 20
    for number in range(6):
        (out,) = pipe.run(x=np.full((2, 1000), number, np.int32))
        assert np.unique(np.asarray(out.as_cpu())).tolist() == [number + 1]
    statistics = pipe.executor_statistics()
    assert {sizes["real_memory_size"][0] for name, sizes in statistics.items() if "arithmetic" in name} == {8000}
    assert all(sizes["reserved_memory_size"][0] >= sizes["real_memory_size"][0] for sizes in statistics.values())
    pipe.close()
