from __future__ import annotations

import functools
import gc
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pipeline import Pipeline, errors, fn, ops, tensors, types
from tests.pipeline.external_source.sources import (
    Counting,
    Restarting,
    batch,
    numbered,
    pipe_of,
    run,
    two_batches,
    values,
)

E = "end"
ZERO, ONE, TWO = [[0, 0, 0]], [[1, 1, 1]], [[2, 2, 2]]


@pytest.mark.parametrize(
    ("source", "cycle", "expected", "after_reset"),
    [
        ([batch(0), batch(1)], None, [ZERO, ONE, E, E], [E, E, E]),
        ([batch(0), batch(1)], "no", [ZERO, ONE, E, E], [E, E, E]),
        ([batch(0), batch(1)], "raise", [ZERO, ONE, E, E], [ZERO, ONE, E]),
        ([batch(0), batch(1)], "quiet", [ZERO, ONE, ZERO, ONE], [ZERO, ONE, ZERO]),
        (two_batches, False, [ZERO, ONE, E, E], [E, E, E]),
        (two_batches, "raise", [ZERO, ONE, E, E], [ZERO, ONE, E]),
        (two_batches, True, [ZERO, ONE, ZERO, ONE], [ZERO, ONE, ZERO]),
        (two_batches(), None, [ZERO, ONE, E, E], [E, E, E]),
        (Counting(), "raise", [ONE, TWO, E, E], [ONE, TWO, E]),
        (Counting, "raise", [ONE, TWO, E, E], [ONE, TWO, E]),
        (Restarting(), None, [ONE, TWO, E, E], [ONE, TWO, E]),
        (np.stack([batch(0), batch(1)]), "raise", [ZERO, ONE, E, E], [ZERO, ONE, E]),
        ([], "quiet", [E, E, E, E], [E, E, E]),
        (iter([batch(0)]), "quiet", [ZERO, E, E, E], [E, E, E]),
    ],
)
def test_iterable_sources_end_and_begin_as_their_cycle_says(
    source: Any, cycle: Any, expected: Any, after_reset: Any
) -> None:
    pipe = pipe_of(source, cycle=cycle)
    assert run(pipe, 4) == expected
    pipe.reset()
    assert run(pipe, 3) == after_reset
    pipe.close()


def test_source_of_samples_is_called_for_each_sample() -> None:
    asked: list[types.SampleInfo] = []

    def source(info: types.SampleInfo) -> Any:
        asked.append(info)
        return numbered(info)

    pipe = pipe_of(source, batch=False)
    assert run(pipe, 3) == [[[0, 1, 2]], [[3, 4, 5]], E], "a partial batch is left out"
    pipe.reset()
    assert run(pipe, 1) == [[[100, 101, 102]]]
    assert asked[4] == types.SampleInfo(idx_in_epoch=4, idx_in_batch=1, iteration=1, epoch_idx=0)
    assert asked[8] == types.SampleInfo(idx_in_epoch=0, idx_in_batch=0, iteration=0, epoch_idx=1)
    pipe.close()


def test_iterable_of_samples_that_cycles_quietly_continues_after_its_end() -> None:
    samples = [np.int32([number]) for number in range(7)]
    pipe = pipe_of(samples, batch=False, cycle="quiet")
    assert run(pipe, 4) == [[[0, 1, 2]], [[3, 4, 5]], [[6, 0, 1]], [[2, 3, 4]]]
    pipe.close()
    pipe = pipe_of(samples, batch=False, cycle="raise")
    assert run(pipe, 3) == [[[0, 1, 2]], [[3, 4, 5]], E]
    pipe.close()


def test_source_of_batches_gets_the_iteration_or_a_batch_info() -> None:
    asked: list[Any] = []

    def source(what: Any) -> Any:
        asked.append(what)
        if len(asked) % 3 == 0:
            raise StopIteration
        return batch(0)

    for batch_info in (False, True):
        pipe = pipe_of(source, batch_info=batch_info)
        for _ in range(2):
            run(pipe, 3)
            pipe.reset()
        pipe.close()
    infos = [types.BatchInfo(iteration, epoch) for epoch in range(2) for iteration in range(3)]
    assert asked == [0, 1, 2, 0, 1, 2, *infos]


