from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import importlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from dali_proxy.pipeline._external_source.parallel.source import chunk_bounds
from pipeline import Pipeline, errors, fn, types
from tests.pipeline.external_source import sources
from tests.pipeline.external_source.sources import (
    Counting,
    Restarting,
    batch,
    new_children,
    numbered,
    pipe_of,
    run,
    two_batches,
    values,
)
from tests.waiting import wait_until

E = "end"
ZERO, ONE, TWO = [[0, 0, 0]], [[1, 1, 1]], [[2, 2, 2]]
FORK = {"py_num_workers": 2, "py_start_method": "fork"}
SPAWN = {"py_num_workers": 1, "py_start_method": "spawn"}


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("depth", [1, 4])
def test_order_and_contents_do_not_depend_on_the_workers(workers: int, depth: int) -> None:
    def source(info: types.SampleInfo) -> Any:
        if info.idx_in_epoch >= 40:
            raise StopIteration
        time.sleep(0.002 * (info.idx_in_epoch % 3 == 0))  # some samples are slow, so that workers overtake each other
        return np.full(info.idx_in_epoch % 5, info.idx_in_epoch + 100 * info.epoch_idx, np.int32)

    pipe = pipe_of(
        source,
        parallel=True,
        prefetch_queue_depth=depth,
        pipeline={"batch_size": 8, "py_num_workers": workers},
    )
    for epoch in range(2):
        for iteration in range(5):
            (output,) = pipe.run()
            numbers = range(8 * iteration, 8 * iteration + 8)
            assert [np.asarray(sample).tolist() for sample in output] == [
                [number + 100 * epoch] * (number % 5) for number in numbers
            ]
        with pytest.raises(StopIteration):
            pipe.run()
        pipe.reset()
    pipe.close()


@pytest.mark.parametrize("method", [FORK, SPAWN], ids=["fork", "spawn"])
def test_samples_epochs_and_processes(method: dict[str, Any]) -> None:
    pipe = pipe_of(lambda info: (numbered(info), np.int64(os.getpid())), num_outputs=2, parallel=True, pipeline=method)
    for epoch in range(2):
        for iteration in range(2):
            numbers, pids = pipe.run()
            assert values([numbers]) == [[100 * epoch + 3 * iteration + n for n in range(3)]]
            assert os.getpid() not in set(pids.as_array().tolist())
        assert run(pipe, 1) == [E]
        pipe.reset()
    pipe.close()


def test_batches_are_computed_in_parallel() -> None:
    together = multiprocessing.get_context("fork").Barrier(2)

    def source(info: types.BatchInfo) -> Any:
        if info.iteration == 3:
            raise StopIteration
        if info.iteration < 2:
            together.wait(60)  # both end only after the other has begun
        return [np.full(n, info.iteration, np.int32) for n in range(1, 4)], np.full((3, 1), os.getpid())

    pipe = pipe_of(
        source, num_outputs=2, batch=True, batch_info=True, parallel=True, prefetch_queue_depth=3, pipeline=FORK
    )
    pids = set()
    for iteration in range(3):
        ragged, by = pipe.run()
        assert ragged.shape() == [(1,), (2,), (3,)]
        assert {int(np.asarray(sample)[0]) for sample in ragged} == {iteration}
        assert by.dense is not None, "a dense batch arrives as one array"
        pids |= set(by.as_array().ravel().tolist())
    assert len(pids) == 2
    pipe.close()


@pytest.mark.combinations
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize(
    ("source", "cycle", "expected", "after_reset"),
    [
        ([batch(0), batch(1)], None, [ZERO, ONE, E, E], [E, E, E]),
        ([batch(0), batch(1)], "raise", [ZERO, ONE, E, E], [ZERO, ONE, E]),
        ([batch(0), batch(1)], "quiet", [ZERO, ONE, ZERO, ONE], [ZERO, ONE, ZERO]),
        (two_batches, "raise", [ZERO, ONE, E, E], [ZERO, ONE, E]),
        (Counting(), "raise", [ONE, TWO, E, E], [ONE, TWO, E]),
        (Restarting(), None, [ONE, TWO, E, E], [ONE, TWO, E]),
    ],
)
def test_iterable_is_read_by_one_worker(source: Any, cycle: Any, expected: Any, after_reset: Any, depth: int) -> None:
    pipe = pipe_of(source, cycle=cycle, batch=True, parallel=True, prefetch_queue_depth=depth, pipeline=FORK)
    assert run(pipe, 4) == expected
    pipe.reset()
    assert run(pipe, 3) == after_reset
    pipe.close()


