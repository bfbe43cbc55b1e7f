"""Files of traces."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

from dali_proxy.pipeline._operator_api.trace import Span
from dali_proxy.pipeline._operator_api.trace_file import ProcessSpans, save_spans


def test_arrows_of_a_batch_follow_the_ends_of_its_spans(tmp_path: Path) -> None:
    """The loop begins to wait before the worker begins to read, and is served while the worker still tidies up."""
    training = [Span("wait for workers", 0, "main", 1.0, 5.0, "0.7"), Span("training", 0, "main", 9.0, 9.5, "0.7")]
    worker = [Span("read samples", 0, "main", 2.0, 4.0, "0.7")]
    server = [Span("arithmetic", 0, "CPU 1", 6.0, 8.0, "0.7"), Span("instant", 0, "CPU 2", 8.5, 8.5, "0.7")]
    path = tmp_path / "trace.json"
    save_spans(
        path, [ProcessSpans(1, "training", training), ProcessSpans(2, "worker", worker), ProcessSpans(3, "s", server)]
    )
    events = json.loads(path.read_text())["traceEvents"]
    flow = [event for event in events if event["ph"] in "stf"]
    assert [(event["ph"], event["pid"]) for event in flow] == [("s", 2), ("t", 1), ("t", 3), ("t", 3), ("f", 1)]
    assert all(before["ts"] < after["ts"] for before, after in pairwise(flow))
    spans = [(event["pid"], event["ts"], event["ts"] + event["dur"]) for event in events if event["ph"] == "X"]
    for event in flow:
        assert sum(pid == event["pid"] and begin <= event["ts"] <= end for pid, begin, end in spans) == 1