class Object:
    def __call__(self, iteration: int) -> Any:
        return batch(iteration)

    def method(self, iteration: int) -> Any:
        return batch(iteration)


@pytest.mark.parametrize(
    "source",
    [
        Object(),
        Object().method,
        lambda iteration: batch(iteration),
        lambda iteration=7, *, scale=1: batch(iteration * scale),
        functools.partial(lambda add, iteration: batch(add + iteration), 0),
    ],
)
def test_callables_of_all_kinds_are_sources(source: Any) -> None:
    pipe = pipe_of(source)
    assert run(pipe, 2) == [ZERO, ONE]
    pipe.close()


@pytest.mark.parametrize(("depth", "calls"), [(1, 2), (2, 3), (4, 5), ({"cpu_size": 3, "gpu_size": 1}, 4)])
def test_source_is_called_ahead_by_the_depth_of_the_queues(depth: Any, calls: int) -> None:
    threads = []

    def source() -> Any:
        threads.append(threading.current_thread())
        return batch(len(threads))

    pipe = pipe_of(source, pipeline={"prefetch_queue_depth": depth})
    assert run(pipe, 2) == [ONE, TWO]
    assert threads == [threading.current_thread()] * calls, "sources run in the thread that runs the pipeline"
    pipe.close()
    threads.clear()
    pipe = pipe_of(source, pipeline={"exec_pipelined": False, "prefetch_queue_depth": 3})
    assert (run(pipe, 2), len(threads)) == ([ONE, TWO], 2)
    pipe.close()


def test_several_outputs_have_a_layout_a_dtype_and_a_number_of_dimensions_each() -> None:
    def source() -> Any:
        return np.zeros((3, 2, 2), np.uint8), [np.zeros(n + 1, np.float32) for n in range(3)]

    pipe = pipe_of(source, num_outputs=2, layout=["HW"], dtype=(types.UINT8, types.FLOAT), ndim=[2, 1])
    first, second = pipe.run()
    assert (first.layout(), second.layout()) == ("HW", "")
    assert second.shape() == [(1,), (2,), (3,)]
    pipe.close()
    pipe = pipe_of(source, num_outputs=2, dtype=types.UINT8)
    with pytest.raises(errors.InputError, match=r"declares dtype=DALIDataType.UINT8\n  in source .*source.*\n  at .*"):
        pipe.run()
    pipe.close()


def test_samples_with_several_outputs() -> None:
    pipe = pipe_of(
        lambda info: (np.int32([info.idx_in_epoch]), np.int32([-info.idx_in_epoch])), num_outputs=2, batch=False
    )
    assert run(pipe, 2) == [[[0, 1, 2], [0, -1, -2]], [[3, 4, 5], [-3, -4, -5]]]
    pipe.close()


def test_unused_output_is_allowed() -> None:
    with Pipeline(batch_size=3, num_threads=1, device_id=None) as pipe:
        _, second = ops.ExternalSource(lambda: (batch(1), batch(2)), num_outputs=2)()
        pipe.set_outputs(second)
    assert run(pipe, 1) == [TWO]
    pipe.close()


def test_source_may_reuse_its_buffer() -> None:
    buffer = batch(0)

    def source() -> Any:
        buffer[...] += 1
        return buffer

    pipe = pipe_of(source)
    held = [pipe.run()[0] for _ in range(3)]
    assert [values([output]) for output in held] == [ONE, TWO, [[3, 3, 3]]]
    pipe.close()


def test_tensors_and_scalars_are_samples() -> None:
    pipe = pipe_of(lambda: [tensors.TensorCPU(np.zeros((2, 2), np.uint8), "HW")] * 2)
    assert pipe.run()[0].layout() == "HW"
    pipe.close()
    pipe = pipe_of(lambda info: info.idx_in_batch * 0.5, batch=False)
    assert run(pipe, 1) == [[[0.0, 0.5, 1.0]]]
    pipe.close()


