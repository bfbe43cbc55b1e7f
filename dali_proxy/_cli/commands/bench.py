"""``dali-proxy bench``."""

from __future__ import annotations

import argparse
import importlib.util
import json
import runpy
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dali_proxy._cli.command import Command, CommandError
from dali_proxy._cli.targets import add_inputs, add_target, input_values, load_callable, load_pipeline

if TYPE_CHECKING:
    from dali_proxy._benchmark import Report, Result

_DESCRIPTION = """\
Measure a pipeline on a folder of images, beside torch's DataLoader, and advise on workers, threads and placement.

Without --torch, torch's loader decodes and resizes by PIL and does nothing else, so your own transforms take longer.
Nothing trains meanwhile, so the figures are upper bounds. In a checkout of the repository, --repository runs its
benchmarks, with their own options."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser, nargs="?")
    add = parser.add_argument
    add("folder", metavar="FOLDER", type=Path, nargs="?", help="folder of images")
    add_inputs(parser)
    add("--torch", metavar="FUNCTION", help="your present transform for torch's DataLoader: FILE.py:NAME or "
        "MODULE:NAME, a function of a file's path")  # fmt: skip
    add("--workers", type=_counts, default=[], metavar="N,N", help="numbers of dataset workers to try")
    add("--threads", type=_counts, default=[], metavar="N,N", help="numbers of pipeline threads to try")
    add("--batch-size", type=int, default=64, help="samples in a batch (default: %(default)s)")
    add("--seconds", type=float, default=3.0, help="length of a measurement (default: %(default)s)")
    add("--rounds", type=int, default=3, help="measurements of the best one beside torch (default: %(default)s)")
    add("--json", action="store_true", help="print JSON")
    add("--repository", nargs=argparse.REMAINDER, metavar="OPTION", help="run the benchmarks of a checkout instead")


def _counts(text: str) -> list[int]:
    words = text.split(",")
    if not all(word.isdecimal() for word in words):
        raise argparse.ArgumentTypeError(f"must be numbers such as 1,2,4, not {text!r}")
    return [int(word) for word in words]


def _execute(options: argparse.Namespace) -> int:
    if options.repository is not None:
        return _run_repository(options.repository)
    if options.pipeline is None or options.folder is None:
        raise CommandError("PIPELINE and FOLDER are required", status=2)
    if options.batch_size < 1 or options.seconds <= 0 or options.rounds < 1 or 0 in options.threads:
        raise CommandError("--batch-size, --seconds, --rounds and --threads must be positive", status=2)
    from tqdm import tqdm

    from dali_proxy._benchmark import Bench, Report, recommend
    from dali_proxy.pipeline._definition.file_inputs import find_images

    pipe = load_pipeline(options, options.folder)
    if not pipe.input_names:
        raise CommandError("the pipeline has no input, but bench feeds it from a dataset: begin with external_source")
    files = find_images(options.folder)
    plain = None if options.torch is None else load_callable(options.torch)
    bench = Bench(
        pipe, files, input_values(options), batch_size=options.batch_size, seconds=options.seconds, plain=plain
    )
    with tqdm(bar_format="{desc} [{elapsed}]", leave=False, disable=None) as line:
        for step in recommend(bench, options.workers, options.threads, options.rounds):
            if isinstance(step, Report):
                line.close()  # else the report would begin behind it, on the same line
                print(_as_json(step) if options.json else _as_text(step, len(files), options.batch_size))
            else:
                line.set_description_str(f"measuring {step}")
    return 0


def _as_json(report: Report) -> str:
    document = {
        "results": [result.as_dict() for result in report.results],
        "ours": [result.as_dict() for result in report.ours],
        "torch": [result.as_dict() for result in report.plain],
        "torch_work": report.plain_work,
        "speedup": report.speedup,
        "cpu_ratio": report.cpu_ratio,
        "advice": report.advice,
    }
    return json.dumps(document, indent=2)


def _as_text(report: Report, files: int, batch_size: int) -> str:
    lines = [f"{files} files, batches of {batch_size}", "", f"{'':48}{'samples/s':>10}{'CPU ms/sample':>15}"]
    lines += [f"{result.configuration!s:48}{result.rate:10,.0f}{result.cpu:15.2f}" for result in report.results]
    lines += ["", f"{len(report.ours)} round{'s' * (len(report.ours) > 1)} in turn:"]
    for name, results in (("dali-proxy", report.ours), ("torch", report.plain)):
        label = f"{name}, {results[0].configuration}"
        lines.append(f"{label:48}{_median(results, 'rate'):10,.0f}{_median(results, 'cpu'):15.2f}")
    lines.append(
        f"dali-proxy: {report.speedup:.2f} times as many samples/s, and {report.cpu_ratio:.2f} times as many for the "
        "same processor time"
    )
    return "\n".join([*lines, f"(torch: {report.plain_work})", "", *report.advice])


def _median(results: tuple[Result, ...], name: str) -> float:
    return float(statistics.median(getattr(result, name) for result in results))


def _run_repository(arguments: list[str]) -> int:
    """Run the benchmarks, which only the repository has, not the installed package."""
    sys.path.insert(0, str(Path.cwd()))
    if importlib.util.find_spec("benchmarks") is None:
        raise CommandError("--repository needs a checkout of the repository, which has the benchmarks")
    sys.argv = ["dali-proxy bench", *arguments]
    runpy.run_module("benchmarks", run_name="__main__", alter_sys=False)
    return 0


COMMAND = Command("measure a pipeline beside torch's DataLoader, with advice", _execute, _add_arguments, _DESCRIPTION)
