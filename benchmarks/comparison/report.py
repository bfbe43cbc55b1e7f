"""Format the results of jobs as tables and as JSON."""

from __future__ import annotations

import statistics
from dataclasses import asdict
from datetime import date
from typing import Any

from benchmarks.comparison.jobs import JOBS
from benchmarks.comparison.rival import Cores
from benchmarks.comparison.rivals import RIVALS
from benchmarks.comparison.session import JobResult, RivalResult
from benchmarks.machine import describe_machine, describe_versions
from benchmarks.report import NOISE

OURS = "dali-proxy"


def table(result: JobResult) -> str:
    """Return the results of a job as lines of text."""
    job = JOBS[result.job]
    lines = [
        f"{job.title}, batches of {job.batch_size}",
        f"  {'':<18}{'samples/s':>10}  {'range':<16}{'CPU ms':>8}{'MiB':>7}{'first s':>8}{'differs':>9}  {OURS} is",
    ]
    for name, one in result.rivals.items():
        rates = [measured.rate for measured in one.rounds]
        line = f"  {name:<18}{one.rate:>10,.0f}  {f'{min(rates):,.0f}..{max(rates):,.0f}':<16}"
        line += f"{one.cpu_milliseconds:>8.3f}{one.memory:>7,.0f}{one.start.seconds:>8.2f}"
        line += f"{one.start.differences[0].mean:>9.3f}"
        if ratios := _ratios(result, name):
            line += f"  {statistics.median(ratios):.2f} x ({min(ratios):.2f}..{max(ratios):.2f})"
        lines.append(line)
    for name, reason in result.failures.items():
        lines.append(f"  {name:<18} left out: {reason.strip().splitlines()[-1]}")
    if (noise := result.other_cores()) > NOISE:
        lines.append(f"  Something else used {noise:.1f} cores of this machine: these results are less reliable.")
    return "\n".join(lines)


def as_json(results: list[JobResult], command: str, cores: Cores, seconds: float) -> dict[str, Any]:
    """Return all measurements as one JSON object, whose fields ``results/README.md`` explains."""
    return {
        "date": date.today().isoformat(),
        "command": command,
        "machine": describe_machine(),
        "versions": describe_versions(),
        "reference": OURS,
        "cores": f"{cores.workers} worker processes or {cores.threads} threads",
        "jobs": {result.job: _job(result) for result in results},
        "seconds": round(seconds),
    }


def _job(result: JobResult) -> dict[str, Any]:
    job = JOBS[result.job]
    return {
        "date": date.today().isoformat(),
        "title": job.title,
        "batch_size": job.batch_size,
        "unit": job.unit,
        "bounds": list(job.bounds),
        "other_cores": round(result.other_cores(), 2),
        "rivals": {name: _rival(result, name, one) for name, one in result.rivals.items()},
        "failures": {name: reason.strip().splitlines()[-1] for name, reason in result.failures.items()},
    }


def _rival(result: JobResult, name: str, one: RivalResult) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "title": RIVALS[name].title,
        "version": one.start.version,
        "rate": round(one.rate, 1),
        "rounds": [{key: round(value, 4) for key, value in asdict(measured).items()} for measured in one.rounds],
        "cpu_milliseconds": round(one.cpu_milliseconds, 4),
        "memory_MiB": one.memory,
        "first_batch_seconds": round(one.start.seconds, 2),
        "differences": [
            {key: round(value, 4) for key, value in asdict(each).items()} for each in one.start.differences
        ],
    }
    if ratios := _ratios(result, name):
        entry["reference_ratio"] = round(statistics.median(ratios), 3)
        entry["reference_ratio_range"] = [round(min(ratios), 3), round(max(ratios), 3)]
    return entry


def _ratios(result: JobResult, name: str) -> list[float]:
    """Return our rate divided by that of a rival, one figure per round."""
    if name == OURS or OURS not in result.rivals:
        return []
    pairs = zip(result.rivals[OURS].rounds, result.rivals[name].rounds, strict=False)
    return [ours.rate / theirs.rate for ours, theirs in pairs]