def test_error_of_a_source_belongs_to_its_batch() -> None:
    def source(info: types.SampleInfo) -> Any:
        if info.idx_in_epoch == 4:
            raise KeyError("no such image")
        return np.int32([info.idx_in_epoch])

    pipe = pipe_of(source, batch=False)
    assert run(pipe, 1) == [[[0, 1, 2]]]
    with pytest.raises(KeyError) as caught:
        pipe.run()
    error = caught.value
    assert isinstance(error, errors.SourceError)
    assert error.failures[0].sample == 1
    assert isinstance(error.__cause__, KeyError)
    for words in (
        "for sample 1: KeyError: 'no such image'",
        "test_serial.py",
        "SampleInfo(idx_in_epoch=4, ",
        ".source (",
    ):
        assert words in str(error)
    assert run(pipe, 1) == [[[6, 7, 8]]], "the batches after it arrive"
    pipe.close()


def test_generator_that_fails_has_ended() -> None:
    def source() -> Iterator[Any]:
        yield batch(0)
        raise OSError(2, "no such file")

    pipe = pipe_of(source, cycle="raise")
    assert run(pipe, 1) == [ZERO]
    with pytest.raises(OSError, match="no such file"):
        pipe.run()
    assert run(pipe, 1) == [E]
    pipe.reset()
    assert run(pipe, 1) == [ZERO]
    pipe.close()


@pytest.mark.parametrize(
    ("given", "num_outputs", "message"),
    [
        (None, None, "NoneType"),
        ("text", None, "str"),
        (np.zeros((4, 1)), None, "the batch has 4 samples, but the pipeline's batch_size is 3"),
        ((batch(0),), 2, "returned a tuple of 1, but num_outputs=2"),
        (5, 2, "returned a int, but num_outputs=2"),
    ],
)
def test_error_of_an_invalid_batch_names_the_source(given: Any, num_outputs: Any, message: str) -> None:
    pipe = pipe_of(lambda: given, num_outputs=num_outputs)
    with pytest.raises(errors.InputError, match=message) as caught:
        pipe.run()
    assert "in source" in str(caught.value)
    assert "sources.py" in str(caught.value), "the line that created the operator"
    pipe.close()


def test_sources_stay_in_step() -> None:
    with Pipeline(batch_size=3, num_threads=1, device_id=None) as pipe:
        short = fn.external_source([batch(0), batch(1)], cycle="raise")
        long = fn.external_source([batch(10), batch(11), batch(12)], cycle="raise")
        pipe.set_outputs(short, long, fn.external_source(lambda iteration: batch(iteration)))
    epoch = [[*ZERO, [10, 10, 10], *ZERO], [*ONE, [11, 11, 11], *ONE], E]
    for _ in range(3):
        assert run(pipe, 3) == epoch
        pipe.reset()
    pipe.close()


def test_sources_that_disagree_about_the_size_of_a_batch_are_refused() -> None:
    with Pipeline(batch_size=3, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.external_source(lambda: batch(0)), fn.external_source(lambda: batch(0, 2), name="two"))
    with pytest.raises(errors.InputError, match=r"different sizes.*'two': 2"):
        pipe.run()
    pipe.close()


def test_source_and_an_input_that_is_fed() -> None:
    with Pipeline(batch_size=3, num_threads=1, device_id=None) as pipe:
        samples = fn.external_source(lambda info: np.int32([info.idx_in_epoch]), batch=False, name="given")
        pipe.set_outputs(samples + fn.external_source(name="fed"))
    assert pipe.input_names == ("fed",)
    assert values(pipe.run(fed=batch(10))) == [[10, 11, 12]]
    assert values(pipe.run(fed=batch(10, 2))) == [[13, 14]], "samples are generated for the fed batch"
    with pytest.raises(
        errors.InputError, match="Cannot use `feed_input` on the external source 'given' with a `source`"
    ):
        pipe.feed_input("given", batch(0))
    pipe.close()


def test_pipeline_that_is_dropped_ends_its_threads() -> None:
    before = set(threading.enumerate())
    pipe = pipe_of(lambda: batch(0))
    pipe.run()
    assert set(threading.enumerate()) > before
    del pipe
    gc.collect()
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("source", [lambda iteration: {}["image"], lambda iteration: batch(0, 4)])
def test_pipeline_with_errors_in_flight_ends_its_threads(source: Any) -> None:
    before = set(threading.enumerate())
    pipe = pipe_of(source, pipeline={"prefetch_queue_depth": 3})
    with pytest.raises((KeyError, errors.InputError)):
        pipe.run()
    del pipe
    gc.collect()
    assert set(threading.enumerate()) <= before
