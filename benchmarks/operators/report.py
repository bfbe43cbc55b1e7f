"""Format the results as lines of text and as JSON."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from datetime import date
from typing import Any

from benchmarks.machine import describe_machine, describe_versions
from benchmarks.operators.data import BATCH
from benchmarks.operators.session import OURS, THEIRS, Result


def line(result: Result) -> str:
    """Return the line of a case: milliseconds of both libraries, and how many times as fast as DALI we are."""
    text = f"{result.case.name:<40}"
    for side in (OURS, THEIRS):
        found = result.milliseconds(side)
        text += "         -" if found is None else f"{found:>10.2f}"
    if speeds := result.speeds:
        text += f"  {statistics.median(speeds):.2f} x ({min(speeds):.2f}..{max(speeds):.2f})"
        text += f"  of the CPU {statistics.median(result.thrift):.2f} x"
    return text + "".join(f"  {side}: {reason}" for side, reason in result.failures.items())


def as_json(results: Sequence[Result], options: argparse.Namespace) -> dict[str, Any]:
    """Return all measurements as one JSON object, whose fields ``results/README.md`` explains."""
    words = [
        f"--{name} {value}" for name, value in vars(options).items() if name != "output" and value not in ("", None)
    ]
    return {
        "date": date.today().isoformat(),
        "command": " ".join(["python -m benchmarks.operators", *words]),
        "machine": describe_machine(),
        "versions": describe_versions(),
        "batch_size": BATCH,
        "operators": [_as_json(result) for result in results],
    }


def _as_json(result: Result) -> dict[str, Any]:
    entry: dict[str, Any] = {"operator": result.case.operator, "variant": result.case.variant}
    entry["load"] = round(result.load, 1)
    entry["milliseconds"] = {
        side: [round(timing.milliseconds, 4) for timing in rounds] for side, rounds in result.rounds.items()
    }
    entry["cpu_milliseconds"] = {
        side: [round(timing.cpu_milliseconds, 4) for timing in rounds] for side, rounds in result.rounds.items()
    }
    for name, ratios in (("speed", result.speeds), ("cpu_ratio", result.thrift)):
        if ratios:
            entry[name] = round(statistics.median(ratios), 3)
            entry[f"{name}_range"] = [round(min(ratios), 3), round(max(ratios), 3)]
    if result.on_gpu:
        entry["gpu_milliseconds"] = {side: round(time, 4) for side, time in result.on_gpu.items()}
    if result.failures:
        entry["failures"] = result.failures
    return entry
