"""The command line: ``python -m benchmarks.cache epochs`` or ``policies``."""

from __future__ import annotations

import argparse
import json
import sys

import torch

from benchmarks.cache.epochs import PIPELINES, measure_epochs
from benchmarks.cache.files import KINDS
from benchmarks.cache.policies import measure_policies


def main() -> int:
    """Measure, and print the figures as JSON."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.cache", description=__doc__)
    made.add_argument("what", choices=("epochs", "policies"))
    made.add_argument("--kinds", nargs="+", choices=tuple(KINDS), default=list(KINDS), help="kinds of files")
    made.add_argument("--pipelines", nargs="+", choices=tuple(PIPELINES), default=list(PIPELINES), help="pipelines")
    made.add_argument("--files", type=int, default=256, help="number of files; an eighth of it for 4k")
    made.add_argument("--rounds", type=int, default=5, help="rounds of each measurement")
    options = made.parse_args()
    if options.what == "policies":
        print(json.dumps(measure_policies(), indent=2))
        return 0
    torch.set_num_threads(1)
    results = []
    for kind in options.kinds:
        count = max(options.files // (8 if kind == "4k" else 1), 1)
        results += [measure_epochs(kind, name, count, options.rounds) for name in options.pipelines]
    print(json.dumps(results, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
