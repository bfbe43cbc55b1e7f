"""The command line of the benchmarks on a GPU: ``python -m benchmarks.gpu --help``."""

from __future__ import annotations

import argparse
import sys
from datetime import date
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu import gil, goals, neighbours, pixels, sizes, timeline, training
from benchmarks.gpu.budget import Budget
from benchmarks.gpu.mps import multi_process_service
from benchmarks.gpu.plots import plot_all
from benchmarks.gpu.session import Session
from benchmarks.gpu.throughput import KINDS, REFERENCE, RIVALS, measure_throughput
from benchmarks.graphs.graphs import GRAPHS
from benchmarks.graphs.report import HEAD, line
from benchmarks.graphs.report import as_json as graph_as_json
from benchmarks.graphs.session import measure_all
from benchmarks.graphs.side import Setup as GraphSetup
from benchmarks.machine import core_count, describe_machine, describe_versions
from benchmarks.operators.session import has_dali
from benchmarks.report import as_json, save
from benchmarks.rivals.base import Rival
from benchmarks.rivals.ours import Ours
from benchmarks.session import RESULTS, command, device_id
from benchmarks.workload import Setup, prepare_images

PARTS = ("pixels", "throughput", "graphs", "timeline", "sizes", "training", "gil", "neighbours", "mps")
ON_REQUEST = ("gil", "neighbours", "mps")
"""Parts that would take too long in a run with the others."""

GRAPH_ROUNDS, GRAPH_SECONDS = 2, 0.3
"""Measurements of each graph, and their duration: there are many graphs."""

SUFFIX = "-gpu"
Document = dict[str, Any]


def main() -> int:
    """Measure everything, section by section, and save the results after each.

    Returns:
        1 if pixels are wrong, 2 without a GPU, else 0: a missing rival isn't an error.
    """
    options = parser().parse_args()
    if options.device != "cpu" and not torch.cuda.is_available():
        print("torch sees no GPU here: nothing to measure. `make bench` compares on the CPU.", file=sys.stderr)
        return 2
    return 0 if run(options) else 1


def run(options: argparse.Namespace) -> bool:
    """Run the chosen sections; return whether all checked pixels are right."""
    budget = Budget(options.limit)

    def say(what: str) -> None:
        print(f"[{budget.elapsed:5.0f} s] {what}", flush=True)

    say(f"creating {options.files} JPEGs, unless they exist")
    folder = prepare_images(options.files)
    setup = Setup("bytes", folder, options.batch_size, options.workers, options.threads, device_id(options))
    session = Session(setup, options.rounds, options.seconds, budget, say)
    document = _empty(session, options)
    parts = {
        "pixels": _pixels, "throughput": _throughput, "graphs": _graphs, "timeline": _timeline, "sizes": _sizes,
        "training": _training, "gil": _gil, "neighbours": _neighbours, "mps": _mps,
    }  # fmt: skip
    for name in PARTS:
        if name in options.only and budget.allows(name):
            say(name)
            with session.guarded(name):
                parts[name](session, options, document)
            _save(session, options, document)
    print("\n" + goals.summary(document), flush=True)
    for name, text in session.failures.items():
        print(f"failed: {name}: {text.strip().splitlines()[-1]}")
    if budget.left_out:
        print(f"Skipped, because {budget.limit:.0f} s were over: " + "; ".join(budget.left_out))
    path = _save(session, options, document)
    print(f"Saved {path.name} after {budget.elapsed:.0f} s.")
    with session.guarded("the images"):
        print(plot_all(document, path.with_suffix(".png")))
        if "timeline" in document:
            drawn = path.with_name(f"{path.stem}-timeline.png")
            print(timeline.plot_timeline(document["timeline"], document, drawn))
    right = all(check["good"] for check in document.get("pixels", {}).get("checks", []))
    if not right:
        print("PIXELS ARE WRONG, so the timings are meaningless.")
    return right


