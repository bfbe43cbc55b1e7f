"""The number of batches in the executor follows from what further ones gain."""

from __future__ import annotations

from collections.abc import Callable

from dali_proxy.pipeline._executor.depth import Depth


class Executor:
    """Finishes batches at a rate that depends on the depth."""

    def __init__(self, rate: Callable[[int], float], merges: bool = False) -> None:
        self.rate = rate
        self.now = 1.0
        self.depth = Depth(3, 16, lambda value: None, merges, clock=lambda: self.now)
        self.largest = 3

    def run(self, count: int, limits: bool = True, nbytes: int = 1000) -> None:
        for _ in range(count):
            self.now += 1 / self.rate(self.depth.value)
            self.depth.finish(limits, nbytes)
            self.largest = max(self.largest, self.depth.value)


def test_depth_grows_while_that_is_faster() -> None:
    executor = Executor(lambda depth: 50.0 * min(depth, 9))
    executor.run(2000)
    assert executor.depth.value == 9
    assert "wasn't faster" in executor.depth.reason


def test_depth_begins_with_that_of_another_form() -> None:
    for begin, value in ((0, 3), (7, 7), (99, 16)):
        assert Depth(3, 16, lambda value: None, begin=begin).value == value


def test_depth_stays_where_more_gains_nothing() -> None:
    executor = Executor(lambda depth: 400.0)
    executor.run(2000)
    assert executor.depth.value == 3
    assert executor.largest == 4, "it was tried"


def test_depth_stays_where_the_executor_does_not_limit_the_speed() -> None:
    executor = Executor(lambda depth: 50.0 * depth)
    executor.run(2000, limits=False)
    assert executor.largest == 3
    assert executor.depth.reason == "prefetch_queue_depth"


def test_depth_that_gains_only_when_many_batches_merge_is_found() -> None:
    alone = Executor(lambda depth: 400.0 if depth < 8 else 1600.0)
    alone.run(2000)
    assert alone.depth.value == 3
    merging = Executor(alone.rate, merges=True)
    merging.run(2000)
    assert merging.depth.value == 16


def test_search_goes_on_if_a_few_results_are_taken_later() -> None:
    executor = Executor(lambda depth: 50.0 * depth)
    for _ in range(300):
        executor.run(4)
        executor.run(1, limits=False)
    assert executor.largest == 16


def test_large_batches_bound_the_depth() -> None:
    executor = Executor(lambda depth: 50.0 * depth)
    executor.run(2000, nbytes=50 << 20)
    assert executor.largest == 5
    executor.run(1, nbytes=200 << 20)
    assert executor.depth.value == 3
    assert executor.depth.reason == "memory"
