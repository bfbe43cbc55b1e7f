"""Calls that wait for their turn are made as one, in order, and fail by themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pipeline.codecs.joined_calls import JoinedCalls
from tests.waiting import wait_until


class Made:
    """Notes what is made together; the first call of all is held until somebody lets it go."""

    def __init__(self, refuse: Callable[[Sequence[Any]], bool] = lambda calls: False) -> None:
        self.together: list[list[Any]] = []
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.refuse = refuse

    def __call__(self, calls: list[Any]) -> None:
        self.begun.set()
        assert self.go_on.wait(60)
        if self.refuse(calls):
            raise ValueError(f"no {calls}")
        self.together.append(calls)


def call_all(
    made: Made, calls: Sequence[Any], fit: Callable[[Sequence[Any]], bool] = lambda calls: True
) -> dict[Any, BaseException]:
    """Makes the first call, has the others wait behind it in order, and lets it go on; gives what was raised."""
    joined = JoinedCalls(threading.Lock(), made, fit)
    errors: dict[Any, BaseException] = {}

    def call(what: Any) -> None:
        try:
            joined(what)
        except ValueError as error:
            errors[what] = error

    threads = [threading.Thread(target=call, args=(what,)) for what in calls]
    threads[0].start()
    assert made.begun.wait(60)
    for number, thread in enumerate(threads[1:], 1):
        thread.start()
        wait_until(lambda number=number: len(joined._waiting) == number)  # type: ignore[misc]
    made.go_on.set()
    for thread in threads:
        thread.join(60)
    assert not joined._waiting
    return errors


def test_those_that_wait_are_made_as_one() -> None:
    made = Made()
    assert call_all(made, "abcd") == {}
    assert made.together == [["a"], ["b", "c", "d"]]


def test_only_as_many_as_fit() -> None:
    made = Made()
    call_all(made, [1, 2, 3, 4, 9, 1], fit=lambda calls: sum(calls) <= 5)
    assert made.together == [[1], [2, 3], [4], [9], [1]]


def test_one_that_fails_fails_alone() -> None:
    made = Made(refuse=lambda calls: "c" in calls)
    errors = call_all(made, "abcd")
    assert made.together == [["a"], ["b"], ["d"]]
    assert {what: str(error) for what, error in errors.items()} == {"c": "no ['c']"}


def test_the_turn_is_shared_by_several() -> None:
    turn, order = threading.Lock(), list[list[int]]()
    first, second = (JoinedCalls(turn, order.append, lambda calls: True) for _ in range(2))
    with turn:
        threads = [threading.Thread(target=one, args=(number,)) for number, one in enumerate((first, second))]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(first._waiting) == len(second._waiting) == 1)
    for thread in threads:
        thread.join(60)
    assert sorted(order) == [[0], [1]]


def test_an_interrupt_reaches_whoever_is_interrupted() -> None:
    def interrupted(calls: list[str]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        JoinedCalls(threading.Lock(), interrupted, lambda calls: True)("a")
