"""Counters of a server, and the component that limits its speed."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from dali_proxy._common.in_flight import InFlight
from dali_proxy._common.latency import Latency
from dali_proxy._server.advice import advise, advise_cache, advise_remote
from dali_proxy._server.counters import Counters, OperatorTimes
from dali_proxy._server.notebook import as_html
from dali_proxy._transport.fields import clip
from dali_proxy._transport.protocol import LoopReport
from dali_proxy.pipeline._operator_api.trace import Trace, profiler_trace

_SHOWN = 20e-6  # seconds; briefer waits are left out of a trace
_WIDTH = 120  # columns of a report
_FEW = 3  # cheap operators that have separate rows
_STAGES = ("dataset", "queue", "pipeline", "wait", "training")  # of a batch, in order
_SLOWEST = 8  # samples that are named
_NAME = 80  # characters of their names
_CHEAP = 0.005  # share of the operators' time below which an operator is cheap
# Counters of the loops of one process, which monitors add.
OF_LOOPS = (
    *("training", "worker_wait", "result_wait", "start_wait"),
    *("loop_batches", "loop_samples", "worker_starts", "num_workers"),
)

_Report = TypeVar("_Report", "ServerStats", OperatorTimes)


class BatchCost(Protocol):
    """What a batch took in a worker; see `_loader.batches.Cost`."""

    @property
    def seconds(self) -> float: ...
    @property
    def slowest(self) -> str: ...
    @property
    def slowest_seconds(self) -> float: ...
    @property
    def processor(self) -> float: ...


def slowest_of(samples: Mapping[str, float]) -> dict[str, float]:
    """Return the samples that took longest, the slowest one first."""
    return dict(sorted(samples.items(), key=lambda item: -item[1])[:_SLOWEST])


class LoopTimes:
    """Times of the loops over all loaders of one server in this process, in seconds.

    Attributes:
        worker_wait: time that loaders waited for workers.
        result_wait: time that loaders waited for results.
        start_wait: time that loaders waited for the first batches of epochs; the other waits don't include it.
        training: time between receiving a batch and requesting the next one, from any loader.
        loop_batches: number of batches that loops have taken.
        loop_samples: number of samples in these batches.
        worker_starts: number of epochs, after the first one, that began with new worker processes.
        num_workers: number of workers of the loader that began an epoch last.
        num_workers_reason, num_threads_reason, in_flight: see `ServerStats`.
        rank: rank of this process when the last batch was requested.
        latency: durations for each batch: "wait", "training" and "dataset"; see `ServerStats`.
        slowest: see `ServerStats`.
        reading, processor: time that workers, or this process, took to read the batches, and its processor time.
        trace: the trace that records the loops, or None.
    """

    def __init__(self) -> None:
        self.trace: Trace | None = profiler_trace()
        self._in_range = False  # whether a range of the profiler is open
        self.worker_wait = 0.0
        self.result_wait = 0.0
        self.start_wait = 0.0
        self.training = 0.0
        self.loop_batches = self.loop_samples = self.worker_starts = self.num_workers = 0
        self.num_workers_reason = self.num_threads_reason = ""
        self.in_flight: dict[str, InFlight] = {}
        self.rank = 0
        self.latency = {"wait": Latency(), "training": Latency(), "dataset": Latency()}
        self.slowest: dict[str, float] = {}
        self.reading = self.processor = 0.0
        self._least_slow = 0.0  # samples that took less time aren't among the slowest ones
        self._has_started = False  # whether any loader has started workers
        self._handed_over = 0.0  # time of the last `leave`; 0 outside of loops
        self._batch = (0, 0)  # epoch and number of the batch that was received last

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "trace": None, "_in_range": False}

    def statistics(self) -> dict[str, Any]:
        """Return all of this that `ServerStats` has, by name."""
        return {
            **self._counters(),
            "in_flight": dict(self.in_flight),
            "latency": {stage: Latency(each.counts()) for stage, each in self.latency.items()},  # they go on counting
            "rank": self.rank,
            "slowest": slowest_of(self.slowest),
        }

    def _counters(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (*OF_LOOPS, "num_workers_reason", "num_threads_reason")}

    def enter(self) -> None:
        """Record that the loop requests a batch."""
        if self._handed_over:
            now = time.perf_counter()
            self.training += now - self._handed_over
            self.latency["training"].add(now - self._handed_over)
            if self.trace is not None:
                self.trace.add("training", self._batch[1], self._handed_over, now, self._batch)
            self._handed_over = 0.0
        if self.trace is not None and self.trace.push is not None and not self._in_range:
            self._in_range = True
            self.trace.push("wait for a batch")

    def leave(
        self,
        worker_wait: float,
        result_wait: float,
        is_first: bool,
        batch: tuple[int, int] = (0, 0),
        samples: int = 1,
        rank: int = 0,
    ) -> None:
        """Record that the loop receives a batch.

        Args:
            worker_wait: seconds that the loader waited until the batch was submitted.
            result_wait: seconds that it then waited for the results.
            is_first: whether the batch is the first of an epoch.
            batch: its epoch and its number in the epoch, for a trace.
            samples: number of its samples.
            rank: rank of this process when the epoch began.
        """
        self.rank = rank
        self.loop_batches += 1
        self.loop_samples += samples
        if is_first:
            self.start_wait += worker_wait + result_wait
        else:
            self.worker_wait += worker_wait
            self.result_wait += result_wait
            self.latency["wait"].add(worker_wait + result_wait)
        now = self._handed_over = time.perf_counter()
        self._batch = batch
        if self.trace is not None:
            waits = ("wait for workers", now - result_wait, worker_wait), ("wait for results", now, result_wait)
            for name, end, seconds in waits:
                if seconds > _SHOWN:
                    self.trace.add(name, batch[1], end - seconds, end, batch)
            self._end_range()

    def note_cost(self, cost: BatchCost) -> None:
        """Record what a batch took in its worker."""
        self.latency["dataset"].add(cost.seconds)
        self.reading += cost.seconds
        self.processor += cost.processor
        if cost.slowest_seconds <= self._least_slow:  # the usual case: none of `slowest` is faster
            return
        name = clip(cost.slowest, _NAME)
        if cost.slowest_seconds > self.slowest.get(name, 0.0):
            self.slowest[name] = cost.slowest_seconds
            if len(self.slowest) > 2 * _SLOWEST:
                self.slowest = slowest_of(self.slowest)
                self._least_slow = min(self.slowest.values())

    def begin(self, num_workers: int, starts: bool) -> None:
        """Record that the first batch of an epoch has arrived.

        Args:
            num_workers: number of workers.
            starts: whether they are new processes.
        """
        self.num_workers = num_workers
        self.worker_starts += starts and self._has_started
        self._has_started |= starts

    def _end_range(self) -> None:
        if self._in_range and self.trace is not None and self.trace.pop is not None:
            self._in_range = False
            self.trace.pop()

    def report(self, losses: Losses, placement: str, reason: str) -> LoopReport:
        """Return these times and other counters of this process as a message for monitors."""
        return LoopReport(
            **self._counters(),
            looping=bool(self._handed_over),
            **vars(losses),
            placement=placement,
            placement_reason=reason,
            in_flight=tuple((name, each.batches, each.reason) for name, each in self.in_flight.items()),
            rank=self.rank,
            latency=tuple((stage, tuple(each.counts().items())) for stage, each in self.latency.items()),
            slowest=tuple(slowest_of(self.slowest).items()),
            reading=self.reading,
            processor=self.processor,
        )

    def pause(self) -> None:
        """Record that a loop begins or ends: time between loops isn't counted."""
        self._handed_over = 0.0
        self._end_range()


