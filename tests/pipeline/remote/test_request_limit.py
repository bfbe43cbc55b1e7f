"""The number of requests to a store at once, with simulated stores and time."""

from __future__ import annotations

import errno
import heapq
import random
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from dali_proxy.pipeline._remote.request_limit import MOST_REQUESTS, RequestLimit, limit_of
from tests.waiting import wait_until

MS = 0.001


class Refused(Exception):
    status = 503


def simulate(answer: Callable[[int], float], wanted: int = MOST_REQUESTS, count: int = 20_000, refused: int = 0) -> Any:
    """Send requests to a simulated store, and return the limit and the answers per second.

    Args:
        answer: returns the seconds of an answer from the number of requests at once.
        wanted: largest number of requests at once that are wanted.
        count: number of requests.
        refused: number of requests at once from which on the store refuses them; 0 for none.
    """
    now = [0.0]
    limit, random_ = RequestLimit(lambda: now[0]), random.Random(1)
    sent: list[tuple[float, int, Any, bool]] = []
    answered = 0
    for number in range(count):
        while len(sent) < min(wanted, limit.value):
            request = limit.request()
            request.__enter__()
            seconds = answer(len(sent) + 1) * random_.uniform(0.8, 1.2)
            heapq.heappush(sent, (now[0] + seconds, random_.getrandbits(60), request, 0 < refused <= len(sent)))
        now[0], _, request, fails = heapq.heappop(sent)
        if fails or random_.random() < 0.05:
            error = Refused() if fails else OSError("5 % of the requests fail")
            request.__exit__(type(error), error, None)
        else:
            request.__exit__(None, None, None)
            answered += number >= count // 2
        if number == count // 2:
            begin = now[0]
    return limit.value, answered / (now[0] - begin)


def test_limit_grows_while_answers_come_as_fast() -> None:
    value, rate = simulate(lambda at_once: 50 * MS)
    assert value == MOST_REQUESTS
    assert rate > 0.9 * MOST_REQUESTS / (50 * MS)


@pytest.mark.parametrize("capacity", [8, 32, 64])
def test_limit_stays_where_requests_begin_to_queue(capacity: int) -> None:
    value, rate = simulate(lambda at_once: 50 * MS * max(1.0, at_once / capacity))
    assert capacity / 2 < value < 3.5 * capacity
    assert rate > 0.85 * capacity / (50 * MS)


def test_limit_does_not_grow_if_fewer_requests_are_wanted() -> None:
    assert simulate(lambda at_once: 50 * MS, wanted=10)[0] == 16


def test_limit_shrinks_if_the_store_refuses_requests() -> None:
    value, rate = simulate(lambda at_once: 50 * MS, refused=12)
    assert value < 24
    assert rate > 0.5 * 12 / (50 * MS)


def test_limit_stays_though_the_store_refuses_all_requests_of_a_look() -> None:
    now = [0.0]
    limit, sent = RequestLimit(lambda: now[0]), deque[Any]()

    def answer(refuses: bool = False) -> None:
        while len(sent) < limit.value:
            sent.append(limit.request())
            sent[-1].__enter__()
        now[0] += 50 * MS / limit.value
        sent.popleft().__exit__(*((Refused, Refused(), None) if refuses else (None, None, None)))

    for value in (MOST_REQUESTS, MOST_REQUESTS // 2):  # the second one is that of a look
        while limit.value != value:
            answer()
    for _ in range(2 * MOST_REQUESTS):
        answer(refuses=True)
    for _ in range(20 * MOST_REQUESTS):
        answer()
        assert limit.value > MOST_REQUESTS // 4


def test_limit_follows_a_store_that_becomes_slower_for_good() -> None:
    times = iter([50 * MS] * 10_000)
    value, _ = simulate(lambda at_once: next(times, 150 * MS))
    assert value > 80


@pytest.mark.parametrize("error", [Refused(), OSError(errno.EBUSY, "SlowDown")])
def test_refusals_in_the_words_of_each_store(error: Exception) -> None:
    limit = RequestLimit()
    for _ in range(64):
        with pytest.raises(type(error)), limit.request():
            raise error
    assert limit.value < 8


def test_requests_over_the_limit_wait_for_their_turn() -> None:
    limit, gate = RequestLimit(), threading.Semaphore(0)
    limit.value = 2
    running: list[int] = []

    def send() -> None:
        with limit.request():
            running.append(1)
            gate.acquire()

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(running) == 2 and len(limit._waiting) == 2)
    gate.release()
    wait_until(lambda: len(running) == 3)
    gate.release(3)
    for thread in threads:
        thread.join()
    assert limit._sent == 0


def test_waiting_request_that_a_signal_interrupts_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        def get(self) -> None:
            limit._leave(0.0, True, False)  # the other request ends at the same moment
            raise KeyboardInterrupt

        def put(self, item: None) -> None:
            pass

    limit = RequestLimit()
    limit.value = 1
    limit._enter(urgent=False)
    monkeypatch.setattr("dali_proxy.pipeline._remote.request_limit.queue.SimpleQueue", Interrupted)
    with pytest.raises(KeyboardInterrupt), limit.request():
        pass
    assert limit._sent == 0


def test_stores_have_limits_of_their_own() -> None:
    assert limit_of("https://a.org/x/1.jpg") is limit_of("https://a.org/y/2.jpg")
    assert limit_of("https://a.org/x") is not limit_of("https://b.org/x")
    assert limit_of("s3://bucket/x") is not limit_of("s3://other/x")
