"""The command line of the benchmarks: ``python -m benchmarks --help``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.plots import plot_ratios
from benchmarks.report import save
from benchmarks.session import RESULTS, add_options, device_id, measure_all
from benchmarks.targets import summary


def main() -> int:
    """Measure, print the tables, and save the JSON and a plot."""
    options = parser().parse_args()
    document = measure_all(options)
    if options.device == "cpu":
        print(summary(document) + "\n")
    path = save(document, options.output, device_id(options))
    print(f"Saved {path.name}.")
    print(plot_ratios(document, path.with_suffix(".png")))
    return 0


def parser() -> argparse.ArgumentParser:
    """Create the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Time loaders in turn on the same images; print tables, save JSON and a plot of the ratios.",
    )
    # With these, everything takes nine minutes on two otherwise idle cores.
    add_options(made, rounds=5, seconds=2.0)
    made.add_argument("--output", type=Path, default=RESULTS, help="folder of the JSON (default: benchmarks/results)")
    return made


if __name__ == "__main__":
    sys.exit(main())
