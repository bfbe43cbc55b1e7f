"""Threads that run one function for every sample of a batch."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from pipeline._concurrency.cost import Cost, charge, spent
from pipeline._concurrency.locks import Level, new_lock, new_rlock

__all__ = ["Job", "ThreadPool"]

Task = Callable[[int], None]


class Job:
    """The tasks 0 .. count-1 of one call. Each index is drawn by one thread; the last one done sets `done`."""

    __slots__ = ("_cost", "count", "done", "draw", "errors", "left", "lock", "task")

    def __init__(self, task: Task, count: int) -> None:
        self.task = task
        self.count = count
        self.draw = itertools.count().__next__  # atomic under the GIL
        self.lock = new_lock(Level.LEAF, "job")
        self.left = count  # invariant: tasks not finished; only changed under the lock
        self.errors: list[tuple[int, BaseException]] = []
        self.done = threading.Event()
        self._cost = Cost()

    def finish(self, count: int, cost: Cost) -> None:
        """Take note that a thread has done so many tasks, and what they cost it."""
        with self.lock:
            self._cost = self._cost.plus(cost)
            self.left -= count
            if self.left == 0:
                self.done.set()

    def wait(self) -> list[tuple[int, BaseException]]:
        """Wait until all tasks are done; return the exceptions that they raised, each with its index, sorted.

        The calling thread is charged for the tasks, and not for its waiting.
        """
        begin = time.perf_counter_ns()
        self.done.wait()
        with self.lock:
            cost, self._cost = self._cost, Cost()
        charge(cost, waited=time.perf_counter_ns() - begin)
        return sorted(self.errors, key=lambda error: error[0])


class ThreadPool:
    """A fixed number of threads. Several callers may share it: whoever came first is served first.

    Args:
        num_threads: how many threads.
        name: prefix of the threads' names.
        affinity: cores to bind the threads to, one each in turn; empty for none.

    Example:
        >>> with ThreadPool(2, "doc") as pool:
        ...     results = [0] * 3
        ...     errors = pool.run(lambda index: results.__setitem__(index, index * index), 3)
        >>> results, errors
        ([0, 1, 4], [])
    """

    def __init__(self, num_threads: int, name: str, affinity: Sequence[int] = ()) -> None:
        self._jobs: deque[Job] = deque()
        self._wake = threading.Condition(new_rlock(Level.LEAF, "thread pool"))
        self._closed = False
        self._threads: list[threading.Thread] = []  # those that were started
        try:
            for index in range(num_threads):
                core = affinity[index % len(affinity)] if affinity else None
                thread = threading.Thread(target=self._work, args=(core,), name=f"{name}-{index}", daemon=True)
                thread.start()
                self._threads.append(thread)
        except BaseException:
            self.close()
            raise

    def run(self, task: Task, count: int) -> list[tuple[int, BaseException]]:
        """Call ``task(index)`` for every index below `count`; return when all are done.

        Returns:
            The exceptions that tasks raised, each with its index, sorted.
        """
        return self.start(task, count).wait()

    def start(self, task: Task, count: int) -> Job:
        """Do as `run`, and return at once: the job is to be waited for."""
        job = Job(task, count)
        if count == 0:
            job.done.set()
            return job
        with self._wake:
            if self._closed:
                raise RuntimeError("the thread pool is closed")
            self._jobs.append(job)
            self._wake.notify(count)
        return job

    def run_ranges(self, task: Callable[[int, int], None], count: int, step: int) -> None:
        """Call ``task(begin, end)`` for ranges of up to `step` indices that cover all below `count`.

        Raises:
            BaseException: what the first range that failed raised; all were tried.
        """
        errors = self.start_ranges(task, count, step).wait()
        if errors:
            raise errors[0][1]

    def start_ranges(self, task: Callable[[int, int], None], count: int, step: int) -> Job:
        """Do as `run_ranges`, and return at once: the job is to be waited for, errors have numbers of ranges."""
        return self.start(lambda number: task(number * step, min(count, number * step + step)), -(-count // step))

    @property
    def num_threads(self) -> int:
        """How many threads it has."""
        return len(self._threads)

    @property
    def busy(self) -> bool:
        """Whether there is work that no thread has begun."""
        return bool(self._jobs)

    def close(self) -> None:
        """Finish the jobs that were begun, then end the threads."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _work(self, core: int | None) -> None:
        if core is not None and hasattr(os, "sched_setaffinity"):
            with suppress(OSError):  # the core was taken from this process meanwhile: any other one will do
                os.sched_setaffinity(0, {core})
        while True:
            job = self._next_job()
            if job is None:
                return
            finished = 0
            begin = spent()
            while (index := job.draw()) < job.count:
                try:
                    job.task(index)
                except BaseException as error:  # noqa: BLE001 - a task's error belongs to whoever called run()
                    with job.lock:
                        job.errors.append((index, error))
                finished += 1
            cost = spent().minus(begin)
            self._retire(job)
            if finished:
                job.finish(finished, cost)
            del job  # with the memory that its task has, which a thread without work would keep

    def _next_job(self) -> Job | None:
        with self._wake:
            while not self._jobs:
                if self._closed:
                    return None
                self._wake.wait()
            return self._jobs[0]

    def _retire(self, job: Job) -> None:
        """Take a job whose indices are all drawn from the queue, so that threads go on to the next."""
        with self._wake:
            if self._jobs and self._jobs[0] is job:
                self._jobs.popleft()
