"""Measure throughput by threads, workers and sizes, and constant costs: ``python -m benchmarks.scaling``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.machine import core_count, describe_machine, describe_versions, short_name
from benchmarks.plots import plot_scaling
from benchmarks.report import save
from benchmarks.rivals import RIVALS
from benchmarks.runner import run_kind
from benchmarks.session import RESULTS
from benchmarks.steadiness import cost_by_batch, cost_by_epoch, cost_by_length, growth, has_grown
from benchmarks.workload import FILES, Setup, prepare_images

ARRAYS = {"arrays-10KB": 10_000, "arrays-100KB": 100_000, "arrays-1MB": 1_000_000, "arrays-10MB": 10_000_000}
BATCH_OF_ARRAYS = 8
"""Samples in a batch for the comparison of sample sizes: 80 MB per batch at most."""

BATCH_SIZES = (1, 4, 16, 64, 256, 512)
LENGTHS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)


def main() -> int:
    """Measure, print, and save JSON and a plot.

    Returns:
        1 if the cost of a sample grew, else 0.
    """
    options = parser().parse_args()
    folder = prepare_images(options.files)
    setups = {name: points for name, points in throughput_setups(folder).items() if name in options.series}
    document: dict[str, Any] = {
        "date": date.today().isoformat(),
        "machine": describe_machine(),
        "versions": describe_versions(),
        "rounds": options.rounds,
        "seconds": options.seconds,
        "throughput": {},
        "cost_per_sample": {},
        "growth": {},
    }
    with tqdm(bar_format="{desc}", leave=False, disable=None) as line:
        for name, points in setups.items():
            document["throughput"][name] = measure_series(name, points, options, line.set_description_str)
        for name, measure in cost_series(folder, options).items():
            line.set_description_str(f"cost of a sample by {name}")
            points_of_cost = measure()
            if has_grown(points_of_cost):  # measure again before reporting it
                again = measure()
                points_of_cost = min(points_of_cost, again, key=growth)
            document["cost_per_sample"][name] = points_of_cost
            document["growth"][name] = round(growth(points_of_cost), 3)
            costs = "  ".join(f"{point['x']:,}: {min(point['us']):.1f}" for point in points_of_cost)
            tqdm.write(f"CPU microseconds of a sample by {name}\n  {costs}")
            tqdm.write(f"  last third / first third: {document['growth'][name]:.2f}\n")
    path = save(document, options.output, None, "-scaling")
    print(f"Saved {path.name} ({short_name(None)}).")
    print(plot_scaling(document, path.with_suffix(".png")))
    grown = [name for name, points_of_cost in document["cost_per_sample"].items() if has_grown(points_of_cost)]
    if document["growth"]:
        print(
            f"The cost of a sample grows with: {', '.join(grown)}." if grown else "The cost of a sample does not grow."
        )
    return 1 if grown else 0


def throughput_setups(folder: Path) -> dict[str, dict[int, Setup]]:
    """Return the varied parameters, and the setup of the loaders for each value."""
    cores = core_count()
    counts = sorted({*(2**power for power in range(cores.bit_length())), cores})
    return {
        "threads": {count: Setup("bytes", folder, workers=cores, threads=count) for count in counts},
        "workers": {count: Setup("bytes", folder, workers=count, threads=cores) for count in counts},
        "sample size": {size: Setup(kind, folder, BATCH_OF_ARRAYS) for kind, size in ARRAYS.items()},
        "batch size": {size: Setup("bytes", folder, size) for size in BATCH_SIZES},
    }


def cost_series(folder: Path, options: argparse.Namespace) -> dict[str, Callable[[], list[dict[str, Any]]]]:
    """Return the parameters that must not affect the cost of a sample, and how to measure that."""
    setup = Setup("arrays-64B", folder)
    rounds, seconds, batches = options.rounds, options.seconds, options.batches
    every: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "dataset length": lambda: cost_by_length(setup, LENGTHS, rounds, seconds),
        "epoch": lambda: cost_by_epoch(setup, 12, batches),
        "batch": lambda: cost_by_batch(setup, 12, batches),
    }
    return {name: measure for name, measure in every.items() if name in options.series}


def measure_series(
    name: str, points: dict[int, Setup], options: argparse.Namespace, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Measure the rivals with each setup, and print a line for each."""
    found = []
    tqdm.write(f"Samples per second by {name}")
    for value, setup in points.items():
        result = run_kind(
            rivals_of(name, options.rivals), setup, rounds=options.rounds, seconds=options.seconds,
            say=lambda text, value=value: say(f"{name} {value}, {text}"),
        )  # fmt: skip
        rates = {rival: [round(one.rate, 1) for one in rounds] for rival, rounds in result.rounds.items()}
        medians = "  ".join(f"{rival} {result.rate(rival):,.0f}" for rival in rates)
        tqdm.write(f"  {value:>10,}  {medians}")
        for rival, reason in result.failures.items():
            tqdm.write(f"  {'':>10}  {rival} left out: {reason.strip().splitlines()[-1]}")
        setup_used = {
            "kind": setup.kind,
            "batch_size": setup.batch_size,
            "workers": setup.workers,
            "threads": setup.threads,
        }
        found.append({"x": value, "setup": setup_used, "rates": rates, "failures": result.failures})
    tqdm.write("")
    return found


def rivals_of(name: str, names: Iterable[str]) -> list[Any]:
    """Return the rivals that a series applies to: torch's DataLoader has no threads."""
    return [RIVALS[rival] for rival in names if not (name == "threads" and rival.startswith("torch"))]


def parser() -> argparse.ArgumentParser:
    """Create the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling",
        description="Throughput against threads, workers and sizes; the cost of a sample over time; on the CPU.",
    )
    series = ["threads", "workers", "sample size", "batch size", "dataset length", "epoch", "batch"]
    add = made.add_argument
    add("--series", nargs="+", choices=series, default=series, help="what to vary (default: all)")
    add(
        "--rivals", nargs="+", choices=list(RIVALS), default=["dali-proxy", "torch-best", "torch-pillow"],
        help="rivals to measure (default: %(default)s)",
    )  # fmt: skip
    add("--seconds", type=float, default=1.5, help="length of one measurement (default: %(default)s)")
    add("--rounds", type=int, default=3, help="measurements of each (default: %(default)s)")
    add("--batches", type=int, default=500, help="batches of an epoch or window of costs (default: %(default)s)")
    add("--files", type=int, default=FILES, help="number of JPEGs to create (default: %(default)s)")
    add("--output", type=Path, default=RESULTS, help="folder of the JSON (default: benchmarks/results)")
    return made


if __name__ == "__main__":
    sys.exit(main())