@dataclass
class Losses:
    """Failures that the loaders of one server in this process have handled.

    Attributes:
        skipped: number of samples that `on_error` skipped.
        replaced: number of samples that `on_error` replaced by another sample.
        restarts: number of restarts after the server had died.
    """

    skipped: int = 0
    replaced: int = 0
    restarts: int = 0


@dataclass(frozen=True)
class ServerStats(Counters):
    """Counters of a server since its last start. All times are in seconds.

    Subtract an earlier object from a later one to get the counters for the time between them.

    Attributes:
        seconds: time since the start.
        batches: number of finished batches, including failed ones.
        samples: number of samples in these batches.
        errors: number of failed batches.
        damaged: number of decoded JPEGs that are damaged in their middle, so that a part of their pixels is wrong.
        remote_reads: number of requests for content behind URLs that the server's process has sent and that were
            answered, since it began.
        remote_bytes: bytes of these answers.
        remote_seconds: time until these answers came, summed over requests, which wait at the same time.
        remote_repeats: number of requests that failed and were sent again.
        remote_limit: current number of requests at once to one store, which follows from the time of its answers.
        dropped: number of batches that were no longer needed.
        shared: number of batches that got the result of an equal one, which another process had requested.
        repeated: number of samples in epochs after the first one.
        skipped: number of samples that loaders of this process skipped (`on_error`), since the server was created.
        replaced: number of samples that loaders of this process replaced by another sample, since the server was
            created.
        restarts: number of restarts after the server had died, since it was created.
        bytes_in: bytes of samples.
        bytes_out: bytes of results.
        workers: current number of connected processes that submit batches. Workers end with their epoch, unless they
            are persistent.
        num_workers: number of workers of the loaders that began an epoch last; with ``num_workers="auto"``, the number
            of dataset workers now, or 0 while the process of the loop reads.
        num_workers_reason: with ``num_workers="auto"``: why there are so many, and what the last change brought.
        num_threads_reason: the same for `threads`, if their number isn't fixed.
        queued: current number of requests that wait for the executor.
        running: current number of requests in the executor.
        waiting_results: current number of requests that haven't been fetched.
        depth: maximum number of requests in the executor. It grows while that is faster, within a bound for memory.
        depth_reason: reason for `depth`.
        in_flight: batches on their way from workers to the loop: how many a loader requests ahead, how many of their
            results are sent before the loop asks, and what limits each.
        busy: time during which the executor was busy.
        occupancy: integral over time of the requests in the executor; divide by `seconds` for their mean number.
        host: processor time of the thread that communicates with the processes.
        arena_wait: time that workers waited for free shared memory, summed over workers. Deprecated name: `ring_wait`.
        result_wait: time that loaders of this process waited for the results of submitted batches.
        worker_wait: time that loaders of this process waited for workers to submit a batch.
        start_wait: time that loaders of this process waited for the first batches of epochs, while workers start and
            no batch is in flight; the other waits don't include it.
        training: time between batches in loops over loaders of this process.
        loop_batches: number of batches that loops of this process have taken.
        loop_samples: number of samples in these batches.
        worker_starts: number of epochs of this process, after the first one, that began with new worker processes.
        latency: percentiles of the time that a batch takes in each stage, in the order of the stages: "dataset" (a
            worker reads, collates and submits it), "queue" (it waits for the executor), "pipeline" (it is in the
            executor), "wait" (a loop of this process waited for it, without first batches of epochs) and "training"
            (the loop's own time). ``stats.latency["wait"].p99`` is in seconds.
        ranks: the latency of each stage for each rank that uses the server.
        slowest: samples whose reading took longest in a worker, by dataset index and `sample_name`, with their seconds.
        operators: times of the pipeline's operators by name, with the user's line where several share a name.
        placement: placement of the operators: "server", "engine", "cores" or "consumer"; see `DALIServer`.
        placement_reason: reason for the placement; empty if none was requested.
        last_error: error of the batch that failed last; empty if none failed.
        pid: ID of the server's process; of the first one if it has several.
        processes: number of the server's processes (`num_processes`). The thread that communicates, the executor and
            its depth are means of these, other counters are sums.
        processes_reason: with ``num_processes="auto"``: why there are so many.
        consumers: number of processes that fetch results.
        memory: memory of that process in bytes, with the shared memory that it has touched.
        threads: current number of threads of the pipeline (`num_threads`).
        cores: number of cores that the server may use.
        load: mean number of processes per core of the machine that ran or waited for a core or a disk in the last
            minute.
        observed: time for which the use of the cores was measured: while loops ran.
        cores_idle: idle time of the cores that the server may use, summed over cores.
        cores_other: time of these cores that other programs used, summed over cores.
        worker_elapsed: time for which workers were measured, summed over workers.
        worker_processor: processor time of the workers in this time.
        worker_runnable: time for which they were ready to run, but got no core.
        server_runnable: the same for the threads of the server and its own worker processes.
        video_decoded: number of frames that `io.video` decoded.
        video_used: number of frames that samples got from it.
        video_hits: number of these that were in its pool already.
        video_bytes: current size of the frames in the pool.
        video_limit: largest such size.
        cache_hits: number of decoded samples that the cache had.
        cache_misses: number of samples that it didn't have.
        cache_loaded: number of samples that were read from its folder.
        cache_refused: number of samples that it had no room for.
        cache_evicted: number of samples that weren't used any more, and gave their memory to others.
        cache_seconds_saved: processor time that the hits would have taken without the cache, minus what they took.
        cache_values: current number of samples in the cache.
        cache_bytes: bytes in use of the cache.
        cache_limit: largest number of bytes that it may use; 0 without a cache.
        cacheable_bytes: mean number of bytes that a cache would need for a sample; 0 with a cache, or if there is
            nothing that it could keep.
    """

    @property
    def advice(self) -> str:
        """A sentence or two that name the component that limits the speed, and what to change."""
        return advise(self)

    @property
    def cache_advice(self) -> str:
        """A sentence that says what the cache of decoded samples does, or that one may help; empty if not."""
        return advise_cache(self)

    def to_dict(self) -> dict[str, Any]:
        """Return all counters, `limited_by`, `advice` and `cache_advice` as plain data, for JSON."""
        plain = {
            "latency": {stage: each.to_dict() for stage, each in self.latency.items()},
            "ranks": {
                rank: {stage: each.to_dict() for stage, each in stages.items()} for rank, stages in self.ranks.items()
            },
            "limited_by": self.limited_by,
            "advice": self.advice,
            "cache_advice": self.cache_advice,
        }
        return {**asdict(self), **plain}

    def __str__(self) -> str:
        """Return a report for users."""
        total = max(self._loops, 1e-9)
        seconds = max(self.seconds, 1e-9)
        lines = [
            f"{self.batches:,} batches of {self.samples:,} samples in {self.seconds:.1f} s, "
            f"{self.samples / seconds:,.0f} samples/s; {self.errors:,} failed, {self.dropped:,} dropped",
            f"losses      {self.skipped:,} samples skipped, {self.replaced:,} replaced; "
            f"the server was started again {self.restarts} times",
            f"samples     {_megabytes(self.bytes_in)} in, {_megabytes(self.bytes_out)} out",
            f"executor    busy {self.busy_share:.0%} of the time, "
            f"{min(self.occupancy / self._loop_seconds, self.depth):.1f} of {self.depth} batches at once",
            f"loops       {self.training / total:.0%} training, {self.worker_wait / total:.0%} waiting for workers, "
            f"{self.result_wait / total:.0%} for results; {self.start_wait:.1f} s for first batches",
            f"            {self.loop_samples:,} samples taken in {self.loop_batches:,} batches, with "
            f"{self.num_workers} workers",
            f"now         {self.workers} workers, {self.queued} batches queued, {self.running} running, "
            f"{self.waiting_results} not fetched",
            *self.latency_lines(),
            f"limited by  {self.limited_by or 'nothing yet'}",
            *textwrap.wrap(self.cache_advice, _WIDTH, initial_indent="cache       ", subsequent_indent=" " * 12),
            *textwrap.wrap(self.advice, _WIDTH, initial_indent="advice      ", subsequent_indent=" " * 12),
            f"in flight   executor: {self.depth} batches ({self.depth_reason})",
            *(f"            {name}: {each.batches} batches ({each.reason})" for name, each in self.in_flight.items()),
        ]
        if self.num_workers_reason:
            text = f"{self.num_workers} now: {self.num_workers_reason}"
            lines += textwrap.wrap(text, _WIDTH, initial_indent="workers     ", subsequent_indent=" " * 12)
        if self.num_threads_reason:
            text = f"{self.threads} now: {self.num_threads_reason}"
            lines += textwrap.wrap(text, _WIDTH, initial_indent="threads     ", subsequent_indent=" " * 12)
        if self.processes > 1 or self.processes_reason:
            lines.append(f"processes   {self.processes}{self.processes_reason and f': {self.processes_reason}'}")
        if self.placement_reason:
            lines.append(f"placement   {self.placement}: {self.placement_reason}")
        if self.remote_reads:
            lines += textwrap.wrap(
                advise_remote(self), _WIDTH, initial_indent="remote      ", subsequent_indent=" " * 12
            )
        if self.damaged:
            lines.append(
                f"damaged     {self.damaged:,} JPEGs are damaged in their middle: a part of their pixels is wrong"
            )
        if self.video_used:
            lines.append(
                f"video       {self.video_used:,} frames used, {self.video_decoded / self.video_used:.2f} decoded for "
                f"each, {self.video_hits / self.video_used:.0%} from the pool of {_megabytes(self.video_bytes)}"
            )
        if self.operators:
            lines += _table(self.operators)
        return "\n".join(lines)

    def latency_lines(self) -> list[str]:
        """Return lines for users: percentiles of each stage and rank, and the slowest samples."""
        shown = [f"{stage} {each}" for stage, each in self.latency.items() if each.count]
        if len(self.ranks) > 1:
            shown += [
                f"{stage} of rank {rank} {each}"
                for rank, stages in sorted(self.ranks.items())
                for stage, each in stages.items()
                if each.count
            ]
        lines = [f"{', '.join(shown)} (p50 / p95 / p99 of the batches)"] if shown else []
        slowest = [f"{index} ({seconds * 1e3:,.1f} ms)" for index, seconds in list(self.slowest.items())[:_FEW]]
        lines += [f"slowest samples to read, by dataset index: {', '.join(slowest)}"] if slowest else []
        text = "; ".join(lines)
        return textwrap.wrap(text, _WIDTH, initial_indent="latency     ", subsequent_indent=" " * 12)

    def _repr_html_(self) -> str:
        return as_html(self, self.advice, str(self))

    def __sub__(self, earlier: ServerStats) -> ServerStats:
        """Return the counters between two reports; current numbers are those of the later report."""
        now = (
            *("workers", "num_workers", "queued", "running", "waiting_results", "depth", "depth_reason", "in_flight"),
            *(
                "num_workers_reason",
                "num_threads_reason",
                "operators",
                "placement",
                "placement_reason",
                "last_error",
                "pid",
                "processes",
                "processes_reason",
                "consumers",
                "memory",
                "threads",
                "cores",
                "load",
                "slowest",
                "remote_limit",
                "video_bytes",
                "video_limit",
                "cache_values",
                "cache_bytes",
                "cache_limit",
                "cacheable_bytes",
            ),
        )
        differences: dict[str, Any] = {
            name: value if name in now else value - getattr(earlier, name)
            for name, value in vars(self).items()
            if name not in ("latency", "ranks")
        }
        differences["latency"] = _since(self.latency, earlier.latency)
        differences["ranks"] = {rank: _since(each, earlier.ranks.get(rank, {})) for rank, each in self.ranks.items()}
        none = OperatorTimes(0, 0.0)
        differences["operators"] = {
            name: times - earlier.operators.get(name, none) for name, times in self.operators.items()
        }
        return ServerStats(**differences)

    @classmethod
    def from_report(
        cls,
        report: Mapping[str, Any],
        latency: Mapping[str, Latency] = MappingProxyType({}),
        rank: int = 0,
        **measured: Any,
    ) -> ServerStats:
        """Create statistics from the host's report and the measurements of this process.

        Another release of dali-proxy may report further counters, which are left out.

        Args:
            report: the report.
            latency: durations of the stages of loops.
            rank: rank of this process.
            **measured: other counters.
        """
        operators = {name: _known(OperatorTimes, times) for name, times in report["operators"].items()}
        stages = {stage: Latency(counts) for stage, counts in report["latency"].items()} | {**latency}
        ranks: dict[int, dict[str, Latency]] = {}
        found = [
            (of_rank, {stage: Latency(counts) for stage, counts in durations.items()})
            for of_rank, durations in report.get("ranks", ())
        ]
        if any(of_rank is None for of_rank, _ in found):
            found.append((None, {**latency}))
        for of_rank, durations in found:
            known = ranks.setdefault(rank if of_rank is None else of_rank, {})
            for stage, each in durations.items():
                known[stage] = known.get(stage, Latency()) + each
        counters = {
            "operators": operators,
            "latency": _in_order(stages),
            "ranks": {of_rank: _in_order(each) for of_rank, each in ranks.items()},
        }
        return _known(cls, {**report, **measured, **counters})