def test_several_sources_share_the_workers_and_stay_in_step() -> None:
    with Pipeline(batch_size=3, num_threads=1, device_id=None, **FORK) as pipe:
        pipe.set_outputs(
            fn.external_source(numbered, batch=False, parallel=True),
            fn.external_source([batch(0), batch(1), batch(2)], batch=True, cycle="raise", parallel=True),
            fn.external_source(lambda iteration: batch(iteration)),
        )
    for epoch in range(2):
        first = [[100 * epoch + 3 * iteration + n for n in range(3)] for iteration in range(2)]
        assert run(pipe, 3) == [[first[0], *ZERO, *ZERO], [first[1], *ONE, *ONE], E]
        pipe.reset()
    pipe.close()


def test_outputs_stay_unchanged_while_they_are_held() -> None:
    def source(info: types.SampleInfo) -> Any:
        return np.full((100, 100), info.idx_in_epoch, np.int32)

    pipe = pipe_of(source, parallel=True, prefetch_queue_depth=2, pipeline=FORK)
    held = [pipe.run()[0] for _ in range(30)]
    del held[1::2]  # the memory is returned in any order
    held += [pipe.run()[0] for _ in range(10)]
    iterations = [*range(0, 30, 2), *range(30, 40)]
    for iteration, output in zip(iterations, held, strict=True):
        assert [(int(sample.min()), int(sample.max())) for sample in output.samples] == [
            (3 * iteration + n, 3 * iteration + n) for n in range(3)
        ]
    pipe.close()
    assert int(np.asarray(held[-1][2]).max()) == 119, "after the pipeline, too"


def test_shared_memory_is_reused() -> None:
    def source(info: types.SampleInfo) -> Any:
        return np.zeros((256, 256), np.int32)

    pipe = pipe_of(source, parallel=True, pipeline=FORK)
    run_quietly(pipe, 5)
    before = shared_bytes()
    run_quietly(pipe, 100)  # 75 MB
    assert shared_bytes() <= before + (8 << 20)
    pipe.close()


def shared_bytes() -> int:
    """Return the bytes of memfds that this process has mapped."""
    total = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "/memfd:" in line:
            begin, _, end = line.partition(" ")[0].partition("-")
            total += int(end, 16) - int(begin, 16)
    return total


def run_quietly(pipe: Pipeline, times: int) -> None:
    for _ in range(times):
        pipe.run()


