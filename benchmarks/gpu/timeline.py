"""Timeline of a few batches as the executor records them: a row for each thread and stream."""

from __future__ import annotations

import itertools
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.child import Caller
from benchmarks.gpu.session import Session
from benchmarks.plots import COLORS, missing_matplotlib, title_of
from benchmarks.workload import READER_KIND, Setup

BATCHES = 5
BEFORE = 12
"""Number of warm-up batches, after which nothing is allocated or compiled."""

PATIENCE = 60.0

Span = dict[str, Any]


def record_timeline(session: Session) -> list[Span]:
    """Record the pipeline with its own reader, in a separate process.

    Returns:
        Spans of five batches: ``name``, ``batch`` (from 0), ``lane``, and ``begin`` and ``end`` in milliseconds.
    """
    with Caller("the timeline", trace_batches, grace=PATIENCE) as caller:
        caller.begin(session.of_kind(READER_KIND))
        spans: list[Span] = caller.end()
    return spans


def trace_batches(setup: Setup) -> list[Span]:
    """Run the pipeline with a trace, and return the spans of a few batches in steady state."""
    import dali_proxy
    import pipeline
    from benchmarks.graph import make_reader_pipeline
    from dali_proxy.pipeline._operator_api.trace import Trace

    pipe = make_reader_pipeline(pipeline, setup)
    with closing(pipe):
        batches = iter(dali_proxy.DALIGenericIterator(pipe, ["images", "labels"]))
        for _ in itertools.islice(batches, BEFORE):
            pass
        trace = pipe._internals.runner.executor.trace = Trace()
        # Batches in flight aren't traced; the first two traced batches aren't shown.
        for number in range(BATCHES + 8):
            begin = time.perf_counter()
            next(batches)
            trace.add("wait for the batch", -1 - number, begin, time.perf_counter())
        pipe._internals.runner.executor.trace = None
        spans = trace.spans()
    return select(spans)


def select(spans: list[Any]) -> list[Span]:
    """Select the spans of consecutive batches, and those of the loop during the same time."""
    numbers = sorted({span.batch for span in spans if span.batch >= 0})[2 : 2 + BATCHES]
    chosen = [span for span in spans if span.batch in numbers]
    if not chosen:
        return []
    start, end = min(span.begin for span in chosen), max(span.end for span in chosen)
    chosen += [span for span in spans if span.batch < 0 and start <= span.begin and span.end <= end]
    return [
        {
            "name": span.name,
            "batch": span.batch - numbers[0] if span.batch >= 0 else -1,
            "lane": span.lane,
            "begin": round((span.begin - start) * 1e3, 4),
            "end": round((span.end - start) * 1e3, 4),
        }
        for span in sorted(chosen, key=lambda span: span.begin)
    ]


def plot_timeline(spans: list[Span], document: dict[str, Any], path: Path) -> str:
    """Draw spans: a row for each thread, stream or engine, a colour for each batch.

    Args:
        spans: Spans from `record_timeline`.
        document: Document that names the machine and the date.
        path: PNG to write.

    Returns:
        A message for the user.
    """
    if not spans:
        return "No timeline: nothing was recorded."
    if (reason := missing_matplotlib()) is not None:
        return reason
    from matplotlib.figure import Figure

    lanes = sorted({span["lane"] for span in spans}, key=_rank)
    end = max(span["end"] for span in spans)
    figure = Figure(figsize=(8, 1.7 + 0.38 * len(lanes)), layout="constrained")
    axes = figure.subplots()
    for span in spans:
        row, width = lanes.index(span["lane"]), span["end"] - span["begin"]
        color = "#bbbbbb" if span["batch"] < 0 else COLORS[span["batch"] % len(COLORS)]
        axes.barh(row, width, left=span["begin"], height=0.8, color=color, edgecolor="white", linewidth=0.3)
        room = int(width / end * 90)  # characters
        if room >= 3 and not span["name"].startswith("sample "):
            axes.text(span["begin"] + width / 2, row, _short(span["name"], room), ha="center", va="center", fontsize=7)
    for batch in range(BATCHES):
        axes.barh(0, 0, color=COLORS[batch % len(COLORS)], label=f"batch {batch + 1}")
    axes.set_yticks(range(len(lanes)), lanes, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, end)
    axes.set_xlabel("milliseconds")
    axes.set_title(f"five batches of {document['setup']['batch_size']}, own reader: {title_of(document)}", fontsize=10)
    axes.legend(fontsize=7, ncols=BATCHES, loc="upper left", bbox_to_anchor=(0, -0.12 - 0.5 / len(lanes)))
    axes.grid(axis="x", alpha=0.3)
    figure.savefig(path, dpi=120)
    return f"Saved {path.name}."


def _rank(lane: str) -> tuple[int, str]:
    """Return the sort key of a row: the loop, the stages that lead, streams of the GPU, then threads that help."""
    kinds = ("MainThread", "cpu-stage", "gpu-stage", "stream", "gpu", "slot")
    found = [number for number, kind in enumerate(kinds) if kind in lane]
    return (found[0] if found else len(kinds)), lane


def _short(name: str, room: int) -> str:
    name = name.replace("fn.", "")
    return name if len(name) <= room else name[: room - 1] + "…"
