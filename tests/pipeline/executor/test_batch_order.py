"""The user's functions get the batches one after another, in order, whichever thread runs them."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._executor.batch_order import BatchOrder
from pipeline import Pipeline, fn
from pipeline.errors import OperatorError
from tests import host_cupy
from tests.pipeline.kernels.emulator import COMPILER

BATCHES = 40
FAILS = 7


class Function:
    """A function with a state: the numbers of the batches that it gets. It fails for one of them."""

    def __init__(self, fails: int = -1) -> None:
        self.seen: list[int] = []
        self.at_once = self.most = 0
        self.fails = fails

    def __call__(self, image: Any) -> Any:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        number = int(getattr(image, "get", lambda: image)()[0, 0, 0])
        self.seen.append(number)
        time.sleep(0.0005)
        self.at_once -= 1
        if number == self.fails:
            raise ValueError(f"batch {number}")
        return image


def images() -> Iterator[list[Any]]:
    """Return batches of one image, those with even numbers much larger than the others."""
    for number in range(BATCHES):
        size = 4 if number % 2 else 800
        yield [np.full((size, size, 3), number, np.uint8)]


def run_all(pipe: Pipeline) -> list[int]:
    """Run a pipeline. Return the numbers of the batches, without those that fail."""
    pipe.build()
    found = []
    for _ in range(BATCHES):
        with suppress(OperatorError):
            found.append(int(pipe.run()[0].as_cpu().as_array()[0, 0, 0, 0]))
    pipe.close()
    return found


@pytest.mark.parametrize("fails", [-1, FAILS])
def test_function_on_the_cpu(fails: int) -> None:
    function = Function(fails)
    pipe = Pipeline(1, 2, None, prefetch_queue_depth=4)
    with pipe:
        source = fn.external_source(images(), layout="HWC")
        pipe.set_outputs(fn.python_function(fn.resize(source, size=(8, 8)), function=function))
    assert run_all(pipe) == [number for number in range(BATCHES) if number != fails]
    assert function.seen == list(range(BATCHES))
    assert function.most == 1


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
def test_functions_on_the_gpu_and_behind_it() -> None:
    first, second, third = Function(), Function(FAILS), Function()
    with host_cupy.installed():
        pipe = Pipeline(1, 2, 0, prefetch_queue_depth=4)
        with pipe:
            small = fn.resize(fn.external_source(images(), layout="HWC"), size=(8, 8))
            on_gpu = fn.python_function(small.gpu(), function=first, device="gpu")
            after = fn.python_function(fn.python_function(on_gpu.cpu(), function=second), function=third)
            pipe.set_outputs(after)
        assert run_all(pipe) == [number for number in range(BATCHES) if number != FAILS]
    assert first.seen == second.seen == list(range(BATCHES))
    assert third.seen == [number for number in range(BATCHES) if number != FAILS]
    assert max(each.most for each in (first, second, third)) == 1


def test_function_in_this_process_gets_the_batches_in_order_beside_one_in_others() -> None:
    function = Function()
    pipe = Pipeline(1, 2, None, prefetch_queue_depth=4, py_num_workers=2)
    with pipe:
        small = fn.resize(fn.external_source(images(), layout="HWC"), size=(8, 8))
        here = fn.python_function(small, function=function, parallel=False)
        pipe.set_outputs(here, fn.python_function(small, function=waiting, parallel=True))
    pipe.build()
    for _ in range(BATCHES):
        pipe.run()
    pipe.close()
    assert function.seen == list(range(BATCHES))
    assert function.most == 1


def test_functions_in_processes_run_at_once() -> None:
    pipe = Pipeline(1, 2, None, prefetch_queue_depth=4, py_num_workers=2)
    with pipe:
        source = fn.external_source(images(), layout="HWC")
        pipe.set_outputs(fn.python_function(fn.resize(source, size=(8, 8)), function=waiting, parallel=True))
    pipe.build()
    times = sorted(tuple(pipe.run()[0].as_array()[0]) for _ in range(10))
    pipe.close()
    assert any(end > begin for (_, end), (begin, _) in pairwise(times))


def waiting(image: Any) -> Any:
    begin = time.monotonic()
    time.sleep(0.02)
    return np.array([begin, time.monotonic()])


@pytest.mark.parametrize("seed", range(5))
def test_batches_enter_and_run_in_order(seed: int) -> None:
    order = BatchOrder()
    entered: list[int] = []
    ran: list[int] = []

    def run(numbers: list[int]) -> None:
        for number in numbers:
            if number % 5 == 0:
                order.end(number)
                continue
            order.enter(number, lambda number=number: entered.append(number))

    numbers = list(range(100))
    random.Random(seed).shuffle(numbers)
    threads = [threading.Thread(target=run, args=(numbers[part::4],)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [number for number in range(100) if number % 5]
    assert entered == expected

    def take_turn(number: int) -> None:
        order.wait_for_turn(number)
        ran.append(number)
        order.end_turn(number)

    threads = [threading.Thread(target=take_turn, args=(number,)) for number in reversed(expected)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ran == expected