class OwnError(Exception):
    """An error whose constructor needs further arguments."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(first, second)


@pytest.mark.parametrize("method", [FORK, SPAWN], ids=["fork", "spawn"])
def test_error_names_source_line_sample_and_worker_and_the_next_batches_arrive(method: dict[str, Any]) -> None:
    def broken(info: types.SampleInfo) -> Any:
        if info.idx_in_epoch in (4, 5):
            raise LookupError(f"no image {info.idx_in_epoch}")
        if info.idx_in_epoch == 7:
            raise OwnError(1, 2)
        return np.int32([info.idx_in_epoch])

    pipe = pipe_of(broken, parallel=True, prefetch_queue_depth=3, pipeline=method)
    assert run(pipe, 1) == [[[0, 1, 2]]]
    with pytest.raises(LookupError) as caught:
        pipe.run()
    error = caught.value
    assert isinstance(error, errors.SourceError)
    for words in (
        "LookupError: no image 4",
        "broken (",
        "SampleInfo(idx_in_epoch=4, idx_in_batch=1, ",
        "sources.py:",
    ):
        assert words in str(error)
    remote = str(error.__cause__)
    assert "parallel external sources" in remote
    assert 'raise LookupError(f"no image {info.idx_in_epoch}")' in remote
    with pytest.raises(errors.SourceError, match="OwnError"):
        pipe.run()
    assert run(pipe, 1) == [[[9, 10, 11]]]
    pipe.close()


@pytest.mark.parametrize("given", [None, "text", object()], ids=["None", "text", "object"])
def test_values_that_are_not_data_are_an_error(given: Any) -> None:
    pipe = pipe_of(lambda info: given, parallel=True, pipeline=FORK)
    with pytest.raises(errors.InputError, match="is not supported"):
        pipe.run()
    pipe.close()


BOTH = pytest.mark.parametrize("method", [FORK, SPAWN], ids=["fork", "spawn"])
KILLED = r"external_source.* worker \d \(pid \d+\) .* was killed by SIGKILL; it was reading: (?s:.*)sources.py:\d"


@BOTH
def test_source_that_kills_its_workers_costs_these_batches_only(method: dict[str, Any]) -> None:
    def source(info: types.SampleInfo) -> Any:
        if info.idx_in_epoch == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.int32([info.idx_in_epoch])

    pipe = pipe_of(source, parallel=True, pipeline=method)
    assert run(pipe, 2) == [[[0, 1, 2]], [[3, 4, 5]]]
    with pytest.raises(errors.WorkerError, match=KILLED):
        pipe.run()
    assert run(pipe, 2) == [[[9, 10, 11]], [[12, 13, 14]]]
    pipe.close()


@BOTH
def test_killed_worker_loses_no_batch(method: dict[str, Any]) -> None:
    pipe = pipe_of(numbered, batch=False, parallel=True, pipeline=method)
    before = psutil.Process().children()
    pipe.build()
    for epoch in range(3):
        numbers = 100 * epoch
        assert run(pipe, 1) == [[[numbers, numbers + 1, numbers + 2]]]
        kill_children(before)
        assert run(pipe, 2) == [[[numbers + 3, numbers + 4, numbers + 5]], E]
        pipe.reset()
    pipe.close()


def kill_children(before: list[psutil.Process]) -> None:
    for worker in new_children(before):
        with contextlib.suppress(psutil.NoSuchProcess):  # it was killed before, and has been joined
            worker.kill()


def test_worker_that_is_killed_while_it_is_idle_is_replaced_when_it_is_needed() -> None:
    pipe = pipe_of(numbered, batch=False, parallel=True, pipeline={"py_num_workers": 2, "exec_pipelined": False})
    before = psutil.Process().children()
    pipe.start_py_workers()
    first = new_children(before)
    for worker in first:
        worker.kill()
    assert run(pipe, 2) == [[[0, 1, 2]], [[3, 4, 5]]]
    assert not set(first) & set(new_children(before))
    pipe.close()


@pytest.mark.parametrize(
    ("source", "cycle", "epochs"),
    [
        (Counting, "no", [[ONE, TWO, E], [E, E, E]]),
        (Counting, "quiet", [[ONE, TWO, ONE], [TWO, ONE, TWO]]),
        (Counting, "raise", [[ONE, TWO, E], [ONE, TWO, E]]),
        (Restarting, "no", [[ONE, TWO, E], [ONE, TWO, E]]),
    ],
)
def test_iterable_resumes_at_the_item_of_its_killed_worker(source: Any, cycle: str, epochs: list[Any]) -> None:
    pipe = pipe_of(source, batch=True, parallel=True, cycle=cycle, pipeline=FORK)
    before = psutil.Process().children()
    for expected in epochs:
        made = []
        for _ in expected:
            made += run(pipe, 1)
            kill_children(before)
        assert made == expected
        pipe.reset()
    pipe.close()


EXITS = [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError]


@pytest.mark.parametrize("kind", EXITS)
def test_exit_that_a_source_raises_is_an_error_of_its_batch(kind: type[BaseException]) -> None:
    def source(info: types.SampleInfo) -> Any:
        if info.idx_in_epoch == 4:
            raise kind("enough")
        return np.int32([info.idx_in_epoch])

    pipe = pipe_of(source, parallel=True, pipeline=FORK)
    before = psutil.Process().children()
    assert run(pipe, 1) == [[[0, 1, 2]]]
    workers = new_children(before)
    with pytest.raises(errors.SourceError) as caught:
        pipe.run()
    for words in (f"{kind.__name__}: enough", "SampleInfo(idx_in_epoch=4, idx_in_batch=1, ", "sources.py:"):
        assert words in str(caught.value)
    assert run(pipe, 1) == [[[6, 7, 8]]]
    assert new_children(before) == workers
    pipe.close()


def test_exit_that_an_iterable_raises_is_an_error_of_its_batch() -> None:
    def source() -> Any:
        yield batch(0)
        sys.exit("enough")

    pipe = pipe_of(source, batch=True, parallel=True, pipeline=FORK)
    assert run(pipe, 1) == [ZERO]
    with pytest.raises(errors.SourceError, match="SystemExit: enough"):
        pipe.run()
    assert run(pipe, 1) == [E]
    pipe.close()


def test_workers_that_cannot_be_started_again_are_an_error_until_they_can(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = pipe_of(lambda info: np.int32([info.idx_in_epoch]), batch=False, parallel=True, pipeline=FORK)
    before = psutil.Process().children()
    assert run(pipe, 1) == [[[0, 1, 2]]]

    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, "no process is left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fork", refuse)
        kill_children(before)
        with pytest.raises(errors.WorkerError, match=r"could not be started again: .* no process is left"):
            run(pipe, 10)
    wait_until(lambda: succeeds(pipe), "a batch")  # the batches requested ahead failed, too
    (numbers,) = run(pipe, 1)[0]
    assert numbers == list(range(numbers[0], numbers[0] + 3))
    pipe.close()


def succeeds(pipe: Pipeline) -> bool:
    try:
        pipe.run()
    except errors.WorkerError:
        return False
    return True


def test_workers_that_are_interrupted_as_they_start_run_their_own_program(tmp_path: Path) -> None:
    def train() -> None:
        training = os.getpid()
        send_signal = ctypes.CDLL(None)["raise"]  # Python calls its handler after the hook
        os.register_at_fork(after_in_child=partial(send_signal, signal.SIGINT))
        try:
            with contextlib.closing(pipe_of(numbered, batch=False, parallel=True, pipeline=FORK)) as pipe:
                assert run(pipe, 1) == [[[0, 1, 2]]]
        finally:
            (tmp_path / ("the training" if os.getpid() == training else "a worker")).touch()
            if os.getpid() != training:
                os._exit(0)

    child = multiprocessing.get_context("fork").Process(target=train)
    child.start()
    child.join(60)
    assert child.exitcode == 0, "its traceback is above"
    assert [path.name for path in tmp_path.iterdir()] == ["the training"]


def test_closing_ends_workers_during_a_sample(tmp_path: Path) -> None:
    def source(info: types.BatchInfo) -> Any:
        if info.iteration > 0:
            (tmp_path / "begun").touch()
            time.sleep(60)
        return batch(0)

    pipe = pipe_of(
        source, batch=True, batch_info=True, parallel=True, pipeline={"py_num_workers": 1, "exec_pipelined": False}
    )
    before = psutil.Process().children()
    pipe.run()
    wait_until((tmp_path / "begun").exists)
    (worker,) = new_children(before)
    pipe.close()
    assert not worker.is_running()


def test_workers_end_when_the_pipeline_is_dropped() -> None:
    pipe = pipe_of(numbered, batch=False, parallel=True, pipeline=FORK)
    before = psutil.Process().children()
    pipe.run()
    workers = new_children(before)
    assert len(workers) == 2
    del pipe
    assert not any(worker.is_running() for worker in workers)


PROGRAM = """
import os, sys
sys.path.insert(0, {root!r})
import numpy as np
from pipeline import fn, pipeline_def

