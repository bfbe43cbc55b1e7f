"""Feeding, scheduling, the end of the data, and the batch after an error."""

from __future__ import annotations

import multiprocessing
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import Pipeline, errors, fn, pipeline_def, types
from tests.pipeline.external_source.sources import batch, pipe_of, run, values
from tests.waiting import PATIENCE_S

E = "end"
ZERO, ONE, TWO = [[0, 0, 0]], [[1, 1, 1]], [[2, 2, 2]]


def fed(*, pipeline: dict[str, Any] | None = None, **arguments: Any) -> Pipeline:
    return pipe_of(None, name="x", pipeline=pipeline, **arguments)


def test_batches_are_not_lost_when_data_is_missing() -> None:
    pipe = fed()
    for run_it in (pipe.run, pipe.run):
        with pytest.raises(errors.MissingInputError, match="'x' has no data") as caught:
            run_it()
        assert isinstance(caught.value, IndexError)
        pipe.feed_input("x", batch(1))
        assert run(pipe, 1) == [ONE]
    pipe.close()


def test_unknown_inputs_are_a_key_error_with_a_message() -> None:
    pipe = fed()
    with pytest.raises(KeyError) as caught:
        pipe.feed_input("y", batch(0))
    assert str(caught.value) == "Could not find an input operator with name 'y'; the inputs are: 'x'"
    with pytest.raises(TypeError, match="named by a DataNode or a str, not int"):
        pipe.feed_input(5, batch(0))  # type: ignore[arg-type]
    assert pipe.input_feed_count("x") == 2
    pipe.close()


def test_input_without_a_name_is_fed_by_its_node() -> None:
    with Pipeline(batch_size=3, num_threads=1, device_id=None) as pipe:
        first, second = fn.external_source(), fn.external_source()
        sum_of_both = first * 10 + second
        pipe.set_outputs(sum_of_both)
    pipe.feed_input(second, batch(1))
    pipe.feed_input(first, batch(2))
    assert run(pipe, 1) == [[[21, 21, 21]]]
    with pytest.raises(KeyError):
        pipe.feed_input(sum_of_both, batch(0))
    pipe.close()


def test_outputs_come_in_order_of_scheduling_until_stop_iteration() -> None:
    pipe = pipe_of([batch(0), batch(1)])
    for take in (pipe.outputs, pipe.share_outputs):
        with pytest.raises(StopIteration):
            take()
    pipe.release_outputs()
    for _ in range(4):
        pipe.schedule_run()
    assert [values(pipe.share_outputs()), values(pipe.outputs())] == [ZERO, ONE]
    for _ in range(3):
        with pytest.raises(StopIteration):
            pipe.share_outputs()
    pipe.close()


def test_schedule_run_continues_after_the_end_and_reset() -> None:
    pipe = pipe_of([batch(0), batch(1)], cycle="raise")
    for _ in range(2):
        for expected in (ZERO, ONE):
            pipe.schedule_run()
            assert values(pipe.share_outputs()) == expected
            pipe.release_outputs()
        pipe.schedule_run()
        with pytest.raises(StopIteration):
            pipe.share_outputs()
        assert pipe.empty()
        pipe.reset()
    pipe.close()


@pytest.mark.parametrize("first", ["run", "schedule_run", "outputs"])
def test_styles_of_running_do_not_mix(first: str) -> None:
    pipe = pipe_of(lambda iteration: batch(iteration))
    if first == "outputs":
        with pytest.raises(StopIteration):
            pipe.outputs()
    else:
        getattr(pipe, first)()
    for other in ("schedule_run", "share_outputs", "release_outputs", "outputs") if first == "run" else ("run",):
        with pytest.raises(RuntimeError, match="can't be mixed"):
            getattr(pipe, other)()
    pipe.close()


def test_reset_does_nothing_before_the_end() -> None:
    pipe = pipe_of([batch(0), batch(1), batch(2)], cycle="raise", pipeline={"prefetch_queue_depth": 1})
    pipe.reset()
    assert run(pipe, 1) == [ZERO]
    pipe.reset()
    assert run(pipe, 3) == [ONE, TWO, E]
    pipe.close()


def test_batches_in_flight_come_before_the_next_epoch() -> None:
    pipe = pipe_of([batch(0), batch(1), batch(2)], cycle="raise", pipeline={"prefetch_queue_depth": 4})
    assert run(pipe, 1) == [ZERO]
    assert not pipe.empty()
    pipe.reset()
    assert run(pipe, 6) == [ONE, TWO, ZERO, ONE, TWO, E]
    pipe.close()


def test_random_numbers_differ_between_epochs_and_repeat_with_the_seed() -> None:
    def epochs() -> list[Any]:
        with Pipeline(batch_size=3, num_threads=1, device_id=None, seed=3) as pipe:
            pipe.set_outputs(fn.external_source([batch(0)], cycle="raise") * 0.0 + fn.random.uniform())
        outputs = []
        for _ in range(3):
            outputs.append(run(pipe, 2)[0])
            pipe.reset()
        pipe.close()
        return outputs

    first = epochs()
    assert first == epochs()
    assert len({tuple(epoch[0]) for epoch in first}) == 3


