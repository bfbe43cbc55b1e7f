"""What a server did so far, and which part of the whole limits its speed."""

from __future__ import annotations

import textwrap
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["LoopTimes", "Losses", "OperatorTimes", "ServerStats"]

_WAITING = 0.1  # share of the time that training may wait before something else is the limit
_BUSY = 0.7  # share of the time that the executor works when it is the limit
_WIDTH = 120  # columns of a report


class LoopTimes:
    """Measures the loops over all loaders of one server in this process, in seconds.

    Attributes:
        worker_wait: time that loaders waited for workers.
        result_wait: time that they waited for results.
        start_wait: time that they waited for the first batch of an epoch, which is in none of the others.
        training: time between getting a batch and asking for the next one, of whatever loader.
    """

    def __init__(self) -> None:
        self.worker_wait = 0.0
        self.result_wait = 0.0
        self.start_wait = 0.0
        self.training = 0.0
        self._handed_over = 0.0  # when; 0 outside of loops

    def enter(self) -> None:
        """A batch is asked for."""
        if self._handed_over:
            self.training += time.perf_counter() - self._handed_over
            self._handed_over = 0.0

    def leave(self, worker_wait: float, result_wait: float, is_first: bool) -> None:
        """A batch is handed over.

        Args:
            worker_wait: seconds that it was waited for until it was submitted.
            result_wait: and then, until its results came.
            is_first: whether it is the first batch of an epoch.
        """
        if is_first:
            self.start_wait += worker_wait + result_wait
        else:
            self.worker_wait += worker_wait
            self.result_wait += result_wait
        self._handed_over = time.perf_counter()

    def pause(self) -> None:
        """A loop begins or ends: what happens between loops is not counted."""
        self._handed_over = 0.0


@dataclass
class Losses:
    """What went wrong for the loaders of one server in this process, and was dealt with.

    Attributes:
        skipped: samples that `on_error` left out.
        replaced: samples that another one has taken the place of.
        restarts: how often the server was started again after it had died.
    """

    skipped: int = 0
    replaced: int = 0
    restarts: int = 0


@dataclass(frozen=True)
class OperatorTimes:
    """What an operator of the pipeline has cost: the work of all threads that ran it.

    Operators of a chain run together. They are measured one by one in the second batch, the third, the fifth and so on,
    then in every 64th, and share the times of the others as they did in these.

    Attributes:
        batches: that it ran for.
        seconds: processor time. Waiting costs none: for a thread, a disk, a lock or a GPU. For an operator on a GPU it
            is the time that the host spent to issue the work, not the GPU's. Threads and processes that libraries
            start themselves aren't seen.
        wall: time that passed for these threads while they ran it, also where they waited for a disk, a lock, the GIL
            or a core, but not until a thread was free. Threads are added up, as in `seconds`.
        device: "cpu"; "gpu" or "mixed" for operators that run on a GPU.
    """

    batches: int
    seconds: float
    wall: float = 0.0
    device: str = "cpu"

    def __sub__(self, earlier: OperatorTimes) -> OperatorTimes:
        """What happened between two moments."""
        return OperatorTimes(
            self.batches - earlier.batches, self.seconds - earlier.seconds, self.wall - earlier.wall, self.device
        )


