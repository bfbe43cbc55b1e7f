"""The command line: ``python -m benchmarks.graphs --help``."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.gpu.budget import Budget
from benchmarks.graphs.data import FILES, IMAGE_SIZES, write_images
from benchmarks.graphs.graphs import GRAPHS
from benchmarks.graphs.report import HEAD, as_json, line, plot
from benchmarks.graphs.session import Result, measure_all
from benchmarks.graphs.side import DEPTH, Setup
from benchmarks.machine import core_count, describe_machine, describe_versions
from benchmarks.operators.session import has_dali
from benchmarks.session import device_id


def main() -> int:
    """Measure graph after graph, print a line for each, and save the results after each."""
    options = parser().parse_args()
    if unknown := sorted(set(options.graphs) - set(GRAPHS)):
        print(f"unknown graphs: {', '.join(unknown)}; known: {', '.join(GRAPHS)}", file=sys.stderr)
        return 2
    with_dali = not options.without_dali
    if with_dali and not has_dali():
        print("NVIDIA DALI is not installed: only our rates are measured.")
        with_dali = False
    budget = Budget(options.limit)
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="dali-proxy-graphs-") as name:
        folder = options.images or Path(name)
        if options.images is None:
            write_images(folder, options.files, options.size)
        files = sorted(str(path) for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
        mean = sum(Path(file).stat().st_size for file in files) / len(files)
        print(f"{len(files)} JPEGs of {mean / 1000:.0f} KB, {options.threads} threads, {options.device}")
        print(HEAD, flush=True)
        setup = Setup(files, options.threads, device_id(options), options.rounds, options.seconds, with_dali)
        for result in measure_all(options.graphs, options.batches, setup, budget):
            print(line(result), flush=True)
            results.append(result)
            save(options, results, budget, mean)
    if budget.left_out:
        print(f"Left out, as {budget.limit:.0f} s were over: " + "; ".join(budget.left_out))
    document = save(options, results, budget, mean)
    if options.plot is not None:
        print(plot(document, options.plot))
    return 0


def save(options: argparse.Namespace, results: list[Result], budget: Budget, image_bytes: float) -> dict[str, Any]:
    """Return all results as a document, and write it if a file is chosen."""
    paths = ("json", "plot", "images")
    words = ["python -m benchmarks.graphs"]
    for name, value in vars(options).items():
        if name == "without_dali":
            words += ["--without-dali"] if value else []
        elif name not in paths:
            words.append(f"--{name} {','.join(map(str, value)) if isinstance(value, list) else value}")
    document = {
        "date": date.today().isoformat(),
        "command": " ".join(words),
        "machine": describe_machine(),
        "versions": describe_versions(),
        "image_bytes_mean": round(image_bytes),
        "prefetch_queue_depth": DEPTH,
        "graphs": [as_json(result) for result in results],
        "left_out": budget.left_out,
        "seconds": round(budget.elapsed, 1),
    }
    if options.json is not None:
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return document


def parser() -> argparse.ArgumentParser:
    """Create the parser of the command line."""
    created = argparse.ArgumentParser(
        prog="python -m benchmarks.graphs",
        description="Time whole graphs beside NVIDIA DALI's, in turn; print a line for each, save JSON and a plot.",
    )
    add = created.add_argument
    names, numbers = (lambda text: text.split(",")), (lambda text: [int(number) for number in text.split(",")])
    add("--device", default="cpu", help="cpu or cuda:0 (default: %(default)s)")
    add("--batches", type=numbers, default=[16, 64, 256], help="batch sizes (default: 16,64,256)")
    add("--graphs", type=names, default=list(GRAPHS), help=f"graphs (default: {','.join(GRAPHS)})")
    add("--rounds", type=int, default=3, help="measurements of each library (default: %(default)s)")
    add("--seconds", type=float, default=0.5, help="length of one measurement (default: %(default)s)")
    add("--threads", type=int, default=core_count(), help="threads of the pipelines (default: all cores)")
    add("--limit", type=float, default=600, help="seconds after which no measurement starts (default: %(default)s)")
    add("--files", type=int, default=FILES, help="how many JPEGs to generate (default: %(default)s)")
    add("--size", choices=IMAGE_SIZES, default="large", help="50 KB or 120 KB for each generated JPEG (default: large)")
    add("--images", type=Path, help="folder of JPEGs to read instead of generated ones")
    add("--json", type=Path, help="file to write")
    add("--plot", type=Path, help="PNG to write")
    add("--without-dali", action="store_true", help="measure only our rates")
    return created


if __name__ == "__main__":
    sys.exit(main())