class Feeding(Pipeline):
    """A pipeline in the old style: `iter_setup` feeds its input."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(batch_size=3, num_threads=1, device_id=None, **arguments)
        self.number = 0
        self.asked = 0

    def define_graph(self) -> Any:
        self.input = fn.external_source()
        return self.input

    def iter_setup(self) -> None:
        self.asked += 1
        if self.number == 3:
            raise StopIteration
        self.feed_input(self.input, batch(self.number))
        self.number += 1


@pytest.mark.parametrize(("depth", "asked"), [(1, 2), (2, 3), (3, 4)])
def test_iter_setup_is_called_before_each_batch(depth: int, asked: int) -> None:
    pipe = Feeding(prefetch_queue_depth=depth)
    assert run(pipe, 2) == [ZERO, ONE]
    assert pipe.asked == asked
    assert run(pipe, 3) == [TWO, E, E]
    pipe.number = 0
    pipe.reset()
    assert run(pipe, 4) == [ZERO, ONE, TWO, E]
    pipe.close()


def test_error_in_iter_setup_belongs_to_its_batch() -> None:
    class Failing(Feeding):
        def iter_setup(self) -> None:
            super().iter_setup()
            if self.number == 2:
                raise ZeroDivisionError("on purpose")

    pipe = Failing()
    assert run(pipe, 1) == [ZERO]
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        pipe.run()
    pipe.close()


def test_last_batch_is_repeated_on_request() -> None:
    with Pipeline(batch_size=3, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.external_source(name="x", repeat_last=True) + fn.external_source(name="y"))
    with pytest.raises(errors.MissingInputError, match="'x'"):
        pipe.run(y=batch(1))
    assert values(pipe.run(x=batch(10))) == [[11, 11, 11]]
    assert values(pipe.run(y=batch(2))) == [[12, 12, 12]]
    assert values(pipe.run(y=batch(3), x=batch(20))) == [[23, 23, 23]]
    with pytest.raises(errors.MissingInputError, match="'y'"):
        pipe.run()
    pipe.close()
    pipe = fed(repeat_last=True)
    pipe.feed_input("x", batch(1))
    assert run(pipe, 3) == [ONE, ONE, ONE]
    assert values(pipe.run(x=batch(2))) == TWO, "fed data comes immediately, not after repetitions"
    pipe.close()


@pytest.mark.parametrize("scheduled", [False, True])
def test_blocking_input_waits_until_another_thread_feeds_it(scheduled: bool) -> None:
    pipe = fed(blocking=True)
    pipe.build()
    waiting = threading.Event()

    def feed() -> None:
        waiting.wait()
        pipe.feed_input("x", batch(1))

    thread = threading.Thread(target=feed)
    thread.start()
    if scheduled:
        pipe.schedule_run()
    waiting.set()
    assert values(pipe.share_outputs() if scheduled else pipe.run()) == ONE
    thread.join()
    pipe.close()


def test_closing_wakes_threads_that_wait_for_data() -> None:
    pipe = fed(blocking=True)
    pipe.build()
    timer = threading.Timer(0.05, pipe.close)
    timer.start()
    with pytest.raises(errors.PipelineError, match="closed"):  # while it waited, or before, if this thread is late
        pipe.run()
    timer.join()


def test_data_that_is_not_copied_is_read_in_place() -> None:
    data = batch(1)
    pipe = fed(no_copy=True)
    (output,) = pipe.run(x=data)
    assert np.shares_memory(output.as_array(), data)
    pipe.close()


def test_dtype_may_change_unless_declared() -> None:
    pipe = fed(dtype=types.NO_TYPE)
    assert pipe.run(x=batch(0).astype(np.uint8))[0].dtype == types.UINT8
    assert pipe.run(x=batch(0))[0].dtype == types.INT32
    pipe.close()


@pytest.mark.parametrize("debug", [False, True])
def test_forked_child_needs_a_pipeline_of_its_own(jpeg_folder: Path, debug: bool) -> None:
    @pipeline_def(batch_size=2, num_threads=2, device_id=None, debug=debug)
    def images() -> Any:
        encoded, _ = fn.readers.file(file_root=str(jpeg_folder))
        return fn.decoders.image(encoded)

    def use(into: Any) -> None:
        try:
            inherited.run()
        except errors.PipelineError as error:
            into.send(str(error))
        into.send(np.array(images().run()[0].at(0)))

    inherited = images()
    first = np.array(inherited.run()[0].at(0))
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=use, args=(there,))
    child.start()
    try:
        assert here.poll(PATIENCE_S)
        assert f"built in process {os.getpid()}, and a forked child doesn't have its threads" in here.recv()
        assert here.poll(PATIENCE_S)
        np.testing.assert_array_equal(here.recv(), first)
    finally:
        child.kill()
        child.join()
