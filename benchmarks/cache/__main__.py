"""The command line: ``python -m benchmarks.cache epochs``, ``misses``, ``disk``, ``gpu``, ``jobs`` or ``policies``."""

from __future__ import annotations

import argparse
import json
import sys

import torch

from benchmarks.cache.disk import measure_disk
from benchmarks.cache.epochs import PIPELINES, measure_epochs
from benchmarks.cache.files import KINDS
from benchmarks.cache.gpu_epochs import ON_GPU, measure_on_gpu
from benchmarks.cache.jobs import VARIANTS, measure_jobs, run_job
from benchmarks.cache.misses import measure_misses
from benchmarks.cache.policies import measure_policies


def main() -> int:
    """Measure, and print the figures as JSON."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.cache", description=__doc__)
    made.add_argument("what", choices=("epochs", "misses", "disk", "gpu", "jobs", "policies", "job"))
    made.add_argument("--kinds", nargs="+", choices=(*KINDS, "video"), help="kinds of files")
    made.add_argument("--pipelines", nargs="+", choices=tuple(PIPELINES), default=list(PIPELINES), help="pipelines")
    made.add_argument("--files", type=int, default=256, help="number of files; an eighth of it for 4k")
    made.add_argument("--rounds", type=int, default=5, help="rounds of each measurement; pairs of misses")
    made.add_argument("--jobs", type=int, default=4, help="number of jobs")
    made.add_argument("--epochs", type=int, default=4, help="epochs of each job")
    made.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), help="kinds of jobs")
    for name in ("variant", "folder", "name"):
        made.add_argument(f"--{name}", help="of one of the jobs, which `jobs` starts")
    options = made.parse_args()
    if options.what == "policies":
        print(json.dumps(measure_policies(), indent=2))
        return 0
    torch.set_num_threads(1)
    if options.what == "job":
        run_job(options.variant, options.folder, options.name, options.epochs)
        return 0
    if options.what == "gpu":
        for kind in options.kinds or ON_GPU:
            print(json.dumps(measure_on_gpu(kind, options.files, options.rounds)), flush=True)
        return 0
    results = []
    for kind in options.kinds or [kind for kind in KINDS if kind != "jpeg2000"]:
        count = max(options.files // (8 if kind == "4k" else 1), 1)
        if options.what == "jobs":
            results.append(measure_jobs(kind, count, options.jobs, options.epochs, options.rounds, options.variants))
            continue
        if options.what == "misses":
            results += [
                measure_misses(kind, name, count, options.rounds) for name in options.pipelines if name != "files"
            ]
            continue
        measure = measure_disk if options.what == "disk" else measure_epochs
        results += [measure(kind, name, count, options.rounds) for name in options.pipelines]
    print(json.dumps(results, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
