"""A file with the spans of several processes, for Perfetto and chrome://tracing.

Format: "Trace Event Format", Google, 2016; complete events ("X"), asynchronous events ("b", "e") where spans of a lane
overlap, and flow events ("s", "t", "f") that connect the spans of a batch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dali_proxy.pipeline._operator_api.trace import Span


class ProcessSpans(NamedTuple):
    """The spans of a process.

    Attributes:
        pid: process ID.
        name: name of the process.
        spans: its spans.
    """

    pid: int
    name: str
    spans: Sequence[Span]


def save_spans(path: str | Path, processes: Sequence[ProcessSpans]) -> None:
    """Write the spans of several processes to a file. All times are those of one clock."""
    start = min((span.begin for each in processes for span in each.spans), default=0.0)
    lanes: dict[tuple[int, str], int] = {}
    names: dict[int, list[str]] = {}
    events: list[dict[str, Any]] = []
    by_key: dict[str, list[dict[str, Any]]] = {}
    for process in processes:
        if process.name not in names.setdefault(process.pid, []):
            names[process.pid].append(process.name)
        for span in process.spans:
            thread = lanes.setdefault((process.pid, span.lane), len(lanes) + 1)
            event: dict[str, Any] = {
                "ph": "X",
                "name": span.name,
                "cat": "batch",
                "pid": process.pid,
                "tid": thread,
                "ts": (span.begin - start) * 1e6,
                "dur": (span.end - span.begin) * 1e6,
                "args": {"batch": span.batch, **({"key": span.key} if span.key else {})},
            }
            if span.lane.startswith("batches"):
                same = f"{process.pid}.{span.key or span.batch}"
                end = {"ph": "e", "ts": event["ts"] + event.pop("dur")}
                events += [{**event, "ph": "b", "id": same}, {**event, **end, "id": same}]
                continue
            events.append(event)
            if span.key:
                by_key.setdefault(span.key, []).append(event)
    for key, connected in by_key.items():
        events += _flow(key, connected)
    described = [_metadata("process_name", pid, 0, " and ".join(each)) for pid, each in names.items()]
    described += [_metadata("thread_name", pid, thread, lane) for (pid, lane), thread in lanes.items()]
    try:
        Path(path).write_text(json.dumps({"traceEvents": described + events, "displayTimeUnit": "ms"}))
    except OSError as error:  # the disk is full: the system's error doesn't name the file
        raise OSError(error.errno, error.strerror, str(path)) from error


def _metadata(kind: str, pid: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": thread, "args": {"name": name}}


def _flow(key: str, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return events that connect the spans of a batch where it goes to another thread or process.

    They are in the order in which the spans end: a thread may begin to wait for a batch before another begins to work
    on it.
    """
    events = sorted(events, key=_last_moment)
    stops = [event for before, event in zip([None, *events], events, strict=False) if _differ(before, event)]
    return [
        {
            "ph": "s" if number == 0 else "f" if number == len(stops) - 1 else "t",
            "name": "batch",
            "cat": "batch",
            "id": key,
            "bp": "e",
            **{name: event[name] for name in ("pid", "tid")},
            "ts": _last_moment(event),
        }
        for number, event in enumerate(stops)
        if len(stops) > 1
    ]


def _last_moment(event: dict[str, Any]) -> float:
    """Return a time just before the end of a span: Perfetto looks for the span that contains it."""
    begin, duration = float(event["ts"]), float(event["dur"])
    return begin + max(0.0, duration - 0.001)


def _differ(before: dict[str, Any] | None, event: dict[str, Any]) -> bool:
    return before is None or (before["pid"], before["tid"]) != (event["pid"], event["tid"])
