from __future__ import annotations

import threading

import pytest

from dali_proxy.pipeline._concurrency.thread_pool import ThreadPool


def test_indices_are_done_once() -> None:
    counts = [0] * 500
    with ThreadPool(4, "test") as pool:

        def task(index: int) -> None:
            counts[index] += 1

        assert pool.run(task, 500) == []
        assert pool.run(task, 0) == []
    assert counts == [1] * 500


def test_tasks_run_concurrently_on_all_threads() -> None:
    barrier = threading.Barrier(3)
    with ThreadPool(3, "test") as pool:
        assert pool.run(lambda _: barrier.wait(timeout=60) and None, 3) == []


def test_callers_share_the_threads_without_waiting_for_each_other() -> None:
    gate = threading.Event()
    done: list[str] = []
    with ThreadPool(2, "test") as pool:

        def first() -> None:
            pool.run(lambda _: gate.wait(60) and None, 1)
            done.append("first")

        thread = threading.Thread(target=first)
        thread.start()
        pool.run(lambda _: None, 10)  # ends although the first caller's task still waits
        done.append("second")
        gate.set()
        thread.join()
    assert done == ["second", "first"]


def test_errors_come_back_with_their_index_and_the_rest_is_done() -> None:
    seen: list[int] = []
    with ThreadPool(2, "test") as pool:

        def task(index: int) -> None:
            seen.append(index)
            if index % 3 == 1:
                raise ValueError(index)

        errors = pool.run(task, 8)
    assert [index for index, _ in errors] == [1, 4, 7]
    assert all(isinstance(error, ValueError) for _, error in errors)
    assert sorted(seen) == list(range(8))


def test_closed_pool_refuses_work() -> None:
    pool = ThreadPool(1, "test")
    pool.close()
    with pytest.raises(RuntimeError, match="closed"):
        pool.run(lambda _: None, 1)


def test_number_of_threads_changes_while_jobs_run() -> None:
    with ThreadPool(2, "dali-test") as pool:
        for count in (4, 1, 3):
            pool.resize(count)
            assert pool.num_threads == count
            barrier = threading.Barrier(count)  # breaks unless as many threads run at once
            assert pool.run(lambda _, barrier=barrier: barrier.wait(60) and None, count) == []  # type: ignore[misc]
        results = [0] * 1000
        job = pool.start(lambda index: results.__setitem__(index, index), 1000)
        pool.resize(1)
        job.join()
        assert results == [*range(1000)]


def test_pool_goes_on_with_its_threads_if_no_other_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadPool(1, "dali-test") as pool:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", lambda thread: (_ for _ in ()).throw(RuntimeError("no thread")))
            pool.resize(3)
        assert pool.num_threads == 1
        assert pool.run(lambda _: None, 5) == []