@dataclass(frozen=True)
class ServerStats:
    """Counters of a server since its last start. All times are in seconds.

    Subtract an earlier one from a later one for the time between them.

    Attributes:
        seconds: since the start.
        batches: that came to an end, failed ones included.
        samples: in those.
        errors: batches that failed.
        dropped: batches that nobody wanted any more.
        skipped: samples that loaders of this process left out (`on_error`), since the server was made.
        replaced: samples that another one has taken the place of, there.
        restarts: how often the server was started again after it had died, since it was made.
        bytes_in: of samples.
        bytes_out: of results.
        workers: processes that are connected to submit batches.
        queued: requests that wait for the executor now.
        running: requests that are in the executor now.
        waiting_results: requests that were not fetched yet, now.
        depth: most requests that may be in the executor at once.
        busy: time during which the executor had something to do.
        occupancy: integral over time of the requests in the executor; divide by `seconds` for their mean number.
        host: processor time of the thread that talks to the processes.
        arena_wait: time that workers waited for room in their shared memory, summed over workers. Its deprecated
            name is `ring_wait`.
        result_wait: time that loaders of this process waited for results that were submitted and not ready.
        worker_wait: time that loaders of this process waited for workers to submit a batch.
        start_wait: time that loaders of this process waited for the first batch of an epoch, while workers start and
            nothing is in flight; it is in no other wait.
        training: time that passed between batches in loops over loaders of this process.
        operators: what the pipeline's operators cost, by their names; with the user's line where lines share a name.
        placement: where they run, "server", "cores" or "consumer"; see `DALIServer`.
        placement_reason: why; empty when nobody has asked for a placement.
    """

    seconds: float = 0.0
    batches: int = 0
    samples: int = 0
    errors: int = 0
    dropped: int = 0
    skipped: int = 0
    replaced: int = 0
    restarts: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    workers: int = 0
    queued: int = 0
    running: int = 0
    waiting_results: int = 0
    depth: int = 0
    busy: float = 0.0
    occupancy: float = 0.0
    host: float = 0.0
    arena_wait: float = 0.0
    result_wait: float = 0.0
    worker_wait: float = 0.0
    start_wait: float = 0.0
    training: float = 0.0
    operators: Mapping[str, OperatorTimes] = field(default_factory=dict)
    placement: str = "server"
    placement_reason: str = ""

    @property
    def ring_wait(self) -> float:
        """Deprecated name of `arena_wait`."""
        warnings.warn("ring_wait is deprecated: use arena_wait", DeprecationWarning, stacklevel=2)
        return self.arena_wait

    @property
    def limited_by(self) -> str:
        """Which part limits the speed: "training", "pipeline" or "workers"; empty while nothing was loaded.

        What the first batch of an epoch takes is left out. Training limits when it hardly waits. Else the pipeline
        does if it works nearly all the time that anything is waited for, and the workers if it doesn't: then it waits
        for them too.
        """
        waited = self.result_wait + self.worker_wait
        total = waited + self.training
        if total <= 0 or not self.batches:
            return ""
        if waited < _WAITING * total:
            return "training"
        return "pipeline" if self.busy >= _BUSY * min(total, self.seconds) else "workers"

    def __str__(self) -> str:
        """A report for people."""
        total = max(self.training + self.worker_wait + self.result_wait, 1e-9)
        seconds = max(self.seconds, 1e-9)
        lines = [
            f"{self.batches:,} batches of {self.samples:,} samples in {self.seconds:.1f} s, "
            f"{self.samples / seconds:,.0f} samples/s; {self.errors:,} failed, {self.dropped:,} no longer wanted",
            f"losses      {self.skipped:,} samples skipped, {self.replaced:,} replaced; "
            f"the server was started again {self.restarts} times",
            f"samples     {_megabytes(self.bytes_in)} in, {_megabytes(self.bytes_out)} out",
            f"executor    busy {self.busy / seconds:.0%} of the time, "
            f"{self.occupancy / seconds:.1f} of {self.depth} batches at once",
            f"loops       {self.training / total:.0%} training, {self.worker_wait / total:.0%} waiting for workers, "
            f"{self.result_wait / total:.0%} for results; {self.start_wait:.1f} s for first batches",
            f"now         {self.workers} workers, {self.queued} batches queued, {self.running} running, "
            f"{self.waiting_results} not fetched",
            f"limited by  {self.limited_by or 'nothing yet'}",
        ]
        if self.placement_reason:
            lines.append(f"placement   {self.placement}: {self.placement_reason}")
        if self.operators:
            lines += _table(self.operators)
        return "\n".join(lines)

    def __sub__(self, earlier: ServerStats) -> ServerStats:
        """What happened between two moments; what is counted "now" is that of the later one."""
        now = ("workers", "queued", "running", "waiting_results", "depth", "operators", "placement", "placement_reason")
        differences: dict[str, Any] = {
            name: value if name in now else value - getattr(earlier, name) for name, value in vars(self).items()
        }
        none = OperatorTimes(0, 0.0)
        differences["operators"] = {
            name: times - earlier.operators.get(name, none) for name, times in self.operators.items()
        }
        return ServerStats(**differences)

    @classmethod
    def of_report(cls, report: Mapping[str, Any], **measured: Any) -> ServerStats:
        """Make one of the host's report and what was measured in this process."""
        operators = {name: OperatorTimes(**times) for name, times in report["operators"].items()}
        fields: dict[str, Any] = {**report, **measured, "operators": operators}
        return cls(**fields)


def _table(operators: Mapping[str, OperatorTimes]) -> list[str]:
    """Return lines that say what operators cost, the dearest first."""
    lines = ["operators", "   processor              wall     batches"]
    total = max(sum(times.seconds for times in operators.values()), 1e-9)
    for name, times in sorted(operators.items(), key=lambda item: (-item[1].seconds, -item[1].wall)):
        numbers = f"{times.seconds:10.2f} s {times.seconds / total:4.0%} {times.wall:10.2f} s {times.batches:10,}  "
        label = name if times.device == "cpu" else f"{name} [host's part: it runs on the GPU]"
        lines += textwrap.wrap(label, _WIDTH, initial_indent=numbers, subsequent_indent=" " * len(numbers))
    return lines


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
