"""The same scripts with NVIDIA DALI: results, the number of calls of each source, and the end of the data."""

from __future__ import annotations

import functools
import importlib
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pipeline.external_source.sources import Counting, Restarting, batch, numbered, run, two_batches, values
from tests.thorough import thorough_except

pytestmark = pytest.mark.parity

LIBRARIES = ("nvidia.dali", "pipeline")


class Library:
    """One of the two libraries: creates pipelines."""

    def __init__(self, name: str) -> None:
        self.dali = importlib.import_module(name)
        self.fn = importlib.import_module(f"{name}.fn")
        self.pipes: list[Any] = []

    def make(self, define: Callable[[Any], Any], **arguments: Any) -> Any:
        given = {"batch_size": 3, "num_threads": 1, "device_id": None, **arguments}
        pipe = self.dali.Pipeline(**given)
        with pipe:
            made = define(self.fn)
            pipe.set_outputs(*(made if isinstance(made, list | tuple) else (made,)))
        pipe.build()
        self.pipes.append(pipe)
        return pipe

    def close(self) -> None:
        for pipe in self.pipes:
            if hasattr(pipe, "close"):
                pipe.close()


def compare(script: Callable[[Library], Any]) -> None:
    """Run a script with both libraries: it must return the same results, or raise the type that DALI raises."""
    results = []
    for name in LIBRARIES:
        library = Library(name)
        try:
            results.append(script(library))
        finally:
            library.close()
    assert results[1] == results[0]


def raised(call: Callable[[], Any]) -> type[BaseException] | None:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - every exception is compared
        return type(error)
    return None


@pytest.mark.combinations
@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("cycle", [None, "no", "quiet", "raise", True, False])
@pytest.mark.parametrize(
    "source",
    [
        lambda: [batch(0), batch(1), batch(2)],
        lambda: two_batches,
        Counting,
        Restarting,
        lambda: np.stack([batch(0), batch(1)]),
    ],
    ids=["list", "generator function", "iterator class", "iterator that restarts", "array"],
)
def test_iterables(source: Callable[[], Any], cycle: Any, depth: int) -> None:
    def script(library: Library) -> Any:
        pipe = library.make(lambda fn: fn.external_source(source(), cycle=cycle), prefetch_queue_depth=depth)
        made = run(pipe, 5)
        pipe.reset()
        made += run(pipe, 1)
        pipe.reset()
        return made + run(pipe, 4)

    compare(script)


@pytest.mark.parametrize("cycle", [None, "quiet", "raise"])
def test_iterables_of_samples(cycle: Any) -> None:
    def script(library: Library) -> Any:
        items = [np.int32([number]) for number in range(7)]
        pipe = library.make(lambda fn: fn.external_source(items, batch=False, cycle=cycle))
        made = run(pipe, 4)
        pipe.reset()
        return made + run(pipe, 4)

    compare(script)


@pytest.mark.parametrize("pipelined", [True, False])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_arguments_and_number_of_calls(depth: int, pipelined: bool) -> None:
    arguments = {"prefetch_queue_depth": depth, "exec_pipelined": pipelined, "exec_async": pipelined}

    def script(library: Library) -> Any:
        results: dict[str, list[Any]] = {"samples": [], "batches": [], "numbers": []}

        def of_samples(info: Any) -> Any:
            results["samples"].append((info.idx_in_epoch, info.idx_in_batch, info.iteration, info.epoch_idx))
            return numbered(info)

        def of_batches(info: Any) -> Any:
            results["batches"].append((info.iteration, info.epoch_idx))
            return batch(info.iteration)

        def by_number(iteration: int) -> Any:
            results["numbers"].append(iteration)
            return batch(iteration)

        pipe = library.make(
            lambda fn: [
                fn.external_source(of_samples, batch=False),
                fn.external_source(of_batches, batch_info=True),
                fn.external_source(by_number),
            ],
            **arguments,
        )
        made = run(pipe, 4)
        pipe.reset()
        return made, run(pipe, 3), results

    compare(script)


def test_several_outputs() -> None:
    def script(library: Library) -> Any:
        pipe = library.make(
            lambda fn: fn.external_source(
                lambda info: (np.full((2, 2), info.idx_in_epoch, np.uint8), np.float32([0.5])),
                num_outputs=2,
                batch=False,
                layout=["HW"],
            )
        )
        outputs = pipe.run()
        return values(outputs), [output.layout() for output in outputs], [int(output.dtype) for output in outputs]

    compare(script)


