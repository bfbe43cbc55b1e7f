"""The command line of the benchmarks: ``python -m benchmarks --help``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tqdm import tqdm

from benchmarks.report import as_json, save, table
from benchmarks.rivals import RIVALS
from benchmarks.runner import run_kind
from benchmarks.workload import FILES, KINDS, Setup, prepare_pictures

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Measures, prints the tables and saves the JSON."""
    options = parser().parse_args()
    device_id = None if options.device == "cpu" else int(options.device.partition(":")[2])
    folder = prepare_pictures(options.files)
    sizes = [path.stat().st_size for path in folder.iterdir()]
    mean_size = sum(sizes) / len(sizes)
    print(
        f"{len(sizes)} JPEGs of {mean_size / 1000:.0f} KB, batches of {options.batch_size}, {options.workers} workers, "
        f"{options.threads} pipeline threads, {options.rounds} rounds in turn\n"
    )
    results = []
    rivals = [RIVALS[name] for name in options.rivals]
    with tqdm(bar_format="{desc}", leave=False, disable=None) as line:
        for kind in options.kinds:
            setup = Setup(kind, folder, options.batch_size, options.workers, options.threads, device_id)
            result = run_kind(
                rivals, setup, rounds=options.rounds, seconds=options.seconds, say=line.set_description_str
            )
            tqdm.write(table(result, options.reference) + "\n")
            results.append(result)
    document = as_json(results, options.reference, command(options), mean_size)
    print(f"Saved {save(document, options.output, device_id).name}.")
    return 0


def command(options: argparse.Namespace) -> str:
    """The command that repeats these measurements, without the output folder: no path belongs into the results."""
    words = ["python -m benchmarks"]
    for name, value in vars(options).items():
        if name != "output":
            words += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, list) else [value])]
    return " ".join(words)


def parser() -> argparse.ArgumentParser:
    """Makes the parser of the command line."""
    names = list(RIVALS)
    made = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Time loaders in turn on the same pictures; print tables and save JSON.",
    )
    made.add_argument(
        "--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="what the datasets hand over (default: all)"
    )
    made.add_argument("--rivals", nargs="+", choices=names, default=names, help="who takes part (default: all)")
    made.add_argument(
        "--reference", choices=names, default=names[0], help="who is compared with the others (default: %(default)s)"
    )
    made.add_argument("--seconds", type=float, default=2.5, help="length of one measurement (default: %(default)s)")
    made.add_argument("--rounds", type=int, default=5, help="measurements of each rival (default: %(default)s)")
    made.add_argument("--batch-size", type=int, default=64, help="samples in a batch (default: %(default)s)")
    made.add_argument("--workers", type=int, default=2, help="dataset worker processes (default: %(default)s)")
    made.add_argument("--threads", type=int, default=2, help="threads of the pipelines (default: %(default)s)")
    made.add_argument("--files", type=int, default=FILES, help="how many JPEGs to make (default: %(default)s)")
    made.add_argument("--device", default="cpu", help="cpu or cuda:0 (default: %(default)s)")
    made.add_argument("--output", type=Path, default=RESULTS, help="folder of the JSON (default: benchmarks/results)")
    return made


if __name__ == "__main__":
    sys.exit(main())
