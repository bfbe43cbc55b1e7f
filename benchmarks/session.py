"""One session of measurements: its options, and the code that ``make bench`` and ``make bench-check`` share."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.costs import measure_costs
from benchmarks.report import as_json, table
from benchmarks.rivals import RIVALS
from benchmarks.runner import run_kind
from benchmarks.workload import FILES, KINDS, ONE_WORKER_KIND, Setup, prepare_images

RESULTS = Path(__file__).parent / "results"


def measure_all(options: argparse.Namespace) -> dict[str, Any]:
    """Measure, and print a table for each kind.

    Args:
        options: Options from `add_options`.

    Returns:
        The document of results.
    """
    folder = prepare_images(options.files)
    sizes = [path.stat().st_size for path in folder.iterdir()]
    mean_size = sum(sizes) / len(sizes)
    print(
        f"{len(sizes)} JPEGs of {mean_size / 1000:.0f} KB, batches of {options.batch_size}, {options.workers} workers, "
        f"{options.threads} pipeline threads, {options.rounds} rounds in turn\n"
    )
    results = []
    costs = {}
    rivals = [RIVALS[name] for name in options.rivals]
    with tqdm(bar_format="{desc}", leave=False, disable=None) as line:
        say = line.set_description_str
        for kind in options.kinds:
            workers = 1 if kind == ONE_WORKER_KIND else options.workers
            setup = Setup(kind, folder, options.batch_size, workers, options.threads, device_id(options))
            result = run_kind(rivals, setup, rounds=options.rounds, seconds=options.seconds, say=say)
            tqdm.write(table(result, options.reference) + "\n")
            results.append(result)
        if options.device == "cpu" and options.costs:
            setup = Setup("bytes", folder, options.batch_size, options.workers, options.threads)
            costs = measure_costs(setup, options.rounds, options.seconds, say)
    return as_json(results, costs, options.reference, command(options), mean_size)


def device_id(options: argparse.Namespace) -> int | None:
    """Return the index of the GPU, None for the CPU."""
    return None if options.device == "cpu" else int(options.device.partition(":")[2])


def command(options: argparse.Namespace, program: str = "python -m benchmarks") -> str:
    """Return the command that repeats these measurements, without the output folder: results contain no paths."""
    words = program.split()
    for name, value in vars(options).items():
        if name == "costs":
            words += [] if value else ["--no-costs"]
        elif name != "output" and value not in (None, []):
            words += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, list) else [value])]
    return shlex.join(words)


def add_options(parser: argparse.ArgumentParser, *, rounds: int, seconds: float) -> None:
    """Add the options of a session to a command line.

    Args:
        parser: The parser to extend.
        rounds: The default of ``--rounds``.
        seconds: The default of ``--seconds``.
    """
    names = list(RIVALS)
    add = parser.add_argument
    add(
        "--kinds",
        nargs="+",
        choices=KINDS,
        default=list(KINDS),
        help="what the datasets pass to the loader (default: all)",
    )
    add("--rivals", nargs="+", choices=names, default=names, help="rivals to measure (default: all)")
    add("--reference", choices=names, default=names[0], help="rival to compare with the others (default: %(default)s)")
    add("--seconds", type=float, default=seconds, help="length of one measurement (default: %(default)s)")
    add("--rounds", type=int, default=rounds, help="measurements of each rival (default: %(default)s)")
    add("--batch-size", type=int, default=64, help="samples in a batch (default: %(default)s)")
    add("--workers", type=int, default=2, help="dataset worker processes (default: %(default)s)")
    add("--threads", type=int, default=2, help="threads of the pipelines (default: %(default)s)")
    add("--files", type=int, default=FILES, help="number of JPEGs to create (default: %(default)s)")
    add("--device", default="cpu", help="cpu or cuda:0 (default: %(default)s)")
    add("--no-costs", dest="costs", action="store_false", help="skip start-up and the server's own work")