@pytest.mark.parametrize(
    "define",
    [
        lambda fn: fn.external_source(5),
        lambda fn: fn.external_source(lambda a, b: 0),
        lambda fn: fn.external_source(lambda *a: 0),
        lambda fn: fn.external_source(lambda: 0, cycle="raise"),
        lambda fn: fn.external_source([], cycle="often"),
        lambda fn: fn.external_source(two_batches(), cycle="raise"),
        lambda fn: fn.external_source(num_outputs=2),
        lambda fn: fn.external_source(cycle="raise"),
        lambda fn: fn.external_source(lambda: 0, num_outputs=2, name="x"),
        lambda fn: fn.external_source(lambda: 0, prefetch_queue_depth=2),
        lambda fn: fn.external_source(lambda i: 0, parallel=True, prefetch_queue_depth=0),
        lambda fn: fn.external_source(lambda: 0, parallel=True, batch=True),
        lambda fn: fn.external_source([0], parallel=True, batch=False),
        lambda fn: fn.external_source(lambda i: 0, parallel=True, batch=False, no_copy=False),
    ],
)
def test_errors_at_the_call(define: Callable[[Any], Any]) -> None:
    dali, ours = (raised(functools.partial(Library(name).make, define)) for name in LIBRARIES)
    assert dali is not None
    assert ours is not None
    assert issubclass(ours, dali)


def test_errors_of_running() -> None:
    def script(library: Library, number: int) -> Any:
        sourced = library.make(lambda fn: fn.external_source([batch(0)], name="given"))
        fed = library.make(lambda fn: fn.external_source(name="x"))
        other = library.make(lambda fn: fn.external_source([batch(0), batch(1)]))
        bad = library.make(lambda fn: fn.external_source(lambda iteration: batch(0, 4)))
        failing = library.make(lambda fn: fn.external_source(lambda iteration: {}["image"]))
        few = library.make(lambda fn: fn.external_source(lambda: (batch(0),), num_outputs=2))
        nothing = library.make(lambda fn: fn.external_source(lambda: None, num_outputs=2))
        calls = [
            lambda: sourced.feed_input("given", batch(0)),
            lambda: fed.feed_input("y", batch(0)),
            lambda: fed.feed_input(5, batch(0)),
            fed.run,
            other.share_outputs,
            bad.run,
            failing.run,
            few.run,
            nothing.run,
        ]
        return raised(calls[number])

    for number in range(9):
        dali, ours = (script(Library(name), number) for name in LIBRARIES)
        assert issubclass(ours, dali), number


def test_scheduling() -> None:
    def script(library: Library) -> Any:
        asked: list[int] = []

        def source(iteration: int) -> Any:
            asked.append(iteration)
            if iteration == 4:
                raise StopIteration
            return batch(iteration)

        pipe = library.make(lambda fn: fn.external_source(source))
        results: list[Any] = []
        for scheduled in (1, 1, 2, 2):
            for _ in range(scheduled):
                pipe.schedule_run()
            results.append(len(asked))
            for _ in range(scheduled):
                try:
                    results.append(values(pipe.share_outputs()))
                    pipe.release_outputs()
                except StopIteration:
                    results.append("end")
        pipe.reset()
        pipe.schedule_run()
        return results, values(pipe.share_outputs()), pipe.empty()

    compare(script)


def test_iter_setup() -> None:
    def script(library: Library) -> Any:
        class Feeding(library.dali.Pipeline):  # type: ignore[misc, name-defined]
            number = 0

            def define_graph(self) -> Any:
                self.input = library.fn.external_source(name="x")
                return self.input

            def iter_setup(self) -> None:
                if self.number % 4 == 3:
                    self.number += 1
                    raise StopIteration
                self.feed_input(self.input, batch(self.number))
                self.number += 1

        pipe = Feeding(3, 1, None)
        pipe.build()
        library.pipes.append(pipe)
        made = run(pipe, 5)
        pipe.reset()
        return made, run(pipe, 5), pipe.number

    compare(script)


PARALLEL = """
import pickle, sys
sys.path.insert(0, {root!r})
from tests.pipeline.external_source.test_parity import Library, parallel_script
library = Library({name!r})
sys.stdout.buffer.write(pickle.dumps(parallel_script(library, {workers}, {depth})))
library.close()
"""


def parallel_script(library: Library, workers: int, depth: int) -> Any:
    pipe = library.make(
        lambda fn: [
            fn.external_source(numbered, batch=False, parallel=True, prefetch_queue_depth=depth),
            fn.external_source(lambda i: [np.int32([i])] * 3, batch=True, parallel=True),
            fn.external_source(
                [[np.int32([n])] * 3 for n in range(2)],
                batch=True,
                cycle="quiet",
                parallel=True,
                prefetch_queue_depth=depth,
            ),
        ],
        py_num_workers=workers,
    )
    made = run(pipe, 3)
    pipe.reset()
    return made, run(pipe, 3)


@pytest.mark.parametrize(("workers", "depth"), thorough_except([(1, 1), (2, 3)], (2, 3)))
def test_parallel_sources(workers: int, depth: int) -> None:
    results = []
    for name in LIBRARIES:  # in a separate process: DALI forks, and this one has threads
        root = str(Path(__file__).resolve().parents[3])
        program = PARALLEL.format(root=root, name=name, workers=workers, depth=depth)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=150, check=True)
        results.append(pickle.loads(done.stdout))
    assert results[0] == results[1]
