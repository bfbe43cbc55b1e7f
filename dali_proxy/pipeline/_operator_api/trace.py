"""A record of activities over time, for Perfetto and for NVIDIA's profilers.

All times are those of `time.perf_counter`, which is the same clock in all processes of a machine.
"""

from __future__ import annotations

import importlib
import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeAlias

from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._rng import BatchKey

#: Functions that begin a range with a name, and end it.
Profiler: TypeAlias = tuple[Callable[[str], Any], Callable[[], Any]]

# The fields of a `Span`, which are converted when they are read: that is too slow while batches run.
_Raw: TypeAlias = tuple[str, int, str, float, float, BatchKey | tuple[int, int] | None]

_MOST = 500_000  # spans; a span takes about 200 bytes


class _Named(Protocol):
    @property
    def name(self) -> str: ...


class Span(NamedTuple):
    """An activity with a begin and an end.

    Attributes:
        name: name of the activity.
        batch: number of the batch, in order of submission.
        lane: name of the thread or CUDA stream. Spans of a lane whose name begins with "batches" may overlap.
        begin: begin, in seconds of `time.perf_counter`.
        end: end, in seconds of `time.perf_counter`.
        key: identity of the batch in all processes, as text: its epoch and its number there; empty if unknown.
    """

    name: str
    batch: int
    lane: str
    begin: float
    end: float
    key: str = ""

    def overlaps(self, other: Span) -> bool:
        """Return whether both ran at the same time."""
        return self.begin < other.end and other.begin < self.end


class _Range:
    """The time of a `with` block, for a trace. `contextmanager` would take three times as long."""

    __slots__ = ("_batch", "_begin", "_key", "_name", "_trace")

    def __init__(self, trace: Trace, name: str, batch: int, key: BatchKey | None) -> None:
        self._trace, self._name, self._batch, self._key = trace, name, batch, key

    def __enter__(self) -> None:
        if self._trace.push is not None:
            self._trace.push(self._name)
        self._begin = time.perf_counter()

    def __exit__(self, *exc_info: object) -> None:
        self._trace.add(self._name, self._batch, self._begin, time.perf_counter(), self._key)
        if self._trace.pop is not None:
            self._trace.pop()


class _Sequence:
    """Activities of a thread that follow each other: a `with` block for each. It costs less than several spans."""

    __slots__ = ("_activities", "_batch", "_key", "_lane", "_times", "_trace")

    def __init__(self, trace: Trace, activities: Sequence[_Named], batch: int, key: BatchKey | None) -> None:
        self._trace, self._activities, self._batch, self._key = trace, activities, batch, key
        self._lane = threading.current_thread().name
        self._times = [time.perf_counter()]

    def __enter__(self) -> None:
        if self._trace.push is not None:
            self._trace.push(self._activities[len(self._times) - 1].name)

    def __exit__(self, *exc_info: object) -> None:
        self._times.append(time.perf_counter())
        if self._trace.pop is not None:
            self._trace.pop()

    def raw(self) -> list[_Raw]:
        """Return the spans of the activities that have ended."""
        return [
            (each.name, self._batch, self._lane, begin, end, self._key)
            for each, (begin, end) in zip(self._activities, pairwise(self._times), strict=False)
        ]


