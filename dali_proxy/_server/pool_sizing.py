"""Changes the numbers of a server's dataset workers and threads while loops run, as `WorkerCount` decides."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from dali_proxy._common.core_budget import Shares
from dali_proxy._common.memory_budget import fitting
from dali_proxy._server.limits import THREAD_BYTES
from dali_proxy._server.worker_count import Window, WorkerCount

if TYPE_CHECKING:
    from dali_proxy._consumer.consumer import ConsumerClient
    from dali_proxy._server.life import Life
    from dali_proxy._server.telemetry import LoopTimes

_SHORTEST, _LONGEST = 1.0, 6.0  # seconds of a measurement
_BATCHES = 4  # of a measurement, unless it takes the longest time
_SETTLE, _LONGEST_SETTLE = 0.3, 60.0  # seconds after a change that aren't measured, until all workers have read a batch
_LEFT = 1.0  # seconds without a batch, after which another loop decides
_MOST = 32  # workers that wait
_WORKER = 256 << 20  # bytes of a worker, before one is measured
_LOOKS = 10  # measurements until workers' memory is measured again

_log = logging.getLogger("dali_proxy")


@dataclass(frozen=True)
class _Counters:
    """The counters of the loops at a time."""

    batches: float
    training: float
    wait: float
    results: float
    reading: float
    processor: float

    @classmethod
    def of(cls, times: LoopTimes) -> _Counters:
        return cls(
            times.loop_batches, times.training, times.worker_wait, times.result_wait, times.reading, times.processor
        )

    @classmethod
    def of_report(cls, loops: Mapping[str, Any]) -> _Counters:
        waits = loops["worker_wait"], loops["result_wait"]
        return cls(loops["loop_batches"], loops["training"], *waits, loops["reading"], loops["processor"])

    @property
    def seconds(self) -> float:
        return self.training + self.wait + self.results

    def since(self, earlier: _Counters) -> _Counters:
        return _Counters(*(now - before for now, before in zip(astuple(self), astuple(earlier), strict=True)))

    def in_seconds(self, seconds: float) -> _Counters:
        """Return what this would be in a time."""
        factor = seconds / self.seconds
        return _Counters(*(factor * each for each in astuple(self)))


@dataclass(frozen=True)
class _Use:
    """What the server has measured until a time, in seconds."""

    observed: float
    idle: float
    others: float
    cores: int
    threads: float
    processor: float
    memory: int
    loops: Mapping[str, _Counters]  # of other processes

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> _Use:
        on_cpu = [times for times in report["operators"].values() if times["device"] == "cpu"]
        return cls(
            *(report["observed"], report["cores_idle"], report["cores_other"], report["cores"]),
            sum(times["wall"] for times in on_cpu),
            sum(times["seconds"] for times in on_cpu),
            report["memory"],
            {process: _Counters.of_report(loops) for process, loops in report["others"].items()},
        )


class PoolSizing:
    """Measures loops, and changes the numbers of dataset workers and threads of the server of this process.

    It does so while a loop of this process runs. Those of other processes that use the server count as much.

    Each loader has its own number of workers, which a loop of another loader doesn't change. If loops of several
    loaders run at once, the first one decides. All share the threads. One of the two numbers changes at a time.

    Args:
        times: counters of the loops of this process, which also get the number of workers and the reasons.
        life: starts the process of the workers.
        consumer: returns the connection of this process.
        threads: number of threads of the pipeline; 0 if it may not change.
        clock: returns the time in seconds.
    """

    def __init__(
        self,
        times: LoopTimes,
        life: Life,
        consumer: Callable[[], ConsumerClient],
        threads: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._times, self._life, self._consumer, self._clock = times, life, consumer, clock
        self._counts: WeakKeyDictionary[object, WorkerCount] = WeakKeyDictionary()  # by loader
        self._count: WorkerCount | None = None  # of the loader whose loop decides
        cores = Shares.of_rank().core_budget
        log = partial(self._report, "num_threads")
        self._threads = WorkerCount(cores, cores, log, threads, threads=True) if threads else None
        self._modules: tuple[str, ...] = ()  # of the dataset of that loader
        self._seen = 0.0  # time of its last batch
        self._next = 0.0  # time of the next look
        self._changed = 0.0  # time of the last change
        self._before = 0  # number of workers before it
        self._settled_at: float | None = None  # number of batches from which on all workers have read one
        self._begin: _Counters | None = None  # of the measurement
        self._used: _Use | None = None  # at its begin
        self._use_now = _Use(0.0, 0.0, 0.0, 1, 0.0, 0.0, 0, {})  # at its end
        self._begun = 0.0
        self._worker_bytes, self._looks = _WORKER, 0
        self._thread_bytes = THREAD_BYTES
        self._grown_from: tuple[int, int] | None = None  # number of threads, and the server's memory, before a change

    def take(self, loader: object, stays: str, modules: Callable[[], tuple[str, ...]] = tuple) -> None:
        """Record that a loop has taken a batch.

        Args:
            loader: identifies the loader.
            stays: reason why its batches are always read in this process; else empty.
            modules: returns the modules of its dataset.
        """
        now = self._clock()
        if stays:
            self._times.num_workers_reason = stays
            return
        known = self._counts.get(loader)
        if known is None or known is not self._count:
            if self._count is not None and now - self._seen < _LEFT:
                return
            self._modules = modules()  # a reference to the loader would keep it alive
            self._use(loader, now)
        self._seen = now
        if now >= self._next:
            self._look(now)

    def _use(self, loader: object, now: float) -> None:
        """Let the loop of a loader decide from now on."""
        before = 0 if self._count is None else self._count.count
        cores = Shares.of_rank().core_budget
        count = self._counts.setdefault(
            loader, WorkerCount(cores, max(_MOST, cores), partial(self._report, "num_workers"), before)
        )
        self._count = count
        self._change(before, now)

    def _report(self, what: str, text: str) -> None:
        _log.info("%s: %s", what, text)

    def _look(self, now: float) -> None:
        assert self._count is not None
        self._times.num_workers = running = self._consumer().dataset_workers
        pool = self._life.dataset_workers
        counters = _Counters.of(self._times)
        if self._settled_at is None:  # workers start or end
            if running == self._count.count:
                self._settled_at = counters.batches + running + 2 * self._before if running else counters.batches
                self._next = now + _SETTLE
            elif pool is not None and pool.ended:
                self._give_up(pool.ended)
            return
        if self._begin is None:
            if counters.batches >= self._settled_at or now - self._changed > _LONGEST_SETTLE:
                self._begin, self._begun, self._used = counters, now, self._measured()
                self._next = now + _SHORTEST
            return
        begin = self._begin
        few = counters.batches - begin.batches < _BATCHES and now - self._begun < _LONGEST
        if few or counters.seconds - begin.seconds < _SHORTEST / 2:
            return
        window = self._window(begin, counters, now)
        if self._judge_threads(counters, window, now):
            return
        self._begin, self._begun, self._used, self._next = counters, now, self._use_now, now + _SHORTEST
        before = self._count.count
        wanted = self._count.observe(window)
        self._times.num_workers_reason = self._count.reason
        if wanted != before:
            self._change(before, now)

    def _measured(self) -> _Use:
        return _Use.of(self._consumer().statistics())

    def _judge_threads(self, counters: _Counters, window: Window, now: float) -> bool:
        """Change the number of threads, if needed. Return whether a change is being measured, or has just ended."""
        threads, count = self._threads, self._count
        if threads is None or count is None or (count.is_trying and not threads.is_trying):
            return False
        assert self._used is not None  # a measurement has begun
        before, used = threads.count, self._use_now
        if self._grown_from is not None and before > self._grown_from[0]:
            grown = (used.memory - self._grown_from[1]) // (before - self._grown_from[0])
            self._thread_bytes = max(self._thread_bytes, grown)
        wanted = threads.observe(
            replace(
                window,
                wait=window.results,
                results=window.wait,
                reading=used.threads - self._used.threads,
                processor=used.processor - self._used.processor,
                limit=before + max(fitting(self._thread_bytes), 0),  # a thread that ends frees little
                nbytes=self._thread_bytes,
            )
        )
        if wanted > before:
            self._grown_from = before, used.memory
        elif not threads.is_trying:
            self._grown_from = None
        self._times.num_threads_reason = threads.reason
        if wanted == before and not threads.is_trying:
            return False
        if wanted != before:
            self._consumer().resize_threads(wanted)
            self._begin, self._next = None, now + _SETTLE
        else:
            self._begin, self._begun, self._used, self._next = counters, now, used, now + _SHORTEST
        return True

    def _window(self, begin: _Counters, end: _Counters, now: float) -> Window:
        assert self._used is not None  # a measurement has begun
        used, before = self._measured(), self._used
        self._use_now = used
        observed = (used.observed - before.observed) * max(used.cores, 1)
        known = (
            {
                "idle": (used.idle - before.idle) / observed,
                "others": (used.others - before.others) / observed,
            }
            if observed > 0
            else {}
        )
        own = end.since(begin)
        others = [loops.since(before.loops[each]) for each, loops in used.loops.items() if each in before.loops]
        # They report now and then, not when this loop's window begins and ends.
        loops = [own, *(each.in_seconds(own.seconds) for each in others if each.batches > 0 and each.seconds > 0)]
        return Window(
            **known,
            end=now,
            batches=sum(each.batches for each in loops),
            seconds=own.seconds,
            wait=max(each.wait for each in loops),
            results=max(each.results for each in loops),
            reading=sum(each.reading for each in loops),
            processor=sum(each.processor for each in loops),
            limit=self._limit(),
            nbytes=self._worker_bytes,
        )

    def _limit(self) -> int:
        """Return the number of workers that the memory allows."""
        assert self._count is not None
        pool = self._life.dataset_workers
        if self._looks <= 0 and pool is not None:
            self._worker_bytes = pool.largest_worker() or self._worker_bytes
            self._looks = _LOOKS
        self._looks -= 1
        return max(self._consumer().dataset_workers + fitting(self._worker_bytes), 0)

    def _change(self, before: int, now: float) -> None:
        assert self._count is not None
        wanted, self._times.num_workers_reason = self._count.count, self._count.reason
        if wanted and self._life.dataset_workers is None:
            self._life.start_dataset_workers(self._modules)
        if self._life.dataset_workers is not None:
            self._consumer().resize_pool(wanted)
        self._before, self._changed, self._looks = before, now, 0
        self._settled_at = self._begin = None
        self._next = now

    def _give_up(self, how: str) -> None:
        reason = f"this process reads the samples: the process that starts dataset workers {how}"
        self._times.num_workers_reason = reason
        _log.warning("num_workers: %s", reason)
        self._consumer().resize_pool(0)
        self._next = float("inf")
