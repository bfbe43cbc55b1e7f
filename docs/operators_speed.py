"""Writes docs/operators-speed.md: every operator's speed compared with NVIDIA DALI's, from the latest measurements.

    python -m docs.operators_speed

`python -m benchmarks.operators` measures, on the CPU or with `--device cuda:0` on a GPU.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.operators.cases import LEFT_OUT
from docs import slower

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER / "operators-speed.md"
RESULTS = FOLDER.parent / "benchmarks" / "results"
#: A lower ratio needs an explanation, by device.
SLOW = {"cpu": 0.95, "gpu": 0.9}

_UNKNOWN = "Not investigated yet."

HEAD = """# Speed of operators compared with NVIDIA DALI's

The ratios say how many times as fast as NVIDIA DALI each operator is: 2 takes half of DALI's time, 0.5 twice its time.
`python -m docs.operators_speed` writes this page from the results of `python -m benchmarks.operators`:

{sources}

On the CPU, times and ratios are processor times of all threads, because other programs ran on that machine, which
changes the elapsed time. *By the clock* is the ratio of elapsed times. On the GPU, times are elapsed times of many
batches; *kernels* is how long kernels and copies of a batch take there, ours / DALI's, traced by CUDA in a run of its
own. Where they take much less than the batch, the host limits it.

Each pipeline has a single operator. Its input is a batch of 64 in the memory of its device, so no time is spent on
reading or copying the input. The times are those of a whole batch, and include the pipeline's work for each batch. If
no data has to move (`slice`, `reshape`, `permute_batch` and others), our output is a view of the input. Images have
480 x 640 pixels, thumbnails (for slow operators) 240 x 320, planes are 3 x 224 x 224 floats;
`benchmarks/operators/cases.py` has every call. Both libraries run it in turn, with a thread for each core. A ratio is
the median of {rounds} rounds, followed by the smallest and the largest. Bold ratios are explained below the table.

| operator | case | CPU, ms | DALI, ms | ratio | by the clock | GPU, ms | DALI, ms | ratio | kernels, ms |
| --- | --- | ---: | ---: | --- | --- | ---: | ---: | --- | --- |
"""


def page() -> str:
    """Return the page, from the latest results."""
    named = {device: measured(device) for device in ("cpu", "gpu")}
    rows = []
    for operator, variant in dict.fromkeys([*named["cpu"], *named["gpu"]]):
        cells = [f"`{operator}`", variant]
        cells += _cells(named["cpu"].get((operator, variant)), "cpu_milliseconds", "cpu_ratio", SLOW["cpu"])
        cells += _cells(named["cpu"].get((operator, variant)), "milliseconds", "speed", 0.0)[-1:]
        cells += _cells(named["gpu"].get((operator, variant)), "milliseconds", "speed", SLOW["gpu"])
        cells.append(_kernels(named["gpu"].get((operator, variant))))
        rows.append("| " + " | ".join(cells) + " |")
    documents = [document for device in ("cpu", "gpu") for document in results(device)]
    head = HEAD.format(
        sources="\n".join(map(_source, documents)),
        rounds=max(len(times) for document in documents for one in document["operators"]
                   for times in one["milliseconds"].values()),
    )  # fmt: skip
    text = head + "\n".join(rows) + "\n"
    for device, title, reasons in (("cpu", "the CPU", slower.ON_CPU), ("gpu", "the GPU", slower.ON_GPU)):
        if explained := sorted(slow(device)):
            text += f"\n## Why these are slower on {title}\n\n| operators | why |\n| --- | --- |\n"
            text += _reasons(explained, reasons)
    text += "\n## Not measured here\n\n| operator | why |\n| --- | --- |\n"
    return text + "".join(f"| `{operator}` | {reason} |\n" for operator, reason in LEFT_OUT.items())


def results(device: str) -> list[dict[str, Any]]:
    """Return the results of a device, "cpu" or "gpu", by date."""
    paths = [path for path in RESULTS.glob("*-operators.json") if ("-cpu-" in path.name) == (device == "cpu")]
    return [json.loads(path.read_text()) for path in sorted(paths)]


def measured(device: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the last result of each operator and case on a device."""
    return {(one["operator"], one["variant"]): one for document in results(device) for one in document["operators"]}


def slow(device: str) -> dict[str, float]:
    """Return the operators whose ratio is below `SLOW`, with their lowest ratio."""
    found: dict[str, float] = {}
    name = "cpu_ratio" if device == "cpu" else "speed"
    for one in measured(device).values():
        if one.get(name, 1.0) < SLOW[device]:
            found[one["operator"]] = min(one[name], found.get(one["operator"], 1.0))
    return found


def _cells(one: dict[str, Any] | None, times: str, ratio: str, least: float) -> list[str]:
    """Return our time, DALI's, and the ratio, bold below `least`: it needs an explanation."""
    if one is None:
        return ["", "", ""]
    cells = [_median(one[times].get(side)) for side in ("dali-proxy", "nvidia-dali")]
    if ratio not in one:
        return [*cells, ""]
    low, high = one[f"{ratio}_range"]
    said = f"{_short(one[ratio])} ({_short(low)} to {_short(high)})"
    return [*cells, f"**{said}**" if one[ratio] < least else said]


def _kernels(one: dict[str, Any] | None) -> str:
    """Return how long the GPU works for a batch, ours and DALI's."""
    traced = (one or {}).get("gpu_milliseconds", {})
    return " / ".join(f"{traced[side]:.2f}" for side in ("dali-proxy", "nvidia-dali") if side in traced)


def _median(times: list[float] | None) -> str:
    return "" if not times else f"{sorted(times)[len(times) // 2]:.2f}"


def _short(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"


def _reasons(operators: list[str], reasons: dict[str, str]) -> str:
    """Return one row for all operators that have the same reason."""
    by_reason: dict[str, list[str]] = {}
    for operator in operators:
        by_reason.setdefault(reasons.get(operator, _UNKNOWN), []).append(f"`{operator}`")
    return "".join(f"| {', '.join(alike)} | {reason} |\n" for reason, alike in by_reason.items())


def _source(document: dict[str, Any]) -> str:
    machine = document["machine"]
    what = machine["gpus"][0] if "cuda" in document["command"] else machine["processor"]
    loads = [one["load"] for one in document["operators"] if "load" in one]
    busy = f", {len(loads)} cases at a load average of {min(loads):g} to {max(loads):g}" if loads else ""
    command = re.sub(r" --only \S+| \(commit \w+\)", "", document["command"])
    command = "; ".join(dict.fromkeys(command.split("; ")))
    return f"- {document['date']}, {what}, {machine['cores']} cores{busy}: `{command}`."


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
