"""Counters of a server, and the component that limits its speed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dali_proxy._common.in_flight import InFlight
from dali_proxy._common.latency import Latency

_WAITING = 0.1  # share of the time for which training may wait and still be the limit
_BUSY = 0.7  # share of the time for which the executor must be busy to be the limit
_STARTS = 0.5  # share of the time for which loops wait for their first batches, from which the start is the limit


@dataclass(frozen=True)
class OperatorTimes:
    """Times of an operator of the pipeline, summed over all threads that ran it.

    Operators that run as one (see `Pipeline.explain`) have one time, under the names of all of them. Those of a step,
    such as a chain, are measured apart in the second, third, fifth, ... batch, then in every 64th. The times of the
    other batches are divided in the same proportions.

    Attributes:
        batches: number of batches.
        seconds: processor time, also that of worker processes that run Python functions. It doesn't include waiting for
            a thread, a disk, a lock or a GPU. For an operator on a GPU, it is the time that the host spent on issuing
            the work, not the GPU's time. Threads and processes that libraries start aren't measured.
        wall: elapsed time of these threads while they ran the operator. It includes waiting for a disk, a lock, the GIL
            or a core, but not waiting for a free thread. It is summed over threads, like `seconds`.
        device: "cpu"; "gpu" or "mixed" for operators that run on a GPU.
        function: for an operator that calls a Python function, whether it calls it in a "thread" of the server or in
            worker "processes"; else empty.
        cacheable: whether a cache of decoded samples may have its results (`DALIServer(cache=...)`).
    """

    batches: int
    seconds: float
    wall: float = 0.0
    device: str = "cpu"
    function: str = ""
    cacheable: bool = False

    def __sub__(self, earlier: OperatorTimes) -> OperatorTimes:
        """Return the times between two measurements."""
        return replace(
            self,
            batches=self.batches - earlier.batches,
            seconds=self.seconds - earlier.seconds,
            wall=self.wall - earlier.wall,
        )


@dataclass(frozen=True)
class Counters:
    """The counters of `ServerStats`, which describes them, and what follows from them."""

    seconds: float = 0.0
    batches: int = 0
    samples: int = 0
    errors: int = 0
    damaged: int = 0
    remote_reads: int = 0
    remote_bytes: int = 0
    remote_seconds: float = 0.0
    remote_repeats: int = 0
    remote_limit: int = 0
    dropped: int = 0
    shared: int = 0
    repeated: int = 0
    skipped: int = 0
    replaced: int = 0
    restarts: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    workers: int = 0
    num_workers: int = 0
    num_workers_reason: str = ""
    num_threads_reason: str = ""
    queued: int = 0
    running: int = 0
    waiting_results: int = 0
    depth: int = 0
    depth_reason: str = ""
    in_flight: Mapping[str, InFlight] = field(default_factory=dict)
    busy: float = 0.0
    occupancy: float = 0.0
    host: float = 0.0
    arena_wait: float = 0.0
    result_wait: float = 0.0
    worker_wait: float = 0.0
    start_wait: float = 0.0
    training: float = 0.0
    loop_batches: int = 0
    loop_samples: int = 0
    worker_starts: int = 0
    latency: Mapping[str, Latency] = field(default_factory=dict)
    ranks: Mapping[int, Mapping[str, Latency]] = field(default_factory=dict)
    slowest: Mapping[str, float] = field(default_factory=dict)
    operators: Mapping[str, OperatorTimes] = field(default_factory=dict)
    placement: str = "server"
    placement_reason: str = ""
    last_error: str = ""
    pid: int = 0
    processes: int = 1
    processes_reason: str = ""
    consumers: int = 0
    memory: int = 0
    threads: int = 0
    cores: int = 0
    load: float = 0.0
    observed: float = 0.0
    cores_idle: float = 0.0
    cores_other: float = 0.0
    worker_elapsed: float = 0.0
    worker_processor: float = 0.0
    worker_runnable: float = 0.0
    server_runnable: float = 0.0
    video_decoded: int = 0
    video_used: int = 0
    video_hits: int = 0
    video_bytes: int = 0
    video_limit: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    cache_loaded: int = 0
    cache_refused: int = 0
    cache_evicted: int = 0
    cache_seconds_saved: float = 0.0
    cache_values: int = 0
    cache_bytes: int = 0
    cache_limit: int = 0
    cacheable_bytes: float = 0.0

    @property
    def ring_wait(self) -> float:
        """Deprecated name of `arena_wait`."""
        warnings.warn("ring_wait is deprecated: use arena_wait", DeprecationWarning, stacklevel=2)
        return self.arena_wait

    @property
    def limited_by(self) -> str:
        """Component that limits the speed: "training", "pipeline" or "workers"; empty before the first batch.

        The first batches of epochs aren't counted, unless workers start for each epoch and the loops wait for that most
        of the time: then the limit is the workers. Training is the limit if it waits less than a tenth of the time.
        Otherwise the limit is the pipeline if it is busy most of the time, or if the loops wait longer for its results
        than for the samples of the workers; else the workers, for which the pipeline then waits, too.
        """
        if self._loops <= 0 or not (self.batches or self.loop_batches):
            return ""
        if self.starts_limit:
            return "workers"
        if self.result_wait + self.worker_wait < _WAITING * self._loops:
            return "training"
        # A pause of the loop, for a validation for example, lowers the share for which the pipeline is busy.
        return "pipeline" if self.busy_share >= _BUSY or self.result_wait > self.worker_wait else "workers"

    @property
    def starts_limit(self) -> bool:
        """Whether loops wait most of the time for workers that start again for each epoch."""
        return self.worker_starts > 0 and self.start_wait > _STARTS * (self.start_wait + self._loops)

    @property
    def busy_share(self) -> float:
        """Share of the loops' time for which the executor was busy: a server may be idle before and after a loop.

        Without a loop, it is a share of the server's time.
        """
        return min(1.0, self.busy / self._loop_seconds)

    @property
    def _loops(self) -> float:
        """Time of all loops, which may run at once."""
        return self.training + self.worker_wait + self.result_wait

    @property
    def _loop_seconds(self) -> float:
        """Duration of the loops; without a loop, that of the server. Never 0."""
        return max(min(self._loops or self.seconds, self.seconds), 1e-9)
