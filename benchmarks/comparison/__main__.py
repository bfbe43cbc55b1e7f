"""The command line: ``python -m benchmarks.comparison --help``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

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
    """Measure job after job, print a table for each, and save the JSON after each, with earlier results of others."""
    options = parser().parse_args()
    budget = Budget(options.limit)
    results: list[JobResult] = []
    command = written(options, "python -m benchmarks.comparison")
    cores = Cores(options.workers, options.threads)
    earlier = last_jobs(options.output)
    with tempfile.TemporaryDirectory() as folder, ffmpeg_found(folder), tqdm(bar_format="{desc}", leave=False) as line:
        for name in options.jobs or sorted(JOBS, key=lambda name: str(earlier.get(name, {}).get("date", ""))):
            if not budget.allows(name):
                continue
            JOBS[name].prepare()
            tell = line.set_description_str
            results.append(
                run_job(name, options.rivals, cores, rounds=options.rounds, seconds=options.seconds, say=tell)
            )
            tqdm.write(table(results[-1]) + "\n")
            document = as_json(results, command, cores, budget.elapsed)
            known = {**earlier, **document["jobs"]}
            document["jobs"] = {job: known[job] for job in JOBS if job in known}
            path = save(document, options.output, None, SUFFIX)
            print(f"Saved {path.name}.")
    if budget.left_out:
        print(f"Left out, as {budget.limit:.0f} s were over: {', '.join(budget.left_out)}")
    print("python -m docs.comparison writes the page.")
    return 0


def last_jobs(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the last results of each job on this kind of machine."""
    paths = sorted(folder.glob(f"*-{short_name(None)}{SUFFIX}.json"))
    document = json.loads(paths[-1].read_text()) if paths else {"jobs": {}}
    return {name: {"date": document["date"], **job} for name, job in document["jobs"].items()}


def parser() -> argparse.ArgumentParser:
    """Create the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.comparison",
        description="Time loaders on several kinds of data, in turn; print a table for each, save JSON.",
    )
    add = made.add_argument
    add(
        "--jobs",
        nargs="+",
        choices=JOBS,
        help="kinds of data (default: all, those without results first, then the oldest)",
    )
    add("--rivals", nargs="+", choices=RIVALS, default=list(RIVALS), help="loaders (default: all)")
    add("--rounds", type=int, default=2, help="measurements of each loader (default: %(default)s)")
    add("--seconds", type=float, default=2.0, help="length of one measurement (default: %(default)s)")
    add("--workers", type=int, default=2, help="worker processes of each loader (default: %(default)s)")
    add("--threads", type=int, default=2, help="threads of each loader (default: %(default)s)")
    add("--limit", type=float, default=840, help="seconds after which no job starts (default: %(default)s)")
    add("--output", type=Path, default=RESULTS, help="folder of the JSON (default: benchmarks/results)")
    return made


if __name__ == "__main__":
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):  # else each process would compile the modules of this checkout
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.comparison", *sys.argv[1:]])
    sys.exit(main())