def _in_order(stages: Mapping[str, Latency]) -> dict[str, Latency]:
    return {stage: stages[stage] for stage in _STAGES if stage in stages}


def _since(stages: Mapping[str, Latency], earlier: Mapping[str, Latency]) -> dict[str, Latency]:
    return {stage: each - earlier.get(stage, Latency()) for stage, each in stages.items()}


def _known(kind: type[_Report], values: Mapping[str, Any]) -> _Report:
    """Create an object of a dataclass from the values that are its fields."""
    return kind(**{name: value for name, value in values.items() if name in kind.__dataclass_fields__})


def _table(operators: Mapping[str, OperatorTimes]) -> list[str]:
    """Return lines with the operators' times, the slowest operator first."""
    lines = ["operators", "   processor              wall     batches"]
    total = max(sum(times.seconds for times in operators.values()), 1e-9)
    wall = max(sum(times.wall for times in operators.values()), 1e-9)
    ordered = sorted(operators.items(), key=lambda item: (-item[1].seconds, -item[1].wall))
    cheap = [name for name, times in ordered if times.seconds < _CHEAP * total and times.wall < _CHEAP * wall]
    if len(cheap) <= _FEW:
        cheap = []
    for name, times in ordered:
        if name in cheap:
            continue
        numbers = f"{times.seconds:10.2f} s {times.seconds / total:4.0%} {times.wall:10.2f} s {times.batches:10,}  "
        label = name if times.device == "cpu" else f"{name} [time on the host; it runs on the GPU]"
        lines += textwrap.wrap(label, _WIDTH, initial_indent=numbers, subsequent_indent=" " * len(numbers))
    if cheap:
        seconds, elapsed = (sum(getattr(operators[name], kind) for name in cheap) for kind in ("seconds", "wall"))
        lines.append(f"{seconds:10.2f} s {seconds / total:4.0%} {elapsed:10.2f} s {'':10}  {len(cheap)} others")
    return lines


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