def source(info):
    return np.int64(os.getpid())

@pipeline_def(batch_size=8, num_threads=1, device_id=None, py_num_workers=2, py_start_method={method!r})
def graph():
    return fn.external_source(source, batch=False, parallel=True)

pipe = graph()
pids = set()
while len(pids) < 2:
    pids |= set(pipe.run()[0].as_array().tolist())
print(*pids, flush=True)
{end}
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("end", ["sys.stdin.read()", ""], ids=["killed", "ended"])
def test_workers_end_with_their_process_and_scripts_need_no_main_guard(method: str, end: str) -> None:
    root = str(Path(__file__).resolve().parents[3])
    program = PROGRAM.format(root=root, method=method, end=end)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        workers = [int(pid) for pid in process.stdout.readline().split()]
        assert len(workers) == 2
        if end:
            process.kill()
    assert process.returncode == (-signal.SIGKILL if end else 0)
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in workers))


def test_workers_can_be_started_before_the_pipeline_is_built() -> None:
    pipe = pipe_of(numbered, batch=False, parallel=True, pipeline=FORK)
    before = psutil.Process().children()
    pipe.start_py_workers()
    workers = new_children(before)
    assert len(workers) == 2
    pipe.start_py_workers()
    pipe.build()
    assert new_children(before) == workers
    assert run(pipe, 1) == [[[0, 1, 2]]]
    pipe.close()