def parser() -> argparse.ArgumentParser:
    """Create the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu",
        description="Check pixels, measure rates, graphs, training and sizes, record a timeline; print tables and "
        "goals, save JSON and plots. Takes less than nine minutes on a GPU.",
    )
    cores = core_count()
    add = made.add_argument
    usual = [part for part in PARTS if part not in ON_REQUEST]
    add("--only", nargs="+", choices=PARTS, default=usual, help="parts to run (default: %(default)s)")
    add(
        "--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="what datasets pass to the loader (default: all)"
    )
    add("--rounds", type=int, default=3, help="measurements of each rival (default: %(default)s)")
    add("--seconds", type=float, default=1.0, help="length of one measurement (default: %(default)s)")
    add("--limit", type=float, default=530.0, help="seconds after which no further part starts (default: %(default)s)")
    add("--batch-size", type=int, default=256, help="samples in a batch (default: %(default)s)")
    add("--workers", type=int, default=max(2, cores - 2), help="dataset worker processes (default: %(default)s)")
    add("--threads", type=int, default=max(2, cores // 2), help="threads of the pipelines (default: %(default)s)")
    add("--files", type=int, default=4096, help="number of JPEGs to create (default: %(default)s)")
    add("--device", default="cuda:0", help="cuda:0, or cpu to try the program without a GPU (default: %(default)s)")
    add("--network", default="resnet50", help="torchvision's model, or tiny (default: %(default)s)")
    add("--train-batches", nargs="+", type=int, default=list(training.BATCH_SIZES), help="(default: %(default)s)")
    add("--train-seconds", type=float, default=4.0, help="length of each training (default: %(default)s)")
    kinds = training.LAUNCHES
    add("--launches", nargs="+", choices=kinds, default=list(kinds), help="kinds of training (default: %(default)s)")
    names = {loader.name for device_id in (0, None) for loader in training.loaders(device_id)}
    add("--loaders", nargs="*", default=[], choices=sorted(names), help="loaders to train from (default: all)")
    add("--counting", type=int, default=0, help="processes that only count during training (default: %(default)s)")
    curves = sorted({each.series for each in sizes.VARIANTS if each.series})
    add("--series", nargs="+", choices=curves, help="curves of the part `sizes` (default: all its measurements)")
    add("--output", type=Path, default=RESULTS, help="folder of JSON and plots (default: benchmarks/results)")
    return made


def _empty(session: Session, options: argparse.Namespace) -> Document:
    """Return the document before any measurement; the description of the machine follows at the end."""
    setup = session.setup
    return {
        "date": date.today().isoformat(),
        "command": command(options, "python -m benchmarks.gpu"),
        "setup": {"batch_size": setup.batch_size, "workers": setup.workers, "threads": setup.threads},
        "kinds": {},
    }


def _pixels(session: Session, options: argparse.Namespace, document: Document) -> None:
    tiny = options.device == "cpu"
    checks = pixels.check_pixels(session, pixels.TINY if tiny else pixels.VARIANTS)
    print(f"Pixels compared with the CPU's: mean <= {pixels.MEAN_BOUND:g}, largest <= {pixels.MAX_BOUND:g} of 255")
    print("\n".join(map(str, checks)) + "\n", flush=True)
    document["pixels"] = pixels.as_json(checks)


def _throughput(session: Session, options: argparse.Namespace, document: Document) -> None:
    results = measure_throughput(session, options.kinds, RIVALS)
    sizes_of_files = [path.stat().st_size for path in session.setup.folder.iterdir()]
    measured = as_json(results, {}, REFERENCE, document["command"], sum(sizes_of_files) / len(sizes_of_files))
    del measured["costs"]
    for result in results:
        entry = measured["kinds"][result.setup.kind]
        entry["gpu_memory_MiB"] = result.gpu_memory
        entry["reports"] = result.reports
    document.update(measured)


def _graphs(session: Session, options: argparse.Namespace, document: Document) -> None:
    tiny, setup = options.device == "cpu", session.setup
    graphs, sizes_of_batches = (["small"], [4]) if tiny else (list(GRAPHS), [64])
    print(HEAD, flush=True)
    document["graphs"] = []
    for result in measure_all(
        graphs,
        sizes_of_batches,
        GraphSetup(setup.files, setup.threads, setup.device_id, GRAPH_ROUNDS, GRAPH_SECONDS, has_dali()),
        session.budget,
    ):
        print(line(result), flush=True)
        document["graphs"].append(graph_as_json(result))


def _timeline(session: Session, options: argparse.Namespace, document: Document) -> None:
    document["timeline"] = timeline.record_timeline(session)


def _training(session: Session, options: argparse.Namespace, document: Document) -> None:
    rivals = training.loaders(session.setup.device_id)
    if options.loaders:
        rivals = [rival for rival in rivals if rival.name in options.loaders]
    with neighbours.counting(options.counting):
        _train(session, options, document, rivals)


def _gil(session: Session, options: argparse.Namespace, document: Document) -> None:
    print(f"What a loop of batches of {gil.BATCH} loses to its loader", flush=True)
    document["gil"] = []
    for lost in gil.measure_gil(session, training.loaders(session.setup.device_id)):
        print(lost, flush=True)
        document["gil"].append(gil.as_json(lost))


def _neighbours(session: Session, options: argparse.Namespace, document: Document) -> None:
    print("Training while other processes only count", flush=True)
    found = []
    for beside in neighbours.measure_neighbours(session, options.network):
        print(beside, flush=True)
        found.append(beside)
    document["neighbours"] = neighbours.as_json(found)


def _mps(session: Session, options: argparse.Namespace, document: Document) -> None:
    with multi_process_service():
        _train(session, options, document, [Ours("with MPS: ours, process, server", placement="server")])


def _train(session: Session, options: argparse.Namespace, document: Document, rivals: list[Rival]) -> None:
    """Add the shares of the given loaders to the document."""
    empty: Document = {"network": options.network, "kind": training.KIND, "shares": []}
    entry = document.setdefault("training", empty)
    if options.network != "tiny" and (reason := training.missing()):
        entry["missing"] = reason
        print(f"  Training is skipped: {reason}.", flush=True)
        return
    wanted = (options.train_batches, options.train_seconds, options.network, options.launches)
    for share in training.measure_training(session, rivals, *wanted):
        print(share, flush=True)
        entry["shares"].append(training.as_json(share))
        _save(session, options, document)


def _sizes(session: Session, options: argparse.Namespace, document: Document) -> None:
    tiny = options.device == "cpu"
    chosen = [each for each in sizes.VARIANTS if not options.series or each.series in options.series]
    document["sizes"] = sizes.as_json(sizes.measure_sizes(session, sizes.TINY if tiny else chosen))


def _save(session: Session, options: argparse.Namespace, document: Document) -> Path:
    document["machine"] = describe_machine()
    document["versions"] = describe_versions()
    document["goals"] = goals.as_json(document)
    document["failures"] = session.failures
    document["left_out"] = session.budget.left_out
    document["seconds"] = round(session.budget.elapsed, 1)
    return save(document, options.output, device_id(options), SUFFIX)


if __name__ == "__main__":
    sys.exit(main())
