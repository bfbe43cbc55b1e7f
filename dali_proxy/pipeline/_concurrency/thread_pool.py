"""A pool of threads that call a function for every sample of a batch."""

from __future__ import annotations

import itertools
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from dali_proxy.pipeline._closing import Closing
from dali_proxy.pipeline._concurrency.cost import NO_COST, Cost, charge, spent
from dali_proxy.pipeline._concurrency.interrupts import is_interrupt
from dali_proxy.pipeline._concurrency.locks import Level, new_lock

Task = Callable[[int], None]

# Seconds between checks of a job: a signal that arrives just before a wait doesn't end it.
_INTERVAL = 1.0


class Job:
    """The tasks 0 .. count-1 of one call. One thread draws each index.

    In contrast to `threading.Event`, no lock stays taken if a signal handler raises in a thread that waits for a job.

    Args:
        task: called with each index, or with the begin and the end of each range.
        count: number of tasks.
        lock: lock of the pool, for all its jobs. Only the pool's threads take it, so no signal handler runs meanwhile.
        step: size of the ranges; 0 for tasks that get an index.
        total: number of indices in all ranges.
    """

    __slots__ = ("_cost", "_done", "_left", "_lock", "count", "draw", "errors", "step", "task", "total")

    def __init__(
        self, task: Callable[..., object], count: int, lock: threading.Lock, step: int = 0, total: int = 0
    ) -> None:
        self.task = task
        self.count = count
        self.step, self.total = step, total
        self.draw = itertools.count().__next__  # atomic under the GIL
        self.errors: list[tuple[int, BaseException]] = []  # `append` is atomic, too
        self._done: queue.SimpleQueue[None] = queue.SimpleQueue()  # of the thread that finishes the last task
        self._lock = lock  # guards the two below
        self._left = count  # number of unfinished tasks
        self._cost = NO_COST

    def finish(self, count: int, begin: Cost) -> None:
        """Record that the calling thread, which had spent `begin` before, finished `count` tasks."""
        now = spent()
        with self._lock:
            known = self._cost
            self._cost = Cost(known[0] + now[0] - begin[0], known[1] + now[1] - begin[1])
            self._left -= count
            if self._left == 0:
                self._done.put(None)

    def wait(self) -> list[tuple[int, BaseException]]:
        """Wait until all tasks are done; return their exceptions, each with its index, sorted by index.

        The calling thread is charged for the tasks, but not for the time it waits.
        """
        begin = time.perf_counter_ns()
        while self._left:
            try:
                self._done.get(timeout=_INTERVAL)
            except queue.Empty:
                continue
            self._done.put(None)  # for other threads that wait
        cost, self._cost = self._cost, NO_COST  # nothing adds to it any more
        charge(cost, waited=time.perf_counter_ns() - begin)
        return sorted(self.errors, key=lambda error: error[0]) if self.errors else []

    def join(self) -> None:
        """Wait until all tasks are done; raise the exception of the first that failed."""
        errors = self.wait()
        if errors:
            raise errors[0][1]