def test_starting_workers_fixes_the_graph() -> None:
    class Derived(Pipeline):
        def define_graph(self) -> Any:
            return fn.external_source(numbered, batch=False, parallel=True)

    pipe = Derived(batch_size=3, num_threads=1, device_id=None, **FORK)
    pipe.start_py_workers()
    with pytest.raises(errors.GraphError, match="define_graph"):
        pipe.build(define_graph=lambda: fn.external_source(name="x"))
    pipe.close()


def test_unpicklable_source_is_an_error_of_spawned_workers() -> None:
    pipe = pipe_of((batch(n) for n in range(2)), batch=True, parallel=True, pipeline=SPAWN)
    with pytest.raises(errors.WorkerError, match="can't be pickled"):
        pipe.run()
    pipe.close()
    pipe = pipe_of((batch(n) for n in range(2)), batch=True, parallel=True, pipeline=FORK)
    assert run(pipe, 3) == [ZERO, ONE, E]
    pipe.close()


def test_spawned_workers_get_sources_through_the_users_pickler() -> None:
    for pickler, number in ((sources, 0), ((sources, {"secret": 5}), 5), ((sources, {"secret": 5}, {"offset": 2}), 7)):
        arguments = {**SPAWN, "py_callback_pickler": pickler}
        pipe = pipe_of(numbered, batch=False, parallel=True, pipeline=arguments)
        assert run(pipe, 1) == [[[number] * 3]]
        pipe.close()
    pipe = pipe_of(lambda info: info, batch=False, parallel=True, pipeline={**SPAWN, "py_callback_pickler": sources})
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
        pipe.build()


def test_source_that_a_spawned_worker_cannot_load_is_an_error_of_each_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    lines = ["import os", f"assert os.getpid() == {os.getpid()}", "def source(info): pass"]
    (tmp_path / "here_only.py").write_text("\n".join(lines))
    source = importlib.import_module("here_only").source
    pipe = pipe_of(source, batch=False, parallel=True, pipeline=SPAWN)
    for _ in range(2):
        with pytest.raises(errors.SourceError, match=r"can't be loaded in process \d+: AssertionError"):
            pipe.run()
    pipe.close()


def test_workers_are_not_started_without_need() -> None:
    for source, arguments in ((lambda: batch(0), {}), (lambda info: np.int32([0]), {"parallel": True, "batch": False})):
        pipe = pipe_of(source, **arguments, pipeline={"py_num_workers": 0})
        before = psutil.Process().children()
        pipe.run()
        assert new_children(before) == []
        pipe.close()


@pytest.mark.parametrize(
    ("size", "workers", "seconds", "ahead", "chunks"),
    [
        (64, 2, None, 0, 8),
        (64, 2, 1e-5, 0, 2),
        (64, 2, 1e-3, 0, 8),
        (64, 2, 5e-4, 0, 4),
        (3, 2, 1.0, 0, 3),
        (64, 1, None, 0, 1),
        (64, 2, 1e-3, 64, 1),
        (64, 2, 1e-3, 32, 2),
        (64, 2, 5e-3, 64, 4),
        (64, 2, None, 64, 8),
        (64, 16, 1e-3, 4, 16),
    ],
)
def test_chunks_of_cheap_samples_and_of_busy_processes_are_larger(
    size: int, workers: int, seconds: float | None, ahead: float, chunks: int
) -> None:
    bounds = chunk_bounds(size, workers, seconds, ahead)
    assert len(bounds) == chunks
    assert [sample for begin, end in bounds for sample in range(begin, end)] == list(range(size))
