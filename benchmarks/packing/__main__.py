"""The command line: ``python -m benchmarks.packing plan``, ``patches`` or ``step``."""

from __future__ import annotations

import argparse
import json
import os
import sys

from benchmarks.packing.patches import measure_patches
from benchmarks.packing.plan import measure_plans
from benchmarks.packing.step import measure_steps


def main() -> int:
    """Measure, and print the figures as JSON."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.packing", description=__doc__)
    made.add_argument("what", choices=("plan", "patches", "step"))
    made.add_argument("--device", default="cpu", help='"cpu", or "cuda:0" ("cuda" for step, one GPU for each rank)')
    made.add_argument("--samples", type=int, default=60_000, help="plan: number of samples")
    made.add_argument("--tokens", type=int, default=8192, help="plan, step: tokens of a batch, at least 2,560")
    made.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="patches: threads")
    made.add_argument("--batch-size", type=int, default=32, help="patches: images of a batch")
    made.add_argument("--seconds", type=float, default=5.0, help="patches: duration of each measurement")
    made.add_argument("--steps", type=int, default=20, help="step: steps of a round")
    made.add_argument("--width", type=int, default=768, help="step: width of the model")
    made.add_argument("--depth", type=int, default=8, help="step: blocks of each part of the model")
    options = made.parse_args()
    if options.what == "plan":
        result = measure_plans(options.samples, options.tokens)
    elif options.what == "patches":
        result = measure_patches(options.device, options.threads, options.seconds, options.batch_size)
    else:
        device = options.device.partition(":")[0]
        result = measure_steps(device, options.steps, options.tokens, options.width, options.depth)
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
