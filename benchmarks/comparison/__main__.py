"""The command line: ``python -m benchmarks.comparison --help``."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from datetime import date
from pathlib import Path

from tqdm import tqdm

from benchmarks.comparison.jobs import JOBS
from benchmarks.comparison.report import as_json, table
from benchmarks.comparison.rival import Cores
from benchmarks.comparison.rivals import RIVALS
from benchmarks.comparison.session import JobResult, run_job
from benchmarks.ffmpeg import ffmpeg_found
from benchmarks.gpu.budget import Budget
from benchmarks.machine import short_name
from benchmarks.report import save
from benchmarks.session import RESULTS
from benchmarks.session import command as written

SUFFIX = "-comparison"


def main() -> int:
    """Measure job after job, print a table for each, and save the JSON after each."""
    options = parser().parse_args()
    budget = Budget(options.limit)
    results: list[JobResult] = []
    command = written(options, "python -m benchmarks.comparison")
    cores = Cores(options.workers, options.threads)
    path = options.output / f"{date.today().isoformat()}-{short_name(None)}{SUFFIX}.json"
    earlier = json.loads(path.read_text()) if path.exists() else None
    with tempfile.TemporaryDirectory() as folder, ffmpeg_found(folder), tqdm(bar_format="{desc}", leave=False) as line:
        for name in options.jobs:
            if not budget.allows(name):
                continue
            JOBS[name].prepare()
            tell = line.set_description_str
            results.append(
                run_job(name, options.rivals, cores, rounds=options.rounds, seconds=options.seconds, say=tell)
            )
            tqdm.write(table(results[-1]) + "\n")
            document = as_json(results, command, cores, budget.elapsed)
            if earlier is not None:  # of the same day: jobs that weren't measured again stay
                document["jobs"] = {**earlier["jobs"], **document["jobs"]}
                document["seconds"] = max(document["seconds"], earlier["seconds"])
            save(document, options.output, None, SUFFIX)
    if budget.left_out:
        print(f"Left out, as {budget.limit:.0f} s were over: {', '.join(budget.left_out)}")
    print(f"Saved {path.name}; python -m docs.comparison writes the page.")
    return 0


def parser() -> argparse.ArgumentParser:
    """Create the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.comparison",
        description="Time loaders on several kinds of data, in turn; print a table for each, save JSON.",
    )
    add = made.add_argument
    add("--jobs", nargs="+", choices=JOBS, default=list(JOBS), help="kinds of data (default: all)")
    add("--rivals", nargs="+", choices=RIVALS, default=list(RIVALS), help="loaders (default: all)")
    add("--rounds", type=int, default=2, help="measurements of each loader (default: %(default)s)")
    add("--seconds", type=float, default=4.0, help="length of one measurement (default: %(default)s)")
    add("--workers", type=int, default=2, help="worker processes of each loader (default: %(default)s)")
    add("--threads", type=int, default=2, help="threads of each loader (default: %(default)s)")
    add("--limit", type=float, default=840, help="seconds after which no job starts (default: %(default)s)")
    add("--output", type=Path, default=RESULTS, help="folder of the JSON (default: benchmarks/results)")
    return made


if __name__ == "__main__":
    sys.exit(main())
