"""Format the results as a table and as JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.machine import describe_machine, describe_versions, short_name
from benchmarks.runner import KindResult

TITLES = {
    "reader": "the pipeline's own reader",
    "paths": "file paths",
    "bytes": "encoded bytes",
    "decoded": "decoded images",
    "decoded-one-worker": "decoded images, one worker",
    "arrays-60KB": "transport alone, 60 KB arrays",
    "arrays-562KB": "transport alone, 562 KB arrays",
}

NOT_IN_SETUP = ("kind", "folder", "dtype", "layout", "shard")
"""Fields of a setup that the JSON omits: those that all rivals of all kinds share, and a path."""

NOISE = 0.15
"""Cores that the rest of the machine may use before the table warns of it."""


def table(result: KindResult, reference: str) -> str:
    """Return the results of one kind as lines of text.

    Args:
        result: Results of the kind.
        reference: The rival whose rate the last column compares with the others'.

    Returns:
        A table with a row for each rival: median rate, range, CPU time, and how many times as fast the reference is.
    """
    title = TITLES[result.setup.kind]
    lines = [f"{title:<32}{'samples/s':>10}  {'range':<16}{'CPU ms/sample':>14}  {reference} is"]
    for name, rounds in result.rounds.items():
        rates = [measurement.rate for measurement in rounds]
        cpu = statistics.median(measurement.cpu_per_sample for measurement in rounds) * 1e3
        spread = f"{min(rates):,.0f}..{max(rates):,.0f}"
        line = f"  {name:<30}{statistics.median(rates):>10,.0f}  {spread:<16}{cpu:>14.2f}"
        if reference in result.rounds and name != reference:
            ratios = result.ratios(name, reference)
            line += f"  {statistics.median(ratios):.2f} x ({min(ratios):.2f}..{max(ratios):.2f})"
        lines.append(line)
    for name, reason in result.failures.items():
        lines.append(f"  {name:<30} left out: {reason.strip().splitlines()[-1]}")
    if (noise := result.other_cores()) > NOISE:
        lines.append(f"  Something else used {noise:.1f} cores of this machine: these results are less reliable.")
    return "\n".join(lines)


def as_json(
    results: Sequence[KindResult],
    costs: Mapping[str, Sequence[float]],
    reference: str,
    command: str,
    image_bytes: float,
) -> dict[str, Any]:
    """Return all measurements as one JSON object, whose fields ``results/README.md`` explains."""
    return {
        "date": date.today().isoformat(),
        "command": command,
        "machine": describe_machine(),
        "versions": describe_versions(),
        "picture_bytes_mean": round(image_bytes),
        "reference": reference,
        "kinds": {result.setup.kind: _kind_as_json(result, reference) for result in results},
        "costs": costs,
    }


def save(document: dict[str, Any], folder: Path, device_id: int | None, suffix: str = "") -> Path:
    """Write ``<date>-<device><suffix>.json``, replacing a file of the same day and device.

    Returns:
        The path of the file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{document['date']}-{short_name(device_id)}{suffix}.json"
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return path


def _kind_as_json(result: KindResult, reference: str) -> dict[str, object]:
    setup = {key: value for key, value in asdict(result.setup).items() if key not in NOT_IN_SETUP}
    rivals: dict[str, object] = {}
    for name, rounds in result.rounds.items():
        entry: dict[str, object] = {
            "rate": round(result.rate(name), 1),
            "rounds": [{key: round(value, 4) for key, value in asdict(one).items()} for one in rounds],
        }
        if reference in result.rounds and name != reference:
            ratios = result.ratios(name, reference)
            entry["reference_ratio"] = round(statistics.median(ratios), 3)
            entry["reference_ratio_range"] = [round(min(ratios), 3), round(max(ratios), 3)]
        rivals[name] = entry
    failures = {name: reason.strip().splitlines()[-1] for name, reason in result.failures.items()}
    return {"setup": setup, "rivals": rivals, "failures": failures}
