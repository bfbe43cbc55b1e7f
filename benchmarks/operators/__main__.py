"""The command line: ``python -m benchmarks.operators --help``."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.machine import core_count, short_name
from benchmarks.operators.cases import CASES, Case
from benchmarks.operators.data import write_files
from benchmarks.operators.report import as_json, line
from benchmarks.operators.session import measure_all, trace_all
from benchmarks.report import save
from benchmarks.session import RESULTS, device_id
from dali_proxy.pipeline._declaration.registry import lookup


def main() -> int:
    """Measure case after case, print a line for each, and save the JSON."""
    options = parser().parse_args()
    on_gpu = device_id(options) is not None
    results = []
    with tempfile.TemporaryDirectory(prefix="dali-proxy-operators-") as name:
        folder = Path(name)
        write_files(folder)
        for result in measure_all(chosen(options), folder, options, on_gpu):
            print(line(result), flush=True)
            results.append(result)
        if on_gpu:
            trace_all(results, folder, options)
    document = as_json(results, options)
    if options.only:
        earlier = options.output / f"{document['date']}-{short_name(device_id(options))}-operators.json"
        document = merged(json.loads(earlier.read_text()), document) if earlier.exists() else document
    path = save(document, options.output, device_id(options), "-operators")
    print(f"Saved {path.name}.")
    return 0


def merged(earlier: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Return earlier results of the day, updated with those of the measured operators."""
    new = {(one["operator"], one["variant"]): one for one in now["operators"]}
    kept = [new.pop((one["operator"], one["variant"]), one) for one in earlier["operators"]]
    commands = dict.fromkeys([*earlier["command"].split("; "), now["command"]])
    return {**earlier, "command": "; ".join(commands), "operators": [*kept, *new.values()]}


def chosen(options: argparse.Namespace) -> list[Case]:
    """Return the cases of the chosen operators that run on the device."""
    device = options.device.partition(":")[0].replace("cuda", "gpu")
    names = options.only.split(",") if options.only else None
    return [case for case in CASES if runs_on(case, device) and (names is None or case.operator in names)]


def runs_on(case: Case, device: str) -> bool:
    """Return whether a case can be measured on "cpu" or "gpu"."""
    there = ["gpu" if each == "mixed" else each for each in lookup(case.operator).devices]
    return device in there and device in case.devices


def parser() -> argparse.ArgumentParser:
    """Create the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.operators",
        description="Compare the time of every operator with NVIDIA DALI's, in turn, on the same batches of 64; print "
        "a line for each, save JSON.",
    )
    add = made.add_argument
    add("--device", default="cpu", help="cpu or cuda:0 (default: %(default)s)")
    add("--only", default="", help="operators, separated by commas: only these figures of the day change")
    add("--rounds", type=int, default=3, help="measurements of each library (default: %(default)s)")
    add("--seconds", type=float, default=0.15, help="length of one measurement (default: %(default)s)")
    add("--threads", type=int, default=core_count(), help="threads of the pipelines (default: all cores)")
    add("--limit", type=float, default=240, help="seconds after which no operator starts (default: %(default)s)")
    add("--output", type=Path, default=RESULTS, help="folder of the JSON (default: benchmarks/results)")
    return made


if __name__ == "__main__":
    sys.exit(main())