class Trace:
    """Collects spans from any thread, and marks ranges for a profiler.

    Work on a GPU is measured by CUDA events, relative to the first event of the trace. `spans` reads the times, so that
    nothing waits while batches run.

    Args:
        records: whether spans are collected.
        profiler: from the function `profiler`; None for no profiler.

    Attributes:
        dropped: number of spans that weren't collected because there were too many.
        push: function that begins a range for a profiler, or None.
        pop: function that ends it, or None.

    Example:
        >>> trace = Trace()
        >>> with trace.range("decode", 0):
        ...     pass
        >>> trace.spans()[0].name
        'decode'
    """

    def __init__(self, records: bool = True, profiler: Profiler | None = None) -> None:
        self._lock = new_lock(Level.LEAF, "trace")
        self._records = records
        self._spans: list[_Raw] = []  # `append` is atomic under the GIL
        self._sequences: list[_Sequence] = []
        self._on_gpu: list[tuple[_Raw, Any, Any]] = []
        self._origin: tuple[Any, float] | None = None
        self.dropped = 0
        self.push = None if profiler is None else profiler[0]
        self.pop = None if profiler is None else profiler[1]

    def range(self, name: str, batch: int, key: BatchKey | None = None) -> _Range:
        """Return a context manager that records its block as an activity of the calling thread."""
        return _Range(self, name, batch, key)

    def add(
        self,
        name: str,
        batch: int,
        begin: float,
        end: float,
        key: BatchKey | tuple[int, int] | None = None,
        lane: str = "",
    ) -> None:
        """Record an activity of a thread, by default of the calling one. A key may be an epoch and a number."""
        if not self._records:
            return
        if len(self._spans) >= _MOST:
            self.dropped += 1
            return
        self._spans.append((name, batch, lane or threading.current_thread().name, begin, end, key))

    def sequence(self, activities: Sequence[_Named], batch: int, key: BatchKey | None = None) -> _Sequence:
        """Return a context manager to enter for each of these activities of the calling thread, one after another."""
        sequence = _Sequence(self, activities, batch, key)
        if len(self._sequences) >= _MOST:
            self.dropped += 1
        elif self._records:
            self._sequences.append(sequence)
        return sequence

    def mark(self, stream: Any) -> Any:
        """Record an event on a CUDA stream and return it; None if the trace collects no spans."""
        if not self._records:
            return None
        import cupy

        with self._lock:
            if self._origin is None:
                stream.synchronize()
                first = stream.record()
                first.synchronize()
                self._origin = (first, time.perf_counter())
        return stream.record(cupy.cuda.Event())

    def add_on_gpu(self, name: str, batch: int, lane: str, begin: Any, end: Any, key: BatchKey | None = None) -> None:
        """Record an activity of a CUDA stream between two events of `mark`."""
        if begin is not None and len(self._on_gpu) < _MOST:
            self._on_gpu.append(((name, batch, lane, 0.0, 0.0, key), begin, end))

    def spans(self) -> list[Span]:
        """Return all spans, sorted by their begin. Wait for work on the GPU."""
        raw = [*self._spans, *(each for sequence in list(self._sequences) for each in sequence.raw())]
        spans = [*map(_span, raw), *map(self._measured, list(self._on_gpu))]
        return sorted(spans, key=lambda span: span.begin)

    def take(self, most: int) -> list[Span]:
        """Return spans and forget them, up to `most` or a few more. Wait for work on the GPU."""
        spans = self._spans[:most]
        del self._spans[: len(spans)]
        count = 0
        while count < len(self._sequences) and len(spans) < most:
            spans += self._sequences[count].raw()
            count += 1
        del self._sequences[:count]
        on_gpu = self._on_gpu[: most - len(spans)]
        del self._on_gpu[: len(on_gpu)]
        return [*map(_span, spans), *map(self._measured, on_gpu)]

    def _measured(self, entry: tuple[_Raw, Any, Any]) -> Span:
        """Return a span on a GPU with its times."""
        import cupy

        assert self._origin is not None  # set by the first mark
        raw, begin, end = entry
        first, seconds = self._origin
        end.synchronize()
        times = [seconds + cupy.cuda.get_elapsed_time(first, event) / 1e3 for event in (begin, end)]
        return _span(raw)._replace(begin=times[0], end=times[1])


def _span(raw: _Raw) -> Span:
    name, batch, lane, begin, end, key = raw
    epoch_and_number = (key.epoch, key.iteration) if isinstance(key, BatchKey) else key or ()
    return Span(name, batch, lane, begin, end, ".".join(map(str, epoch_and_number)))


def profiler_trace() -> Trace | None:
    """Return a trace that only marks ranges for a profiler, if one listens, else None."""
    functions = profiler()
    return None if functions is None else Trace(records=False, profiler=functions)


def profiler() -> Profiler | None:
    """Return NVTX's functions that begin and end a range if a profiler listens, else None.

    NVIDIA's profilers announce themselves by an environment variable. ``DALI_PROXY_NVTX=1`` is for other tools.
    """
    if "NVTX_INJECTION64_PATH" not in os.environ and os.environ.get("DALI_PROXY_NVTX", "0") in ("", "0"):
        return None
    for module, push, pop, options in (
        ("nvtx", "push_range", "pop_range", {"domain": "dali_proxy"}),
        ("cupy.cuda.nvtx", "RangePush", "RangePop", {}),
    ):
        try:
            library = importlib.import_module(module)
        except ImportError:
            continue
        return partial(getattr(library, push), **options), partial(getattr(library, pop), **options)
    warnings.warn(
        "ranges for the profiler need the package nvtx: pip install 'dali-proxy[telemetry]'",
        RuntimeWarning,
        stacklevel=2,
    )
    return None