class ThreadPool(Closing):
    """Threads for the samples of batches. Several callers may share them; the pool serves them in order of arrival.

    A signal handler that raises in a caller loses only the result of its job: no Python code holds a lock there.

    Args:
        num_threads: number of threads.
        name: prefix of the threads' names.
        affinity: cores to bind the threads to, one per thread in turn; empty to bind none.

    Example:
        >>> with ThreadPool(2, "doc") as pool:
        ...     results = [0] * 3
        ...     errors = pool.run(lambda index: results.__setitem__(index, index * index), 3)
        >>> results, errors
        ([0, 1, 4], [])
    """

    def __init__(self, num_threads: int, name: str, affinity: Sequence[int] = ()) -> None:
        self._jobs: deque[Job] = deque()  # those whose tasks aren't all drawn
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()  # a job for each thread that shall work on it
        self._closed = False
        self._lock = new_lock(Level.LEAF, "jobs")
        self.num_threads = 0
        self._name, self._affinity = name, affinity
        self._threads: list[threading.Thread] = []  # only started threads
        self._callers: deque[None] = deque()  # an entry for each call of `run_ranges` that waits: changes are atomic
        try:
            self._start_threads(num_threads)
        except BaseException:
            self.close()
            raise

    def _start_threads(self, num_threads: int) -> None:
        for index in range(self.num_threads, num_threads):
            core = self._affinity[index % len(self._affinity)] if self._affinity else None
            thread = threading.Thread(target=self._work, args=(core,), name=f"{self._name}-{index}", daemon=True)
            thread.start()
            self._threads.append(thread)
            self.num_threads += 1

    def resize(self, num_threads: int) -> None:
        """Change the number of threads. Those that end finish the jobs that are queued. One thread may call this.

        If the system allows no other thread, the pool goes on with those that it has.
        """
        for _ in range(num_threads, self.num_threads):
            self.num_threads -= 1
            self._queue.put(None)
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        with suppress(RuntimeError):
            self._start_threads(num_threads)

    def run(self, task: Task, count: int) -> list[tuple[int, BaseException]]:
        """Call ``task(index)`` for every index below `count`, and wait until all are done.

        Returns:
            The exceptions of the tasks, each with its index, sorted by index.
        """
        return self.start(task, count).wait()

    @staticmethod
    def run_here(task: Task, count: int) -> list[tuple[int, BaseException]]:
        """Call tasks like `run`, on the calling thread: for tasks that take less time than to wake other threads.

        Raises:
            BaseException: a signal handler raised it during a task.
        """
        errors: list[tuple[int, BaseException]] = []
        for index in range(count):
            try:
                task(index)
            except BaseException as error:  # noqa: BLE001 - a task's error belongs to the caller
                cause = error.__cause__ or error
                if is_interrupt(cause):
                    raise cause from None
                errors.append((index, error))
        return errors

    def start(self, task: Task, count: int) -> Job:
        """Start the tasks like `run`, but return at once: the caller waits for the job."""
        return self._start(Job(task, count, self._lock))

    def _start(self, job: Job) -> Job:
        if job.count == 0:
            return job
        if self._closed:
            raise RuntimeError("the thread pool is closed")
        try:
            self._jobs.append(job)
            for _ in range(min(job.count, self.num_threads)):
                self._queue.put(job)
        except BaseException:  # of a signal handler; threads that got the job do all of it
            with suppress(ValueError):
                self._jobs.remove(job)
            raise
        return job

    def run_ranges(self, task: Callable[[int, int], None], count: int, step: int) -> None:
        """Call ``task(begin, end)`` for ranges of up to `step` indices that cover all indices below `count`.

        Callers that wait at the same time share the threads; see `start_ranges`.

        Raises:
            BaseException: the exception of the first failed range, after all ranges were tried.
        """
        self._callers.append(None)
        try:
            errors = self.start_ranges(task, count, step, len(self._callers)).wait()
        finally:
            self._callers.pop()
        if errors:
            raise errors[0][1]

    def start_ranges(self, task: Callable[[int, int], None], count: int, step: int, callers: int = 1) -> Job:
        """Start the ranges like `run_ranges`, but return at once: the job's errors carry the numbers of ranges.

        The ranges are as long as possible without idle threads: for each, a thread wakes up and waits for the GIL.

        Args:
            task: the function.
            count: number of indices.
            step: largest number of indices in a range.
            callers: number of callers that share the threads.
        """
        ranges = -(-self.num_threads // callers)
        step = max(1, min(step, -(-count // ranges)))
        return self._start(Job(task, -(-count // step), self._lock, step, count))

    @property
    def busy(self) -> bool:
        """Whether jobs are queued whose tasks aren't all drawn."""
        return bool(self._jobs)

    def close(self) -> None:
        """Finish the queued jobs, then end the threads. No other thread may start a job meanwhile."""
        self._closed = True
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self, core: int | None) -> None:
        if core is not None and hasattr(os, "sched_setaffinity"):
            with suppress(OSError):  # this process has lost the core meanwhile: the thread runs on any core
                os.sched_setaffinity(0, {core})
        while True:
            job = self._queue.get()
            if job is None:
                return
            finished, begin = 0, spent()
            while (index := job.draw()) < job.count:
                try:
                    if job.step:
                        job.task(index * job.step, min(job.total, (index + 1) * job.step))
                    else:
                        job.task(index)
                except BaseException as error:  # noqa: BLE001 - a task's error belongs to the caller of run()
                    job.errors.append((index, error))
                finished += 1
            try:
                self._jobs.remove(job)
            except ValueError:  # another thread has removed it
                pass
            if finished:
                job.finish(finished, begin)
            del job  # an idle thread must not keep the memory of its last task
