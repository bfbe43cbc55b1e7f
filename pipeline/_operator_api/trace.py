"""A record of activities over time, in the trace event format of chrome://tracing and Perfetto.

Format: "Trace Event Format", Google, 2016; complete events ("ph": "X") with times in microseconds.
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline._concurrency.locks import Level, new_lock

__all__ = ["Span", "Trace"]


@dataclass(frozen=True)
class Span:
    """An activity with a begin and an end.

    Attributes:
        name: name of the activity.
        batch: number of the batch, in order of submission.
        lane: name of the thread or CUDA stream.
        begin: begin, in seconds of `time.perf_counter`.
        end: end, in seconds of `time.perf_counter`.
    """

    name: str
    batch: int
    lane: str
    begin: float
    end: float

    def overlaps(self, other: Span) -> bool:
        """Return whether both ran at the same time."""
        return self.begin < other.end and other.begin < self.end


class Trace:
    """Collects spans from any thread.

    Work on a GPU is measured by CUDA events, relative to the first event of the trace. `spans` reads the times, so that
    nothing waits while batches run.

    Example:
        >>> trace = Trace()
        >>> trace.add("decode", 0, 1.0, 1.5)
        >>> trace.spans()[0].name
        'decode'
    """

    def __init__(self) -> None:
        self._lock = new_lock(Level.LEAF, "trace")
        self._spans: list[Span] = []
        self._on_gpu: list[tuple[str, int, str, Any, Any]] = []
        self._origin: tuple[Any, float] | None = None

    def add(self, name: str, batch: int, begin: float, end: float) -> None:
        """Record an activity of the calling thread."""
        span = Span(name, batch, threading.current_thread().name, begin, end)
        with self._lock:
            self._spans.append(span)

    def mark(self, stream: Any) -> Any:
        """Record an event on a CUDA stream and return it."""
        import cupy

        if self._origin is None:
            stream.synchronize()
            first = stream.record()
            first.synchronize()
            self._origin = (first, time.perf_counter())
        return stream.record(cupy.cuda.Event())

    def add_on_gpu(self, name: str, batch: int, lane: str, begin: Any, end: Any) -> None:
        """Record an activity of a CUDA stream between two events."""
        with self._lock:
            self._on_gpu.append((name, batch, lane, begin, end))

    def spans(self) -> list[Span]:
        """Return all spans, sorted by their begin. Wait for work on the GPU."""
        with self._lock:
            spans = list(self._spans)
            on_gpu = list(self._on_gpu)
        if on_gpu:
            import cupy

            assert self._origin is not None
            first, seconds = self._origin
            for name, batch, lane, begin, end in on_gpu:
                end.synchronize()
                times = [seconds + cupy.cuda.get_elapsed_time(first, event) / 1e3 for event in (begin, end)]
                spans.append(Span(name, batch, lane, times[0], times[1]))
        return sorted(spans, key=lambda span: span.begin)

    def save(self, path: str | Path) -> None:
        """Write the spans to a JSON file."""
        spans = self.spans()
        start = spans[0].begin if spans else 0.0
        lanes = {lane: number for number, lane in enumerate(sorted({span.lane for span in spans}))}
        process = os.getpid()
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "pid": process, "tid": number, "args": {"name": lane}}
            for lane, number in lanes.items()
        ]
        events += [
            {
                "ph": "X",
                "name": span.name,
                "cat": "batch",
                "pid": process,
                "tid": lanes[span.lane],
                "ts": (span.begin - start) * 1e6,
                "dur": (span.end - span.begin) * 1e6,
                "args": {"batch": span.batch},
            }
            for span in spans
        ]
        Path(path).write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))
